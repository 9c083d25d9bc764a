"""Each arm against a slow oracle, and narrowing inside both."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Scope, Subtree
from appview.memory.values import Filters
from appview.search.analysis import ANALYSIS
from appview.search.engine import SearchRequest
from appview.search.query import read_question
from lexicons.embeddings import Embedding
from tests.appview.search.support import ALICE, BOB, MODEL, Doc, bm25, cosine, halves

if TYPE_CHECKING:
    from appview.search.engine import Searcher, SearchResult
    from tests.appview.search.support import Filler

WORDS = [
    "tomato",
    "water",
    "soil",
    "moon",
    "paint",
    "dance",
    "ModelMismatch",
    "search.go",
    "garden_plan",
    "東京都庁",
    "the",
    "a",
    "of",
]
ACROSS = Scope(
    frozenset({Subtree("/p"), Exact("/r"), Attribute("owner", BOB)}), frozenset({Subtree("/p/secret")})
)


def library(count: int, seed: int = 1) -> list[Doc]:
    """Make documents of few words, so that everything collides."""
    chance = random.Random(seed)
    return [
        Doc(
            " ".join(chance.choices(WORDS, k=chance.randint(1, 12))),
            (
                chance.choice(["/p", "/p/secret", "/p/q", "/r", "/s"]),
                *chance.sample(["x", "water", "k=v"], 1),
            ),
            chance.choice([None, "https://garden.example/moon"]),
            [chance.gauss(0, 1) for _ in range(4)],
            chance.choice([ALICE, BOB]),
        )
        for _ in range(count)
    ]


def visible(docs: list[Doc], scope: Scope) -> list[int]:
    return [
        number
        for number, doc in enumerate(docs)
        if scope.covers(doc.tags[0], {"owner": doc.author} | ({"k": "v"} if "k=v" in doc.tags else {}))
    ]


def rkeys(result: SearchResult) -> list[str]:
    return [hit.fact.rkey for hit in result.hits]


@pytest.mark.parametrize("scope", [EVERYTHING, ACROSS], ids=["everything", "restricted"])
async def test_keyword_scores_are_bm25_of_what_the_caller_may_read(
    space: Filler, searcher: Searcher, scope: Scope
) -> None:
    docs = library(300)
    keys = await space.add(*docs)
    seen = visible(docs, scope)
    for text in ("water the tomatoes", "a of the", "ModelMismatch in search.go", "京都", "moon", "nowhere"):
        result = await searcher.search(space.store, SearchRequest(text, mode="keyword", limit=50), scope)
        scores = bm25([docs[n] for n in seen], read_question(ANALYSIS, text).terms)
        by_key = {keys[number]: score for number, score in zip(seen, scores, strict=True)}
        assert result.mode == "keyword"
        assert not result.approximate
        assert len(result.hits) == min(50, sum(score > 0 for score in scores))
        expected = sorted((score for score in scores if score > 0), reverse=True)
        found = [hit.keyword.raw for hit in result.hits if hit.keyword is not None]
        assert found == pytest.approx(expected[: len(found)])
        assert [by_key[key] for key in rkeys(result)] == pytest.approx(found)


@pytest.mark.parametrize("scope", [EVERYTHING, ACROSS, Scope(frozenset({Exact("/r")}))])
@pytest.mark.parametrize("filters", [Filters(), Filters(author=ALICE), Filters(tags=("x",), path="/p")])
async def test_vector_hits_are_the_nearest_of_what_may_be_found(
    space: Filler, unbounded: Searcher, scope: Scope, filters: Filters
) -> None:
    docs = library(400, seed=2)
    keys = await space.add(*docs)
    allowed = [
        number
        for number in visible(docs, scope)
        if (filters.author is None or docs[number].author == filters.author)
        and set(filters.tags) <= set(docs[number].tags)
        and (filters.path is None or docs[number].tags[0].startswith(filters.path))
    ]
    chance = random.Random(3)
    for _ in range(5):
        query = halves(*[chance.gauss(0, 1) for _ in range(4)])
        result = await unbounded.search(
            space.store, SearchRequest(vector=query, mode="vector", limit=20, filters=filters), scope
        )
        truth = {
            keys[number]: cosine(query, Embedding.of(MODEL, docs[number].vector).vector) for number in allowed
        }
        expected = sorted(truth, key=lambda key: -truth[key])[:20]
        assert rkeys(result) == expected
        assert [hit.vector.raw for hit in result.hits if hit.vector is not None] == pytest.approx(
            [truth[key] for key in expected], abs=1e-9
        )


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
async def test_a_filter_that_keeps_one_in_a_thousand_still_fills_the_answer(
    space: Filler, unbounded: Searcher, mode: str
) -> None:
    far = [Doc("tomato water soil", ("/bulk",), vector=(1, 0.001 * n, 0, 0)) for n in range(2_990)]
    await space.add(*far)
    rare = await space.add(*[Doc("tomato", ("/rare", "gem"), vector=(-1, 0.1 * n, 1, 0)) for n in range(3)])
    for filters in (Filters(tags=("gem",)), Filters(path="/rare"), Filters(tags=("gem",), author=ALICE)):
        request = SearchRequest("tomato soil", halves(1, 0, 0, 0), mode, 3, filters)  # type: ignore[arg-type]
        result = await unbounded.search(space.store, request, EVERYTHING)
        assert sorted(rkeys(result)) == rare


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
async def test_nothing_allowed_finds_nothing(space: Filler, searcher: Searcher, mode: str) -> None:
    await space.add("tomato")
    request = SearchRequest("tomato", halves(1, 0, 0, 0), mode)  # type: ignore[arg-type]
    assert (await searcher.search(space.store, request, NOTHING)).hits == ()


async def test_words_that_most_facts_hold_are_left_out_where_rarer_ones_are_there(
    space: Filler, searcher: Searcher
) -> None:
    common = await space.add(*["the soil"] * 201)
    (rare,) = await space.add("a moon")
    result = await searcher.search(
        space.store, SearchRequest("many moons", mode="keyword", limit=50), EVERYTHING
    )
    assert rkeys(result) == [rare]
    result = await searcher.search(space.store, SearchRequest("the", mode="keyword", limit=50), EVERYTHING)
    assert len(result.hits) == 50
    assert set(rkeys(result)) <= set(common)


async def test_in_a_small_space_no_word_is_too_common(space: Filler, searcher: Searcher) -> None:
    keys = await space.add(*["many soils"] * 199, "many moons")
    result = await searcher.search(
        space.store, SearchRequest("many moons", mode="keyword", limit=50), EVERYTHING
    )
    assert rkeys(result)[0] == keys[-1]
    assert len(result.hits) == 50


async def test_tags_and_source_are_searched_too(space: Filler, searcher: Searcher) -> None:
    tag, source, _ = await space.add(
        Doc("one", ("/garden/tomatoes",)), Doc("two", source="https://moon.example/x"), Doc("three")
    )
    for text, key in (("tomato", tag), ("garden/tomatoes", tag), ("moon.example", source)):
        result = await searcher.search(space.store, SearchRequest(text), EVERYTHING)
        assert rkeys(result) == [key]


async def test_phrases_leaving_out_and_beginnings(space: Filler, searcher: Searcher) -> None:
    one, two, three, four = await space.add(
        Doc("water the tomatoes", vector=(1, 0, 0, 0)),
        Doc("the tomatoes need water", vector=(1, 0.1, 0, 0)),
        Doc("call engram_space_uri first", vector=(1, 0.2, 0, 0)),
        Doc("tomato", ("water", "the tomatoes"), vector=(1, 0.3, 0, 0)),
    )

    async def ask(text: str, mode: str = "keyword") -> list[str]:
        request = SearchRequest(text, halves(1, 0, 0, 0), mode)  # type: ignore[arg-type]
        return sorted(rkeys(await searcher.search(space.store, request, EVERYTHING)))

    for mode in ("keyword", "hybrid"):
        assert await ask('"water the tomatoes"', mode) == [one]  # and not across two tags
        assert await ask('"WATER the Tomatoes" x', mode) == [one]
        assert await ask('"engram space uri" call', mode) == [three]
    assert await ask("tomatoes -water") == []
    assert await ask("tomatoes -need") == [one, four]
    assert await ask("tomatoes -need", "hybrid") == [one, three, four]
    assert await ask('tomatoes -"the tomatoes need"') == [one, four]
    assert await ask("toma*") == [one, two, four]
    assert await ask("engram_sp*") == [three]
    assert await ask('"no such phrase" water') == [one, two, four]


async def test_one_letter_of_an_unspaced_script_finds_it(space: Filler, searcher: Searcher) -> None:
    (key,) = await space.add("東京都庁に行く")
    for text in ("く", "都庁", "東京都庁"):
        result = await searcher.search(space.store, SearchRequest(text), EVERYTHING)
        assert rkeys(result) == [key]
        assert result.hits[0].words[0].endswith(text[-1])
