"""Where a hit holds the words of the question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from appview.memory.scope import EVERYTHING
from appview.memory.values import Fact
from appview.search.analysis import ANALYSIS
from appview.search.engine import SearchRequest
from appview.search.highlights import MAX_PLACES, MAX_WORDS, Place, highlights
from lexicons.syntax import AtUri, Did
from tests.appview.search.support import Doc

if TYPE_CHECKING:
    from appview.search.engine import Searcher
    from tests.appview.search.support import Filler


def fact(text: str, tags: tuple[str, ...] = (), source: str | None = None) -> Fact:
    uri = AtUri("at://did:plc:x/garden.engram.memory/a")
    return Fact(1, uri, "c", Did("did:plc:x"), "a", "/", text, tags, source, "", 0, 0)


def shown(of: Fact, place: Place) -> str:
    field = {"text": of.text, "tags": of.tags[place.index or 0] if of.tags else "", "source": of.source or ""}
    return field[place.field].encode()[place.start : place.end].decode()


async def test_positions_are_bytes_of_the_field_that_holds_the_word(
    space: Filler, searcher: Searcher
) -> None:
    await space.add(Doc("Zwölf Töpfe 🌱 für Tomaten", ("Garten", "tomaten"), "https://x.example/tomaten"))
    (hit,) = (await searcher.search(space.store, SearchRequest("tomaten töpfe"), EVERYTHING)).hits
    assert [(place.field, place.index, shown(hit.fact, place)) for place in hit.places] == [
        ("text", None, "Töpfe"),
        ("text", None, "Tomaten"),
        ("tags", 1, "tomaten"),
        ("source", None, "https://x.example/tomaten"),
    ]
    assert hit.places[0] == Place("text", 7, 13)
    assert hit.words == ("Töpfe", "Tomaten", "https://x.example/tomaten")


async def test_a_hit_of_the_vector_arm_alone_has_none(space: Filler, searcher: Searcher) -> None:
    await space.add("Tomatoes")
    (hit,) = (
        await searcher.search(space.store, SearchRequest(None, bytes.fromhex("003c") * 4), EVERYTHING)
    ).hits
    assert (hit.places, hit.words) == ((), ())


def test_long_memories_name_so_many_and_no_more() -> None:
    text = " ".join(f"Word{number} word" for number in range(MAX_PLACES))
    found = highlights(ANALYSIS.finder({"word", *[f"word{n}" for n in range(MAX_PLACES)]}), fact(text))
    assert (len(found.places), len(found.words)) == (MAX_PLACES, MAX_WORDS)


@given(
    st.text(st.sampled_from("tomato é🌱 ß東京.-_\u0301"), max_size=60),
    st.lists(st.text(st.sampled_from("tomato 京"), max_size=12), max_size=3),
    st.sampled_from(["tomato", "京", "東京 to", "é"]),
)
def test_every_place_is_whole_characters_in_order(text: str, tags: list[str], question: str) -> None:
    terms = {term for words in ANALYSIS.read(question) for term in (*words.wholes, *words.stems)}
    of = fact(text, tuple(tags))
    found = highlights(ANALYSIS.finder(terms), of)
    ends: dict[tuple[str, int | None], int] = {}
    for place in found.places:
        assert shown(of, place)
        assert ends.get((place.field, place.index), 0) <= place.start < place.end
        ends[place.field, place.index] = place.end
    assert {shown(of, place).casefold() for place in found.places} == {w.casefold() for w in found.words}
