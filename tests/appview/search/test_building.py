"""Views of large spaces: built beside the questions, from a file that goes on changing, and never needed."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from appview.memory.analyser import AnalysedDocument
from appview.memory.scope import EVERYTHING
from appview.memory.search_reads import SearchReads
from appview.memory.store import SpaceStore
from appview.search import clusters, derived
from appview.search.analysis import ANALYSIS
from appview.search.derived import Abandoned, ViewCache
from appview.search.engine import Searcher, SearchRequest, search
from tests.appview.search.support import ALICE, BOB, CONFIG, NOW, SPACE, Doc, Filler, halves
from tests.appview.search.test_in_memory import doc, filled

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.search.view import View
    from appview.sqlite import Connection

REQUEST = SearchRequest("w0 w1 w30 w150", halves(1, 2, 0, 0), limit=20)


@pytest.fixture(autouse=True)
def small_spaces_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "MAX_INLINE", 50)
    monkeypatch.setattr(derived, "MIN_TAIL", 60)
    monkeypatch.setattr(clusters, "MIN_CLUSTERED", 100)
    monkeypatch.setattr(clusters, "MIN_REACH", 40)


async def view_of(cache: ViewCache, store: SpaceStore) -> View | None:
    return await store.database.read(lambda connection: cache.view(store, SearchReads(connection)))


async def build(cache: ViewCache, store: SpaceStore, check: Callable[[], None] = lambda: None) -> None:
    await store.database.read(lambda connection: cache.build(store, SearchReads(connection), check))


async def test_the_file_answers_until_the_view_is_there(space: Filler) -> None:
    await filled(space, 200, 1)
    cache = ViewCache(ANALYSIS)
    searcher = Searcher(cache=cache)
    expected = await search(space.store, REQUEST, EVERYTHING)
    assert await searcher.search(space.store, REQUEST, EVERYTHING) == expected
    await searcher.settled()
    view = await view_of(cache, space.store)
    assert view is not None
    assert view.count == 200
    assert await searcher.search(space.store, REQUEST, EVERYTHING) == expected


async def test_what_changes_while_a_view_is_built_is_in_the_next_answer(space: Filler) -> None:
    chance = await filled(space, 200, 2)
    cache, loop = ViewCache(ANALYSIS), asyncio.get_running_loop()
    steps = 0

    async def change() -> None:
        await space.delete("k0001", "k0004")
        await space.add(*[doc(chance, number) for number in range(10)])

    def check() -> None:
        nonlocal steps
        steps += 1
        if steps in (1, 3):
            asyncio.run_coroutine_threadsafe(change(), loop).result()

    await build(cache, space.store, check)
    assert steps > 3
    view = await view_of(cache, space.store)
    assert view is not None
    assert view.count == 220
    found = await Searcher(cache=cache).search(space.store, REQUEST, EVERYTHING)
    assert found == await search(space.store, REQUEST, EVERYTHING)


async def test_a_grown_tail_is_built_in_beside_the_questions(space: Filler) -> None:
    chance = await filled(space, 200, 3)
    cache, loop = ViewCache(ANALYSIS), asyncio.get_running_loop()
    searcher = Searcher(cache=cache)
    await build(cache, space.store)
    await space.add(*[doc(chance, number) for number in range(70)])
    assert await view_of(cache, space.store) is not None
    assert cache.wants_building(space.store)
    assert not cache.wants_building(space.store)  # one builder at a time
    overtaken = False

    async def ask() -> None:
        await space.delete("k0003")
        await space.add(Doc("comet w0"), doc(chance, 2))
        assert await searcher.search(space.store, REQUEST, EVERYTHING) == await search(
            space.store, REQUEST, EVERYTHING
        )

    def check() -> None:
        nonlocal overtaken
        if not overtaken:
            overtaken = True
            asyncio.run_coroutine_threadsafe(ask(), loop).result()

    await build(cache, space.store, check)
    view = await view_of(cache, space.store)
    assert view is not None
    assert view.words.segment_count == 270
    assert view.count == 272
    for text in ("comet", "comet w0 w1"):
        asked = SearchRequest(text, mode="keyword")
        assert (await searcher.search(space.store, asked, EVERYTHING)).hits[0].fact.text == "comet w0"
    assert await searcher.search(space.store, REQUEST, EVERYTHING) == await search(
        space.store, REQUEST, EVERYTHING
    )
    assert not cache.wants_building(space.store)


async def test_a_view_that_is_far_behind_is_brought_up_beside_the_questions(
    space: Filler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived, "MAX_FOLLOWED", 20)
    chance = await filled(space, 200, 4)
    cache = ViewCache(ANALYSIS)
    searcher = Searcher(cache=cache)
    await build(cache, space.store)
    await space.add(*[doc(chance, number) for number in range(20)])
    assert await view_of(cache, space.store) is not None
    await space.add(*[doc(chance, number) for number in range(21)])
    assert await view_of(cache, space.store) is None
    expected = await search(space.store, REQUEST, EVERYTHING)
    assert await searcher.search(space.store, REQUEST, EVERYTHING) == expected
    await searcher.settled()
    view = await view_of(cache, space.store)
    assert view is not None
    assert view.count == 241
    assert await searcher.search(space.store, REQUEST, EVERYTHING) == expected


async def test_a_file_that_forgot_the_changes_is_read_anew(space: Filler) -> None:
    chance = await filled(space, 200, 5)
    cache = ViewCache(ANALYSIS)
    await build(cache, space.store)
    await space.add(*[doc(chance, number) for number in range(5)])
    await space.store.database.write(
        lambda connection: connection.execute(
            "DELETE FROM changes WHERE number < (SELECT max(number) FROM changes)"
        )
    )
    assert await view_of(cache, space.store) is None
    searcher = Searcher(cache=cache)
    await searcher.search(space.store, REQUEST, EVERYTHING)
    await searcher.settled()
    view = await view_of(cache, space.store)
    assert view is not None
    assert view.count == 205


async def test_changes_are_not_kept_for_ever(space: Filler) -> None:
    def work(connection: Connection) -> tuple[int, int]:
        connection.execute(
            "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 52000)"
            " INSERT INTO changes (fact_id) SELECT 1 FROM n"
        )
        return tuple(connection.execute("SELECT min(number), max(number) FROM changes").fetchone())

    assert await space.store.database.write(work) == (2_001, 52_000)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM facts_fts WHERE rowid = (SELECT id FROM facts WHERE rkey = 'k0007')",
        "UPDATE facts SET embedding = x'00' WHERE rkey = 'k0007'",
        "UPDATE facts SET embedding = x'007c007c007c007c' WHERE rkey = 'k0007'",
    ],
)
async def test_a_damaged_file_costs_the_view_and_not_the_answer(space: Filler, damage: str) -> None:
    await filled(space, 200, 6)
    await space.store.database.write(lambda connection: connection.execute(damage))
    cache = ViewCache(ANALYSIS)
    searcher = Searcher(cache=cache)
    result = await searcher.search(space.store, REQUEST, EVERYTHING)
    await searcher.settled()
    assert await view_of(cache, space.store) is None
    assert len(result.hits) == 20
    assert await searcher.search(space.store, REQUEST, EVERYTHING) == result
    assert not cache.wants_building(space.store)  # not again and again
    for author in (ALICE, BOB):
        await space.delete("k0007", author=author)  # the file is consistent again


async def test_damage_after_the_view_was_made_costs_the_view(space: Filler) -> None:
    chance = await filled(space, 200, 7)
    cache = ViewCache(ANALYSIS)
    await build(cache, space.store)
    (key,) = await space.add(doc(chance, 1))
    await space.store.database.write(
        lambda connection: connection.execute(
            "DELETE FROM facts_fts WHERE rowid = (SELECT max(id) FROM facts)"
        )
    )
    assert await view_of(cache, space.store) is None
    result = await Searcher(cache=cache).search(space.store, REQUEST, EVERYTHING)
    assert len(result.hits) == 20
    for author in (ALICE, BOB):
        await space.delete(key, author=author)


async def test_a_change_that_the_list_does_not_name_costs_the_view(space: Filler) -> None:
    chance = await filled(space, 200, 13)
    cache = ViewCache(ANALYSIS)
    await build(cache, space.store)
    await space.add(doc(chance, 1), doc(chance, 2))
    await space.store.database.write(
        lambda connection: connection.execute(
            "DELETE FROM changes WHERE number = (SELECT max(number) FROM changes)"
        )
    )
    assert await view_of(cache, space.store) is None


async def test_words_of_another_analysis_cost_the_view(space: Filler) -> None:
    class Silent:
        version = "silent"

        def of_version(self, _version: str) -> None:
            return None

        def document(self, *_: object) -> AnalysedDocument:
            return AnalysedDocument("", "", "", "")

    chance = await filled(space, 200, 14)
    cache = ViewCache(Silent())
    await build(cache, space.store)
    assert await view_of(cache, space.store) is not None
    await space.add(doc(chance, 1))
    assert await view_of(cache, space.store) is None


async def test_an_old_fact_that_changes_is_read_anew(space: Filler) -> None:
    cache = ViewCache(ANALYSIS)
    await space.add("moon", "soil")
    assert await view_of(cache, space.store) is not None

    def change(connection: Connection) -> None:
        connection.execute("UPDATE facts SET ordered_at = 5 WHERE rkey = 'k0000'")
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'data_version'")

    await space.store.database.write(change)
    view = await view_of(cache, space.store)
    assert view is not None
    assert view.times[0] == 5
    assert view.count == 2


async def test_closing_ends_a_build(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    store = await SpaceStore.open(tmp_path / "a.db", SPACE, executor, lambda: NOW, analyser=ANALYSIS)
    await store.configure(CONFIG)
    await filled(Filler(store), 200, 8)
    cache, loop = ViewCache(ANALYSIS), asyncio.get_running_loop()
    closing: list[asyncio.Task[None]] = []

    async def close() -> None:
        closing.append(asyncio.create_task(store.close()))
        await asyncio.sleep(0)

    def check() -> None:
        if not closing:
            asyncio.run_coroutine_threadsafe(close(), loop).result()
        if store.database.closing:
            raise Abandoned

    with pytest.raises(Abandoned):
        await build(cache, store, check)
    await closing[0]
    assert cache.size == 0


async def test_a_searcher_ends_its_builds(space: Filler) -> None:
    await filled(space, 200, 9)
    cache = ViewCache(ANALYSIS)
    searcher = Searcher(cache=cache)
    await searcher.search(space.store, REQUEST, EVERYTHING)
    await searcher.close()
    assert cache.size == 0
    assert cache.wants_building(space.store)


async def test_a_space_that_does_not_fit_is_searched_in_its_file(space: Filler) -> None:
    await filled(space, 200, 10)
    cache = ViewCache(ANALYSIS, max_bytes=20_000)
    searcher = Searcher(cache=cache)
    result = await searcher.search(space.store, REQUEST, EVERYTHING)
    await searcher.settled()
    assert cache.size == 0
    assert not cache.wants_building(space.store)
    assert await searcher.search(space.store, REQUEST, EVERYTHING) == result


async def test_many_deletions_make_the_view_anew(space: Filler) -> None:
    await filled(space, 200, 11)
    cache = ViewCache(ANALYSIS)
    searcher = Searcher(cache=cache)
    await build(cache, space.store)
    for author in (ALICE, BOB):
        await space.delete(*[f"k{number:04}" for number in range(0, 200, 3)], author=author)
    before = await searcher.search(space.store, REQUEST, EVERYTHING)
    await searcher.settled()
    view = await view_of(cache, space.store)
    assert view is not None
    assert view.count == view.live_count == 133
    assert await searcher.search(space.store, REQUEST, EVERYTHING) == before


async def test_questions_and_writes_beside_builds_agree_with_the_file(space: Filler) -> None:
    chance = await filled(space, 150, 12)
    searcher = Searcher(cache=ViewCache(ANALYSIS))
    done = False

    async def write() -> None:
        nonlocal done
        for number in range(25):
            await space.add(*[doc(chance, number) for number in range(8)])
            await space.delete(f"k{number * 3:04}")
        done = True

    async def ask() -> int:
        asked = 0
        while not done:
            result = await searcher.search(space.store, REQUEST, EVERYTHING)
            assert len({hit.fact.uri for hit in result.hits}) == 20
            asked += 1
        return asked

    _, first, second = await asyncio.gather(write(), ask(), ask())
    assert first and second
    await searcher.settled()
    for _ in range(2):
        found = await searcher.search(space.store, REQUEST, EVERYTHING)
        assert found == await search(space.store, REQUEST, EVERYTHING)
        await searcher.settled()


def clustered(count: int, dims: int, spread: float) -> np.ndarray:
    chance = np.random.default_rng(1)
    centres = chance.standard_normal((30, dims))
    made = centres[chance.integers(0, 30, count)] + spread * chance.standard_normal((count, dims))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float16)


class TestClusters:
    ROWS, DIMS = 6_000, 32

    def made(self, spread: float) -> tuple[clusters.Clusters | None, np.ndarray, np.ndarray]:
        matrix = clustered(self.ROWS, self.DIMS, spread)
        inverses = (1 / np.linalg.norm(matrix.astype(np.float64), axis=1)).astype(np.float32)
        return clusters.make_clusters(matrix, inverses), matrix, inverses

    def test_every_vector_is_in_one_cluster(self) -> None:
        found, _, _ = self.made(0.5)
        assert found is not None
        assert sorted(found.members.tolist()) == list(range(self.ROWS))
        assert found.starts[0] == 0 and found.starts[-1] == self.ROWS

    def test_the_nearest_are_found_without_measuring_all(self) -> None:
        found, matrix, inverses = self.made(0.5)
        assert found is not None
        assert found.reach <= self.ROWS * 0.16
        questions = clustered(self.ROWS + 100, self.DIMS, 0.5)[self.ROWS :]
        hits = 0
        for question in questions:
            cosines = clusters.dot_products(question, matrix) * inverses
            near = set(found.near(question.astype(np.float32), found.reach, None).tolist())
            assert len(near) < self.ROWS / 3
            hits += len(near & set(np.argsort(-cosines)[:10].tolist()))
        assert hits / 1_000 >= 0.98

    def test_a_mask_is_kept_to_and_enough_is_measured(self) -> None:
        found, _, _ = self.made(0.5)
        assert found is not None
        mask = np.random.default_rng(2).random(self.ROWS) < 0.05
        near = found.near(np.ones(self.DIMS, np.float32), 100, mask)
        assert mask[near].all()
        assert 100 <= len(near) < mask.sum()
        assert len(found.near(np.ones(self.DIMS, np.float32), 10_000, mask)) == mask.sum()

    def test_vectors_without_clusters_get_none(self) -> None:
        chance = np.random.default_rng(3)
        matrix = chance.standard_normal((self.ROWS, 256)).astype(np.float16)
        inverses = (1 / np.linalg.norm(matrix.astype(np.float64), axis=1)).astype(np.float32)
        assert clusters.make_clusters(matrix, inverses) is None

    def test_equal_vectors_do_no_harm(self) -> None:
        matrix = np.ones((500, 8), np.float16)
        clusters.make_clusters(matrix, np.full(500, 8**-0.5, np.float32))

    def test_work_can_be_ended(self) -> None:
        def check() -> None:
            raise Abandoned

        matrix = clustered(500, 8, 0.5)
        with pytest.raises(Abandoned):
            clusters.make_clusters(matrix, np.ones(500, np.float32), check=check)


async def test_vectors_in_clusters_are_found_in_a_space(space: Filler) -> None:
    chance = random.Random(5)
    centres = [[chance.gauss(0, 1) for _ in range(4)] for _ in range(5)]
    docs = [
        Doc("x", vector=[value + chance.gauss(0, 0.2) for value in chance.choice(centres)])
        for _ in range(2_000)
    ]
    await space.add(*docs)
    cache = ViewCache(ANALYSIS)
    searcher = Searcher(cache=cache)
    await build(cache, space.store)
    view = await view_of(cache, space.store)
    assert view is not None and view.clusters is not None
    assert view.clusters.reach < 1_000
    await space.add(*docs[:10])  # measured before they are in a cluster
    found = missed = 0
    for _ in range(40):
        query = halves(*[value + chance.gauss(0, 0.2) for value in chance.choice(centres)])
        request = SearchRequest(None, query)
        exact = {hit.fact.uri for hit in (await search(space.store, request, EVERYTHING)).hits}
        near = {hit.fact.uri for hit in (await searcher.search(space.store, request, EVERYTHING)).hits}
        found += len(exact & near)
        missed += len(exact - near)
    assert found / (found + missed) >= 0.98
