"""Vectors in memory: they follow the file, cost what they should, and are never needed."""

from __future__ import annotations

import asyncio
import gc
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from appview.memory.scope import EVERYTHING
from appview.memory.search_reads import SearchReads
from appview.memory.store import SpaceStore
from appview.search.analysis import ANALYSIS
from appview.search.clusters import dot_products
from appview.search.derived import MAX_DEAD_SHARE, ViewCache
from appview.search.engine import SNAPSHOTS, Searcher, SearchRequest, search
from lexicons.configs import Config
from lexicons.models import ModelKey
from tests.appview.search.support import CONFIG, CREATED_AT, NOW, SPACE, Doc, Filler, halves

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from numpy.typing import NDArray

    from appview.search.view import View
    from appview.sqlite import Connection

EAST = halves(1, 0, 0, 0)


async def view_of(cache: ViewCache, store: SpaceStore) -> View | None:
    return await store.database.read(lambda connection: cache.view(store, SearchReads(connection)))


def cosines(view: View, vector: NDArray[np.float16]) -> list[float]:
    return (dot_products(vector, view.matrix) * view.inverses).tolist()


def doc(chance: random.Random) -> Doc:
    return Doc(f"fact {chance.random()}", vector=[chance.gauss(0, 1) for _ in range(4)])


async def test_a_view_follows_a_long_history(space: Filler) -> None:
    cache, chance = ViewCache(ANALYSIS), random.Random(4)
    live: list[str] = []
    for step in range(60):
        live += await space.add(*[doc(chance) for _ in range(chance.randint(0, 12))])
        gone = chance.sample(live, min(len(live), chance.randint(0, 15) if step % 7 == 0 else 1))
        await space.delete(*gone)
        live = [key for key in live if key not in gone]
        if live:
            await space.replace(chance.choice(live), doc(chance))
        query = halves(*[chance.gauss(0, 1) for _ in range(4)])
        request = SearchRequest("fact", query, limit=50)
        cached = await Searcher(cache=cache).search(space.store, request, EVERYTHING)
        assert cached == await search(space.store, request, EVERYTHING)
        view = await view_of(cache, space.store)
        assert view is not None
        assert view.live_count == len(live)
        assert view.dead_count <= MAX_DEAD_SHARE * view.count


async def test_an_older_view_is_not_disturbed(space: Filler) -> None:
    cache, chance = ViewCache(ANALYSIS), random.Random(5)
    await space.add(*[doc(chance) for _ in range(20)])
    before = await view_of(cache, space.store)
    assert before is not None
    vector = np.frombuffer(EAST, np.float16)
    expected = cosines(before, vector)
    await space.delete("k0003", "k0007")
    await space.add(*[doc(chance) for _ in range(200)])
    after = await view_of(cache, space.store)
    assert after is not None
    assert after.version > before.version
    assert cosines(before, vector) == expected
    assert before.slots(before.ids).tolist() == list(range(20))
    assert after.slots(before.ids).tolist() == [slot for slot in range(20) if slot not in (3, 7)]
    assert cosines(after, vector)[:20] == expected


async def test_a_reader_of_an_older_state_gets_no_view(space: Filler) -> None:
    cache = ViewCache(ANALYSIS)
    await space.add("one")

    def overtaken(connection: Connection) -> View | None:
        reads = SearchReads(connection)
        newest = asyncio.run_coroutine_threadsafe(advance(), loop).result()
        assert newest is not None
        return cache.view(space.store, reads)

    async def advance() -> View | None:
        await space.add("two")
        return await view_of(cache, space.store)

    loop = asyncio.get_running_loop()
    assert await space.store.database.read(overtaken) is None


