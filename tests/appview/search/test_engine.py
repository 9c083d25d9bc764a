"""Answers: modes, breakdown, order, what is hidden, what is gone, any text at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appview.memory.scope import EVERYTHING, Attribute, Scope, Subtree
from appview.memory.store import SpaceStore
from appview.memory.values import Filters
from appview.search import keyword
from appview.search.analysis import ANALYSIS
from appview.search.engine import Searcher, SearchRequest, search
from appview.search.errors import ModelChanged, NothingAsked
from appview.search.highlights import MAX_WORDS
from appview.search.hits import MAX_SPARE, similarity
from appview.search.tuning import read_tuning
from lexicons.errors import UnusableVector
from lexicons.models import ModelKey
from tests.appview.search.support import BOB, CONFIG, MODEL, NOW, SPACE, Doc, Filler, halves

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.search.engine import SearchResult

EAST = halves(1, 0, 0, 0)
QUERIES = [
    SearchRequest("water the tomatoes", EAST),
    SearchRequest("water tomatoes", EAST, "vector"),
    SearchRequest("the tomatoes -soil", mode="keyword", limit=50),
    SearchRequest('"water the" toma* secret', EAST, limit=3),
    SearchRequest("secret plan", EAST, filters=Filters(tags=("k=v",), since=1)),
    SearchRequest("moon", EAST, filters=Filters(path="/p")),
    SearchRequest(" ".join(f"n{number}" for number in range(12)), EAST),
]
# What has broken full-text engines: operators, quotes, columns, wildcards, NUL, surrogates, sheer length.
INJECTIONS = [
    *['"', '""', '"""', "'", "`", "*", "**", "^", "^tomato", "(", ")", "()", "((", "{", "}", "[", "]", "\\"],
    *["tomato AND", "AND", "OR", "NOT", "NOT tomato", "tomato NOT", "NEAR", "NEAR(", "NEAR(tomato water, 5)"],
    *["text:tomato", "exact : tomato", "{text tags} : tomato", "- text : tomato", "rowid:1", "facts_fts:1"],
    *[
        '"tomato" * ',
        '"tomato"*',
        'tomato"',
        '"tomato',
        '-"',
        '-""',
        '"a"b"c"',
        "tomato + water",
        "a+b",
        "=tomato",
    ],
    *[
        "tomato\x00water",
        '"tomato\x00"',
        "\x00",
        "\ud800",
        "tomato\ud800 \udfff",
        "\uffff",
        "\ufeff",
        "\u202e",
    ],
    *[
        "'; DROP TABLE facts; --",
        "1; SELECT 1",
        "%",
        "_",
        "tom%",
        "?",
        "?1",
        ":a",
        "@a",
        "$a",
        "--",
        "/*",
        "*/",
    ],
    *[
        "OR " * 1_300,
        "a " * 2_000,
        '"' * 4_000,
        "(" * 4_000,
        "-" * 4_000,
        "x" * 4_000,
        "a* " * 1_300,
        "é" * 2_000,
    ],
    *['"a b" ' * 600, "-a " * 1_300, "東" * 1_300, "👩‍💻" * 300, "\n\t\r\v\f", "a\nb\tc", "tomato " * 500],
]


def plain(result: SearchResult) -> list[Any]:
    """Write an answer without the numbers of rows, which no caller sees."""
    return [replace(hit, fact=replace(hit.fact, id=0)) for hit in result.hits] + [
        result.mode,
        result.approximate,
    ]


def rkeys(result: SearchResult) -> list[str]:
    return [hit.fact.rkey for hit in result.hits]


async def test_a_hit_says_why_it_is_there(space: Filler, searcher: Searcher) -> None:
    one, two, three = await space.add(
        Doc("Watered the Tomatoes; tomatoes like WATER", vector=(1, 0, 0, 0)),
        Doc("moon and tides", vector=(1, 1, 0, 0)),
        Doc("tomato soup", vector=(0, 1, 0, 0)),
    )
    result = await searcher.search(space.store, SearchRequest("watering tomatoes", EAST), EVERYTHING)
    assert (result.mode, result.approximate) == ("hybrid", False)
    assert rkeys(result) == [one, two, three]
    best, middle, last = result.hits
    assert best.words == ("Watered", "Tomatoes", "WATER")
    assert best.similarity == 1000
    assert middle.words == ()
    assert middle.similarity == 707
    assert middle.keyword is not None
    assert middle.keyword.raw == middle.keyword.contribution == 0.0  # no word matches: a genuine 0
    assert last.vector is not None
    assert last.vector.raw == pytest.approx(0.0)
    assert last.words == ("tomato",)
    for hit in result.hits:
        assert hit.keyword is not None
        assert hit.vector is not None
        assert hit.context is not None
        parts = (hit.keyword, hit.vector, hit.context)
        assert sum(part.weight for part in parts) == pytest.approx(1.0)
        assert sum(part.contribution for part in parts) == pytest.approx(hit.score)


async def test_a_candidate_of_one_arm_has_its_score_in_the_other(space: Filler) -> None:
    searcher = Searcher(tuning=read_tuning("context=0"))
    near = [Doc("soil", vector=(1, 0.001 * number, 0, 0)) for number in range(150)]
    await space.add(*near)
    (far,) = await space.add(Doc("a moon", vector=(0.6, 0, 0.8, 0)))
    wide = await searcher.search(space.store, SearchRequest("moon", EAST, limit=50), EVERYTHING)
    (by_word,) = [found for found in wide.hits if found.fact.rkey == far]
    assert by_word.similarity == 600


@pytest.mark.parametrize(
    ("request_", "mode"),
    [
        (SearchRequest("tomato"), "keyword"),
        (SearchRequest("tomato", mode="vector"), "keyword"),
        (SearchRequest("tomato", EAST, "keyword"), "keyword"),
        (SearchRequest(None, EAST), "vector"),
        (SearchRequest(None, EAST, "keyword"), "vector"),
        (SearchRequest("tomato", EAST, "vector"), "vector"),
        (SearchRequest("tomato", EAST), "hybrid"),
        (SearchRequest("?!", EAST), "vector"),
        (SearchRequest("?!", EAST, "keyword"), "keyword"),
    ],
)
async def test_the_mode_tells_what_ran(
    space: Filler, searcher: Searcher, request_: SearchRequest, mode: str
) -> None:
    await space.add("tomato")
    result = await searcher.search(space.store, request_, EVERYTHING)
    assert result.mode == mode
    for hit in result.hits:
        assert (hit.keyword is not None) == (mode != "vector")
        assert (hit.vector is not None) == (hit.similarity is not None) == (mode != "keyword")
    assert len(result.hits) == (0 if request_.text == "?!" and mode == "keyword" else 1)


async def test_a_question_needs_text_or_vector(space: Filler, searcher: Searcher) -> None:
    with pytest.raises(NothingAsked):
        await searcher.search(space.store, SearchRequest(), EVERYTHING)


@pytest.mark.parametrize("vector", [b"", EAST[:-2], EAST + EAST, bytes(8), b"\x00\x7e" * 4, b"\x00\x7c" * 4])
async def test_a_vector_that_is_not_of_the_model_is_refused(
    space: Filler, searcher: Searcher, vector: bytes
) -> None:
    await space.add("tomato")
    with pytest.raises(UnusableVector):
        await searcher.search(space.store, SearchRequest("tomato", vector), EVERYTHING)


async def test_a_vector_of_another_model_than_the_space_has_now_is_refused(
    space: Filler, searcher: Searcher
) -> None:
    await space.add("tomato")
    other = ModelKey("other", "sha256:o", 4)
    with pytest.raises(ModelChanged):
        await searcher.search(space.store, SearchRequest(None, EAST, model=other), EVERYTHING)
    assert (await searcher.search(space.store, SearchRequest(None, EAST, model=MODEL), EVERYTHING)).hits


async def test_a_space_without_config_or_memories_has_no_answer(
    store: SpaceStore, searcher: Searcher
) -> None:
    assert (await searcher.search(store, SearchRequest("tomato", EAST), EVERYTHING)).hits == ()
    await store.configure(None)
    assert (await searcher.search(store, SearchRequest("tomato", EAST), EVERYTHING)).hits == ()


async def test_equal_scores_are_ordered_by_time_author_and_key(space: Filler, searcher: Searcher) -> None:
    late, early = "2026-11-30T10:00:00.000Z", "2026-11-30T08:00:00.000Z"
    a, b, c, d, e = await space.add(
        Doc("moon", created_at=early),
        Doc("moon", created_at=late),
        Doc("moon"),
        Doc("moon"),
        Doc("moon", author=BOB),
    )
    for mode in ("keyword", "vector", "hybrid"):
        request = SearchRequest("moon", EAST, mode)  # type: ignore[arg-type]
        assert rkeys(await searcher.search(space.store, request, EVERYTHING)) == [b, e, d, c, a]
        cut = await searcher.search(space.store, replace(request, limit=2), EVERYTHING)
        assert rkeys(cut) == [b, e]


@pytest.mark.parametrize("count", [MAX_SPARE + 2, MAX_SPARE + 3])
async def test_many_equal_scores_are_in_the_same_order(space: Filler, searcher: Searcher, count: int) -> None:
    """Few are read whole to put them in order, of more only what orders them."""
    added = await space.add(*["moon"] * count)
    for mode in ("keyword", "vector"):
        request = SearchRequest("moon", EAST, mode, 2)  # type: ignore[arg-type]
        assert rkeys(await searcher.search(space.store, request, EVERYTHING)) == added[:-3:-1]


async def test_what_is_deleted_or_replaced_is_gone_from_both_arms(space: Filler, unbounded: Searcher) -> None:
    one, two, three = await space.add("moon", "moon", Doc("soil", vector=(0, 1, 0, 0)))

    async def ask(request: SearchRequest) -> list[str]:
        return sorted(rkeys(await unbounded.search(space.store, request, EVERYTHING)))

    everything = [SearchRequest("moon soil"), SearchRequest(None, EAST), SearchRequest("moon soil", EAST)]
    for request in everything:
        assert await ask(request) == [one, two, three]
    await space.delete(one)
    for request in everything:
        assert await ask(request) == [two, three]
    await space.replace(two, Doc("tides", vector=(0, 0, 1, 0)))
    assert await ask(SearchRequest("moon")) == []
    assert await ask(SearchRequest("tides")) == [two]
    (hit,) = [
        hit
        for hit in (await unbounded.search(space.store, SearchRequest(None, EAST), EVERYTHING)).hits
        if hit.fact.rkey == two
    ]
    assert (hit.fact.text, hit.similarity) == ("tides", 0)
    (added,) = await space.add("moon again")
    assert await ask(SearchRequest("moon")) == [added]


async def test_a_promoted_model_answers_with_its_own_vectors(space: Filler, searcher: Searcher) -> None:
    following = ModelKey("next", "sha256:n", 3)
    (old,) = await space.add("moon")
    assert (await searcher.search(space.store, SearchRequest(None, EAST), EVERYTHING)).hits[
        0
    ].similarity == 1000
    config = CONFIG.with_next(following).promote()
    await space.store.configure(config)
    north = halves(0, 1, 0)
    assert (await searcher.search(space.store, SearchRequest(None, north), EVERYTHING)).hits == ()
    (new,) = await space.add(Doc("moon", vector=(0, 1, 0)), model=following)
    result = await searcher.search(space.store, SearchRequest("moon", north), EVERYTHING)
    assert rkeys(result) == [new]
    await space.store.configure(CONFIG)
    result = await searcher.search(space.store, SearchRequest("moon", EAST), EVERYTHING)
    assert rkeys(result) == [old]


@pytest.mark.parametrize(
    "scope",
    [
        Scope(frozenset({Subtree("/")}), frozenset({Subtree("/secret")})),
        Scope(frozenset({Subtree("/p"), Attribute("k", "v")}), frozenset({Subtree("/secret")})),
    ],
    ids=["deny", "allow"],
)
async def test_hidden_facts_change_nothing_that_a_caller_sees(
    tmp_path: Path, executor: ThreadPoolExecutor, searcher: Searcher, scope: Scope
) -> None:
    shown = [
        Doc("water the tomatoes", ("/p",), vector=(1, 0.2, 0, 0)),
        Doc("the tomatoes need soil and water", ("/p/q", "k=v"), vector=(1, 0.5, 0, 0)),
        Doc("moon plan", ("/q", "k=v"), "https://moon.example", (0, 1, 0, 0)),
        Doc("tomorrow", ("/p",), vector=(0.5, 0.5, 0, 1)),
        Doc(" ".join(f"n{n}" for n in range(12) for _ in range(n + 1)), ("/p",)),
    ]
    hidden = [Doc(f"secret tomato plan the moon water {n % 7}", ("/secret",)) for n in range(250)]
    hidden += [
        Doc(" ".join(f"n{m}" for m in range(12) if (m * 7) % 12 <= n), ("/secret",)) for n in range(12)
    ]
    answers = []
    for name, extra in (("with", hidden), ("without", [])):
        store = await SpaceStore.open(tmp_path / name, SPACE, executor, lambda: NOW, analyser=ANALYSIS)
        await store.configure(CONFIG)
        space = Filler(store)
        await space.add(*shown[:2])
        await Filler(store).add(*[replace(doc, author=BOB) for doc in extra])
        await space.add(*shown[2:])
        answers.append([plain(await searcher.search(store, request, scope)) for request in QUERIES])
        await store.close()
    assert answers[0] == answers[1]
    assert all(answer[:-2] for answer in answers[0][:3])


@pytest.mark.parametrize("text", INJECTIONS, ids=lambda text: ascii(text[:24]))
async def test_no_text_raises(space: Filler, text: str) -> None:
    await space.add("tomato water", Doc("a b c 東東", ("x",)))
    for mode in ("keyword", "hybrid"):
        result = await search(space.store, SearchRequest(text, EAST, mode), EVERYTHING)  # type: ignore[arg-type]
        assert len(result.hits) <= 2


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=20))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_random_text_raises_and_each_finds_itself(
    texts: list[str], tmp_path_factory: pytest.TempPathFactory, executor: ThreadPoolExecutor
) -> None:
    async def run() -> None:
        folder = tmp_path_factory.mktemp("space")
        store = await SpaceStore.open(folder / "a.db", SPACE, executor, lambda: NOW, analyser=ANALYSIS)
        await store.configure(CONFIG)
        written = [text.encode(errors="ignore").decode() for text in texts]
        keys = await Filler(store).add(*written)
        for key, text in zip(keys, written, strict=True):
            result = await search(store, SearchRequest(text, limit=50), EVERYTHING)
            said = [words for words in ANALYSIS.read(text) if words.stems]
            operators = any(mark in text for mark in '"-*')
            assert key in rkeys(result) or not said or operators
        await store.close()

    asyncio.run(run())


async def test_reading_stops_at_the_budget_and_says_so(
    space: Filler, searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    await space.add(*["soil soil"] * 100)
    (rare,) = await space.add("moon soil")
    request = SearchRequest("moon soil so*", mode="keyword", limit=50)
    monkeypatch.setattr(keyword, "MAX_OCCURRENCES", 1_000)
    assert not (await searcher.search(space.store, request, EVERYTHING)).approximate
    monkeypatch.setattr(keyword, "MAX_OCCURRENCES", 50)
    monkeypatch.setattr(keyword, "MAX_POSTINGS", 50)
    result = await searcher.search(space.store, request, EVERYTHING)
    assert result.approximate
    assert rkeys(result)[0] == rare


async def test_a_hit_names_a_bounded_number_of_words(space: Filler, searcher: Searcher) -> None:
    text = " ".join(f"w{number}" for number in range(MAX_WORDS + 1))
    await space.add(text)
    (hit,) = (await searcher.search(space.store, SearchRequest(text), EVERYTHING)).hits
    assert len(hit.words) == MAX_WORDS


@pytest.mark.parametrize(
    ("cosine", "thousandths"),
    [
        (1.0, 1000),
        (0.9999999999999999, 1000),
        (1.0000000000000002, 1000),
        (0.9996, 999),
        (0.5, 500),
        (-0.3, 0),
        (0.0009, 0),
    ],
)
def test_similarity_is_cut_off_in_thousandths(cosine: float, thousandths: int) -> None:
    assert similarity(cosine) == thousandths
