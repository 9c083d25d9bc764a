"""A view in memory answers as the file does: the same facts, the same numbers, the same scope."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Scope, Subtree
from appview.memory.search_reads import SearchReads
from appview.memory.values import Filters
from appview.search import engine, keyword
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest, search
from appview.search.masks import in_scope, with_filters
from tests.appview.search.support import ALICE, BOB, CREATED_AT, Doc, Filler, halves

if TYPE_CHECKING:
    from appview.memory.store import SpaceStore
    from appview.sqlite import Connection

WORDS = [f"w{number}" for number in range(300)]
SCOPES = [
    EVERYTHING,
    NOTHING,
    Scope(frozenset({Subtree("/a")})),
    Scope(frozenset({Exact("/a")})),
    Scope(frozenset({Exact("/a/b"), Subtree("/c"), Attribute("kind", "k1")})),
    Scope(frozenset({Attribute("owner", BOB)})),
    Scope(frozenset({Subtree("/")}), frozenset({Subtree("/a/b"), Attribute("kind", "k2")})),
    Scope(frozenset({Subtree("/a"), Subtree("/nowhere")}), frozenset({Attribute("owner", ALICE)})),
]
FILTERS = [
    Filters(),
    Filters(tags=("even",)),
    Filters(tags=("even", "third")),
    Filters(tags=("even", "nothing")),
    Filters(path="/a"),
    Filters(path="/"),
    Filters(path="/nowhere"),
    Filters(author=BOB),
    Filters(author=BOB, path="/c", tags=("third",)),
    Filters(since=1_764_500_000_000_000),
    Filters(since=1_900_000_000_000_000),
]


def sentence(chance: random.Random) -> str:
    picked = chance.choices(WORDS, [1 / (rank + 1) for rank in range(len(WORDS))], k=chance.randint(2, 25))
    return " ".join(picked)


def doc(chance: random.Random, number: int) -> Doc:
    labels = [label for label, divisor in (("even", 2), ("third", 3)) if number % divisor == 0]
    path = chance.choice(["/a", "/a/b", "/c", "/ab"])
    return Doc(
        sentence(chance),
        (path, f"kind=k{number % 4}", *labels),
        chance.choice([None, "w7 w9", "elsewhere"]),
        [chance.gauss(0, 1) for _ in range(4)],
        chance.choice([ALICE, BOB]),
        chance.choice([CREATED_AT, "2025-11-30T09:15:00.000Z"]),
    )


async def filled(space: Filler, count: int, seed: int) -> random.Random:
    chance = random.Random(seed)
    for start in range(0, count, 100):
        await space.add(*[doc(chance, number) for number in range(start, min(start + 100, count))])
    return chance


async def has_view(cache: ViewCache, store: SpaceStore) -> bool:
    return await store.database.read(
        lambda connection: cache.view(store, SearchReads(connection)) is not None
    )


QUESTIONS = [
    "w0 w1 w2 w150 w200",
    "w0 w1 w2",
    "w0",
    "w280 w281 w290 w299 w3 w4 w5 w6",
    '"w0 w1" w20',
    "w5 w6 -w0 w40",
    "w1* w30",
    "w4 w7 w9 elsewhere",
    "nothing at all",
]


@pytest.mark.parametrize("seed", range(2))
async def test_memory_answers_as_the_file_does(
    space: Filler, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MIN_CANDIDATES", 4)  # few, so that most words are only looked up
    chance = await filled(space, 700, seed)
    cache = ViewCache(ANALYSIS)
    searcher = Searcher(cache=cache)
    for step in range(3):
        assert await has_view(cache, space.store)
        for text in QUESTIONS:
            for scope, filters in [(EVERYTHING, FILTERS[0])] + [
                (chance.choice(SCOPES), chance.choice(FILTERS)) for _ in range(4)
            ]:
                query = halves(*[chance.gauss(0, 1) for _ in range(4)])
                for mode in ("keyword", "hybrid"):
                    request = SearchRequest(text, query, mode, chance.choice([1, 3, 40]), filters)  # type: ignore[arg-type]
                    here = await searcher.search(space.store, request, scope)
                    assert here == await search(space.store, request, scope)
        if step == 0:
            await space.add(*[doc(chance, number) for number in range(120)])
        else:
            await space.delete(*[f"k{number:04}" for number in range(step, 400, 3)])
            await space.delete(*[f"k{number:04}" for number in range(step, 400, 3)], author=BOB)


async def test_hits_are_not_all_alike(space: Filler) -> None:
    await filled(space, 300, 9)
    result = await search(space.store, SearchRequest(QUESTIONS[0], limit=20), EVERYTHING)
    assert len({hit.score for hit in result.hits}) > 10


async def test_masks_are_what_the_file_selects(space: Filler) -> None:
    chance = await filled(space, 300, 3)
    cache = ViewCache(ANALYSIS)

    def compare(connection: Connection) -> int:
        reads = SearchReads(connection)
        view = cache.view(space.store, reads)
        assert view is not None
        different = 0
        for scope in SCOPES:
            for filters in FILTERS:
                corpus = in_scope(view, reads.bulk, scope)
                mask = with_filters(view, corpus, filters)
                ids = view.ids if mask is None else view.ids[mask]
                expected = reads.ids(scope, filters)
                assert ids.tolist() == expected.tolist(), (scope, filters)
                different += 0 < len(ids) < view.live_count
        return different

    assert await space.store.database.read(compare) > 30
    await space.store.set_path_tag("/c", "kind", "k1", protected=True)
    await space.delete(*[f"k{number:04}" for number in range(0, 300, 7)])
    await space.add(*[doc(chance, number) for number in range(30)])
    assert await space.store.database.read(compare) > 30


async def test_scores_do_not_depend_on_hidden_facts_in_memory(space: Filler) -> None:
    shown = Scope(frozenset({Subtree("/a")}))
    await space.add(*[Doc(f"moon w{number}", ("/a",)) for number in range(20)])
    searcher = Searcher(cache=ViewCache(ANALYSIS))
    before = await searcher.search(space.store, SearchRequest("moon w3"), shown)
    await space.add(*[Doc("moon moon w3", ("/b",)) for _ in range(200)])
    assert await searcher.search(space.store, SearchRequest("moon w3"), shown) == before
    everything = await searcher.search(space.store, SearchRequest("moon w3"), EVERYTHING)
    assert everything.hits[0].score == before.hits[0].score == 1.0
    assert everything.hits[0].keyword != before.hits[0].keyword


async def test_a_deleted_fact_is_gone_at_once(space: Filler) -> None:
    searcher = Searcher(cache=ViewCache(ANALYSIS))
    keys = await space.add(*["moon"] * 5)
    request = SearchRequest("moon", halves(1, 0, 0, 0), limit=10)
    assert len((await searcher.search(space.store, request, EVERYTHING)).hits) == 5
    await space.delete(keys[2])
    hits = (await searcher.search(space.store, request, EVERYTHING)).hits
    assert sorted(hit.fact.rkey for hit in hits) == [key for key in keys if key != keys[2]]
    await space.replace(keys[1], Doc("sun"))
    hits = (await searcher.search(space.store, SearchRequest("moon"), EVERYTHING)).hits
    assert sorted(hit.fact.rkey for hit in hits) == [keys[0], keys[3], keys[4]]


async def test_many_postings_are_cut_and_the_answer_says_so(
    space: Filler, monkeypatch: pytest.MonkeyPatch
) -> None:

    await space.add(*["soil"] * 150)
    await space.add(*["soil moon"] * 150)
    await space.add(*["water"] * 150, "soil water")
    searcher = Searcher(cache=ViewCache(ANALYSIS))
    request = SearchRequest("soil moon water", mode="keyword", limit=200)
    assert not (await searcher.search(space.store, request, EVERYTHING)).approximate
    monkeypatch.setattr(keyword, "MAX_POSTINGS", 200)
    assert (await searcher.search(space.store, request, EVERYTHING)).approximate


def test_no_array_of_a_view_is_shared_with_its_successor_where_they_differ() -> None:
    from appview.search.view import grown

    first = grown(np.arange(3), np.arange(2))
    second = grown(first, np.arange(1))
    third = grown(second, np.arange(100))
    assert first.tolist() == [0, 1, 2, 0, 1]
    assert second.tolist() == [0, 1, 2, 0, 1, 0]
    assert len(third) == 106
    assert third[:6].tolist() == second.tolist()