@pytest.mark.parametrize("writes", [1, 2, 3, 9])
async def test_a_question_that_was_overtaken_takes_the_newer_state(
    space: Filler, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Memories arrive, and others see them, between the beginning of a question and its look at the index."""
    cache, loop = ViewCache(ANALYSIS), asyncio.get_running_loop()
    await space.add("moon 0")
    given = ViewCache.view
    used: list[bool] = []

    async def advance() -> None:
        await space.add(f"moon {len(used) + 1}")
        await space.store.database.read(lambda connection: given(cache, space.store, SearchReads(connection)))

    def view(self: ViewCache, store: SpaceStore, reads: SearchReads) -> View | None:
        if len(used) < writes:
            asyncio.run_coroutine_threadsafe(advance(), loop).result()
        found = given(self, store, reads)
        used.append(found is not None)
        return found

    monkeypatch.setattr(ViewCache, "view", view)
    result = await Searcher(cache=cache).search(space.store, SearchRequest("moon", limit=20), EVERYTHING)
    looks = min(writes + 1, SNAPSHOTS)
    assert used == [False] * min(writes, SNAPSHOTS) + [True] * (looks - min(writes, SNAPSHOTS))
    assert len(result.hits) == looks


async def test_a_damaged_vector_costs_the_view_and_not_the_answer(space: Filler) -> None:
    cache = ViewCache(ANALYSIS)
    one, two = await space.add("moon", "soil")

    def damage(connection: Connection) -> None:
        connection.execute("UPDATE facts SET embedding = x'00' WHERE rkey = ?", (two,))

    def repair(connection: Connection) -> None:
        connection.execute("UPDATE facts SET embedding = ? WHERE rkey = ?", (EAST, two))

    await space.store.database.write(damage)
    assert await view_of(cache, space.store) is None
    result = await Searcher(cache=cache).search(space.store, SearchRequest("moon", EAST), EVERYTHING)
    assert one in [hit.fact.rkey for hit in result.hits]
    await space.store.database.write(repair)
    assert await view_of(cache, space.store) is not None


async def test_a_fact_that_the_keyword_index_lost_is_found_all_the_same(
    space: Filler, searcher: Searcher
) -> None:
    lost, kept = await space.add("moon", Doc("moon and soil", vector=(0, 1, 0, 0)))

    def lose(connection: Connection) -> None:
        connection.execute(
            "DELETE FROM facts_fts WHERE rowid = (SELECT id FROM facts WHERE rkey = ?)", (lost,)
        )

    await space.store.database.write(lose)
    result = await searcher.search(space.store, SearchRequest("moon", EAST), EVERYTHING)
    assert sorted(hit.fact.rkey for hit in result.hits) == [lost, kept]
    result = await searcher.search(space.store, SearchRequest("moon"), EVERYTHING)
    assert [hit.fact.rkey for hit in result.hits] == [lost, kept]
    await space.delete(lost)  # the file is consistent again


async def test_a_memory_costs_less_than_1500_bytes_at_384_dims(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    model = ModelKey("m", "sha256:m", 384)
    store = await SpaceStore.open(tmp_path / "a.db", SPACE, executor, lambda: NOW, analyser=ANALYSIS)
    await store.configure(Config(model, CREATED_AT))
    space, cache = Filler(store), ViewCache(ANALYSIS)
    await space.add(*[Doc("x", vector=[1.0] * 384)] * 400, model=model)
    assert await view_of(cache, store) is not None
    await space.add(*[Doc("x", vector=[1.0] * 384)] * 5, model=model)
    assert await view_of(cache, store) is not None
    assert cache.size / 405 < 1_500
    await store.close()


async def test_views_are_kept_within_a_budget(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    stores = []
    for name in "abc":
        store = await SpaceStore.open(tmp_path / name, SPACE, executor, lambda: NOW, analyser=ANALYSIS)
        await store.configure(CONFIG)
        await Filler(store).add(*["moon"] * 50)
        stores.append(store)
    one = ViewCache(ANALYSIS)
    assert await view_of(one, stores[0]) is not None
    cache = ViewCache(ANALYSIS, max_bytes=2 * one.size)
    for store in stores:
        assert await view_of(cache, store) is not None
    assert cache.size == 2 * one.size
    small = ViewCache(ANALYSIS, max_bytes=100)
    assert await view_of(small, stores[0]) is None
    result = await Searcher(cache=small).search(stores[0], SearchRequest(None, EAST), EVERYTHING)
    assert len(result.hits) == 10
    for store in stores:
        await store.close()


async def test_a_store_that_is_gone_is_forgotten(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    cache = ViewCache(ANALYSIS)
    store = await SpaceStore.open(tmp_path / "a", SPACE, executor, lambda: NOW, analyser=ANALYSIS)
    await store.configure(CONFIG)
    await Filler(store).add("moon")
    assert await view_of(cache, store) is not None
    await store.close()
    del store
    gc.collect()
    assert cache.size == 0


async def test_questions_while_memories_arrive_are_each_of_one_state(space: Filler) -> None:
    searcher = Searcher(cache=ViewCache(ANALYSIS))
    await space.add(*["moon"] * 10)

    async def write() -> None:
        for _ in range(15):
            await space.add(*["moon"] * 10)

    async def ask() -> list[int]:
        counts = []
        for _ in range(30):
            result = await searcher.search(space.store, SearchRequest("moon", EAST, limit=500), EVERYTHING)
            assert len({hit.score for hit in result.hits}) == 1
            counts.append(len(result.hits))
        return counts

    results = await asyncio.gather(write(), ask(), ask(), ask())
    for counts in results[1:]:
        assert counts is not None
        assert counts == sorted(counts)
        assert all(count % 10 == 0 for count in counts)


@pytest.mark.parametrize("dims", [1, 3, 8_193])
async def test_models_of_any_width_are_searched(
    tmp_path: Path, executor: ThreadPoolExecutor, unbounded: Searcher, dims: int
) -> None:
    model = ModelKey("m", "sha256:m", dims)
    store = await SpaceStore.open(tmp_path / "a.db", SPACE, executor, lambda: NOW, analyser=ANALYSIS)
    await store.configure(Config(model, CREATED_AT))
    rest = [0.5] * (dims - 1)
    near, far = await Filler(store).add(
        Doc("near", vector=[1.0, *rest]), Doc("far", vector=[-1.0, *rest]), model=model
    )
    result = await unbounded.search(store, SearchRequest(None, halves(1.0, *rest)), EVERYTHING)
    assert [hit.fact.rkey for hit in result.hits] == [near, far]
    assert result.hits[0].similarity == 1000
    await store.close()
