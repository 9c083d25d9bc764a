"""What a question may wish beside words and vector: profiles, similar ones, collapse, a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from appview.memory.forgetting import DAY_MICROS
from appview.memory.scope import EVERYTHING, Exact, Scope
from appview.memory.strength import Recall
from appview.memory.superseding import Succession
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest
from appview.search.errors import NoSuchMemory
from appview.search.signals import PROFILES, RELEVANCE
from appview.search.trace import TermTrace
from appview.search.tuning import read_tuning
from lexicons.datetimes import Datetime
from lexicons.syntax import AtUri
from tests.appview.search.support import ALICE, NOW, Doc, halves

if TYPE_CHECKING:
    from appview.search.engine import Hit, Mode, SearchResult
    from tests.appview.search.support import Filler

EAST, NEAR, NORTH = (1.0, 0.0, 0.0, 0.0), (1.0, 0.5, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)
FAR = (1.0, 3.0, 0.0, 0.0)
READER = Scope(frozenset({Exact("/")}))
CAROL = "did:plc:carol"


@pytest.fixture(params=["file", "cache"])
def searcher(request: pytest.FixtureRequest) -> Searcher:
    """Whoever searches answers alike, from the file alone and from memory; the clock stands."""
    return Searcher(cache=ViewCache(ANALYSIS) if request.param == "cache" else None, now=lambda: NOW)


def days_ago(number: float) -> str:
    return Datetime.from_micros(NOW - round(number * DAY_MICROS))


def uri(rkey: str) -> AtUri:
    return AtUri(f"at://{ALICE}/garden.engram.memory/{rkey}")


def texts(result: SearchResult) -> list[str]:
    return [hit.fact.text for hit in result.hits]


def sums_up(hit: Hit) -> bool:
    parts = [
        part for part in (hit.keyword, hit.vector, hit.context, *hit.signals.values()) if part is not None
    ]
    return hit.score == pytest.approx(sum(part.contribution for part in parts if part is not None))


async def test_recent_prefers_the_new_among_what_is_as_relevant(space: Filler, searcher: Searcher) -> None:
    await space.add(Doc("moon old", created_at=days_ago(90)), Doc("moon new", created_at=days_ago(1)))
    await space.add(Doc("moon moon older", created_at=days_ago(300)))
    request = SearchRequest("moon")
    assert texts(await searcher.search(space.store, request, EVERYTHING))[0] == "moon moon older"
    result = await searcher.search(space.store, replace(request, mix=PROFILES["recent"]), EVERYTHING)
    assert texts(result)[0] == "moon new"
    assert all(sums_up(hit) for hit in result.hits)
    assert result.hits[0].signals["recency"].raw == pytest.approx(1.0)


async def test_importance_comes_from_the_memory_or_its_path(space: Filler, searcher: Searcher) -> None:
    await space.add(
        Doc("moon high", ("importance=9",)),
        Doc("moon low", ("importance=2",)),
        Doc("moon of a path", ("/weighty",)),
        Doc("moon nonsense", ("importance=11",)),
        Doc("moon unknown"),
    )
    await space.store.set_path_tag("/weighty", "importance", "10")
    mix = RELEVANCE.given({"importance": 1.0})
    result = await searcher.search(space.store, SearchRequest("moon", mix=mix, limit=9), EVERYTHING)
    raw = {hit.fact.text: hit.signals["importance"].raw for hit in result.hits if "importance" in hit.signals}
    assert raw == {"moon high": 9, "moon low": 2, "moon of a path": 10}
    assert texts(result)[-1] == "moon low"
    unknown = next(hit for hit in result.hits if hit.fact.text == "moon unknown")
    assert unknown.missing["importance"] == "unknown"
    assert unknown.missing["recency"] == "switched-off"


async def test_what_is_pointed_to_counts_as_far_as_it_can_be_read(space: Filler, searcher: Searcher) -> None:
    one, other = await space.add("moon one", "moon other")
    await space.add(
        Doc(f"see {uri(other)}"),
        Doc("a", (f"derived-from={other}", f"caused-by={other}")),
        Doc("b", ("/secret", f"derived-from={one}")),
        Doc("c", ("/secret", f"derived-from={one}")),
        Doc("d", ("/secret", f"derived-from={one}")),
        Doc("e", (f"contradicts={one}",)),
    )
    request = SearchRequest("moon", mix=RELEVANCE.given({"links": 1.0}))
    result = await searcher.search(space.store, request, EVERYTHING)
    assert {hit.fact.rkey: hit.signals["links"].raw for hit in result.hits} == {one: 3, other: 2}
    assert result.hits[0].fact.rkey == one
    result = await searcher.search(space.store, request, READER)
    assert {hit.fact.rkey: hit.signals["links"].raw for hit in result.hits} == {one: 0, other: 2}
    assert result.hits[0].fact.rkey == other


async def test_strength_is_the_callers_own(space: Filler, searcher: Searcher) -> None:
    one, other = await space.add(
        Doc("moon one", created_at=days_ago(9)), Doc("moon other", created_at=days_ago(9))
    )
    await space.store.reinforce([Recall(ALICE, one, CAROL, NOW - DAY_MICROS)])
    await space.store.reinforce([Recall(ALICE, other, "did:plc:dave", NOW - DAY_MICROS, for_space=True)])
    request = SearchRequest("moon", mix=RELEVANCE.given({"strength": 1.0}))
    anonymous = await searcher.search(space.store, request, EVERYTHING)
    assert anonymous.hits[0].fact.rkey == other
    carol = await searcher.search(space.store, replace(request, subject=CAROL), EVERYTHING)
    assert {hit.fact.rkey: round(hit.signals["strength"].raw, 2) for hit in carol.hits} == {
        one: 0.77,
        other: 0.77,
    }
    await space.store.reinforce([Recall(ALICE, one, CAROL, NOW)])
    carol = await searcher.search(space.store, replace(request, subject=CAROL), EVERYTHING)
    assert carol.hits[0].fact.rkey == one
    assert carol.hits[0].signals["strength"].raw == 1.0


async def test_nothing_asked_gives_the_strongest(space: Filler, searcher: Searcher) -> None:
    old, middle, new = await space.add(*[Doc(f"age {age}", created_at=days_ago(age)) for age in (40, 20, 10)])
    await space.store.reinforce([Recall(ALICE, old, CAROL, NOW - 2 * DAY_MICROS)])
    request = SearchRequest(limit=2, subject=CAROL)
    result = await searcher.strongest(space.store, request, EVERYTHING)
    assert ([hit.fact.rkey for hit in result.hits], result.mode) == ([old, new], "strength")
    assert all(sums_up(hit) for hit in result.hits)
    everybody = await searcher.strongest(space.store, SearchRequest(), EVERYTHING)
    assert [hit.fact.rkey for hit in everybody.hits] == [new, middle, old]
    await space.add(Doc("hidden", ("/secret",), created_at=days_ago(0)))
    narrowed = await searcher.strongest(space.store, SearchRequest(explain=True), READER)
    assert "hidden" not in texts(narrowed)
    assert narrowed.trace is not None
    assert (narrowed.trace.corpus, narrowed.trace.candidates) == (3, 3)


async def test_similar_to_searches_by_a_memorys_vector_without_it(space: Filler, searcher: Searcher) -> None:
    here, *_ = await space.add(Doc("here", vector=EAST), Doc("near", vector=NEAR), Doc("far", vector=FAR))
    request = SearchRequest(similar_to=uri(here))
    result = await searcher.search(space.store, request, EVERYTHING)
    assert (texts(result), result.mode) == (["near", "far"], "vector")
    assert [hit.similarity for hit in result.hits] == [894, 316]
    with_words = await searcher.search(space.store, replace(request, text="far"), EVERYTHING)
    assert (set(texts(with_words)), with_words.mode) == ({"near", "far"}, "hybrid")


async def test_similar_to_what_is_not_there_or_hidden_is_an_error(space: Filler, searcher: Searcher) -> None:
    secret, _ = await space.add(Doc("secret", ("/secret",)), "open")
    for missing in (secret, "absent"):
        with pytest.raises(NoSuchMemory):
            await searcher.search(space.store, SearchRequest(similar_to=uri(missing)), READER)


async def test_superseded_facts_are_found_on_request_alone(space: Filler, searcher: Searcher) -> None:
    (old,) = await space.add(Doc("moon old", vector=EAST))
    await space.add(Doc("moon new", (f"supersedes={old}",), vector=NORTH), Doc("else", vector=NEAR))
    for request in (
        SearchRequest("moon"),
        SearchRequest("moon", halves(*EAST)),
        SearchRequest(None, halves(*EAST)),
    ):
        result = await searcher.search(space.store, request, EVERYTHING)
        assert "moon old" not in texts(result)
        shown = replace(request, succession=Succession(shown=True))
        result = await searcher.search(space.store, shown, EVERYTHING)
        assert {hit.fact.text: hit.fact.superseded for hit in result.hits}["moon old"]
    assert "moon old" not in texts(await searcher.strongest(space.store, SearchRequest(), EVERYTHING))


async def test_who_cannot_read_what_supersedes_sees_what_was_superseded(
    space: Filler, searcher: Searcher
) -> None:
    (old,) = await space.add("moon old")
    await space.add(Doc("moon new", ("/secret", f"supersedes={old}")))
    assert texts(await searcher.search(space.store, SearchRequest("moon"), READER)) == ["moon old"]


async def test_duplicates_collapse_on_request(space: Filler, searcher: Searcher) -> None:
    await space.add(*[Doc(f"moon {number}", vector=EAST) for number in range(5)])
    await space.add(Doc("moon elsewhere", vector=NORTH), Doc("MOON  elsewhere", vector=(0.0, 0.0, 1.0, 0.0)))
    request = SearchRequest("moon", limit=2)
    plain = await searcher.search(space.store, request, EVERYTHING)
    assert [len(hit.alike) for hit in plain.hits] == [0, 0]
    result = await searcher.search(space.store, replace(request, collapse=True), EVERYTHING)
    assert [len(hit.alike) for hit in result.hits] == [1, 4]
    assert {fact.text for fact in result.hits[1].alike} | {result.hits[1].fact.text} == {
        f"moon {number}" for number in range(5)
    }


async def test_every_hit_says_who_found_it_and_why_a_part_is_missing(
    space: Filler, searcher: Searcher
) -> None:
    await space.add(Doc("moon", vector=NORTH), Doc("sun", vector=EAST))
    both = await searcher.search(space.store, SearchRequest("moon", halves(*EAST)), EVERYTHING)
    reasons = {hit.fact.text: hit.missing.get("keyword") for hit in both.hits}
    assert reasons == {"moon": None, "sun": "no-match"}
    assert {hit.fact.text: hit.found_by for hit in both.hits} == {
        "moon": ("keyword", "vector"),
        "sun": ("vector",),
    }

    async def missing(request: SearchRequest) -> tuple[str | None, str | None]:
        hit = (await searcher.search(space.store, request, EVERYTHING)).hits[0]
        return hit.missing.get("keyword"), hit.missing.get("vector")

    assert await missing(SearchRequest("moon")) == (None, "no-vector")
    assert await missing(SearchRequest("moon", mode="keyword")) == (None, "not-asked")
    assert await missing(SearchRequest("moon", halves(*EAST), mode="vector")) == ("not-asked", None)
    assert await missing(SearchRequest("?!", halves(*EAST))) == ("no-words", None)


async def test_context_that_has_no_part_says_why(space: Filler, searcher: Searcher) -> None:
    await space.add(Doc("moon", ("/a",), vector=NEAR), Doc("sun", ("/b",), vector=EAST))

    async def reason(searcher: Searcher, mode: Mode = "hybrid") -> str | None:
        request = SearchRequest("moon", halves(*EAST), mode)
        return (await searcher.search(space.store, request, EVERYTHING)).hits[0].missing.get("context")

    assert await reason(searcher) == "unknown"  # nothing stands beside either
    assert await reason(searcher, "keyword") == await reason(searcher, "vector") == "not-asked"
    assert await reason(Searcher(tuning=read_tuning("context=0"))) == "switched-off"
    await space.add(Doc("moonlight", ("/a",)))
    assert await reason(searcher) is None


async def test_signals_and_context_together_sum_up(space: Filler, searcher: Searcher) -> None:
    docs = [Doc(f"moon {number}", ("/a", f"importance={1 + number}"), vector=NEAR) for number in range(4)]
    await space.add(*docs, Doc("sun", ("/b",), vector=EAST))
    request = SearchRequest("moon", halves(*EAST), mix=PROFILES["balanced"])
    hits = (await searcher.search(space.store, request, EVERYTHING)).hits
    assert len(hits) == 5
    for hit in hits:
        assert hit.context is not None
        assert sums_up(hit)
        parts = [hit.keyword, hit.vector, hit.context, *hit.signals.values()]
        assert sum(part.weight for part in parts if part is not None) == pytest.approx(1.0)
    # What stands beside a hit is a hit with all its signals.
    assert {"recency", "strength", "links"} <= set.intersection(*[set(hit.signals) for hit in hits])


async def test_a_trace_tells_what_happened_to_the_question(space: Filler, searcher: Searcher) -> None:
    (old,) = await space.add("the moon is old")
    await space.add(
        Doc("the moon is new", (f"supersedes={old}",)),
        Doc("the moon sets", ("/x",)),
        Doc("sun", ("/secret",)),
    )
    request = SearchRequest('moon "is new" -sun blue', halves(*EAST), explain=True, mix=PROFILES["recent"])
    trace = (await searcher.search(space.store, request, EVERYTHING)).trace
    assert trace is not None
    assert (trace.corpus, trace.searched, trace.superseded) == (4, 1, 1)
    assert (trace.keyword, trace.vector, trace.candidates) == (1, 1, 1)
    assert trace.weights == {  # nothing stands around the one that is left
        "keyword": pytest.approx(0.36),
        "vector": pytest.approx(0.24),
        "recency": 0.4,
        "strength": 0,
        "importance": 0,
        "links": 0,
    }
    assert TermTrace("moon", 3, counted=True) in trace.terms
    assert not [term for term in trace.terms if "blue" in term.term]
    assert (trace.phrases, trace.excluded) == (("=is =new",), ("=sun",))
    assert (await searcher.search(space.store, replace(request, explain=False), EVERYTHING)).trace is None


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
@pytest.mark.parametrize("profile", ["relevance", "balanced"])
async def test_the_weights_of_a_trace_are_those_of_the_hits(
    space: Filler, cached: bool, mode: Mode, profile: str
) -> None:
    searcher = Searcher(cache=ViewCache(ANALYSIS) if cached else None)
    await space.add(Doc("moon", ("/a", "importance=3")), Doc("moons", ("/b", "importance=4")))
    request = SearchRequest("moon", halves(*EAST), mode, explain=True, mix=PROFILES[profile])
    for _ in range(2):  # nothing stands around at first, then something does
        result = await searcher.search(space.store, request, EVERYTHING)
        assert result.trace is not None
        hit = result.hits[0]
        parts = {"keyword": hit.keyword, "vector": hit.vector, "context": hit.context, **hit.signals}
        counted = {name: part.weight for name, part in parts.items() if part is not None}
        told = {name: weight for name, weight in result.trace.weights.items() if weight > 0.0}
        assert told == pytest.approx({name: weight for name, weight in counted.items() if weight > 0.0})
        assert sum(told.values()) == pytest.approx(1.0)
        await space.add(Doc("moonlight", ("/a", "importance=5")))


async def test_a_trace_counts_what_its_reader_may_read(space: Filler, searcher: Searcher) -> None:
    await space.add("moon", Doc("moon secret", ("/secret",)))
    request = SearchRequest("moon secret", explain=True)
    trace = (await searcher.search(space.store, request, READER)).trace
    assert trace is not None
    assert (trace.corpus, trace.searched, trace.terms) == (1, 1, (TermTrace("moon", 1, counted=True),))
