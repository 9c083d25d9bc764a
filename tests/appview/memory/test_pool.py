"""The pool: shared stores, a bound, nobody's store closed under them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from appview.errors import StoreError, StoreMismatch
from appview.memory.pool import SpacePool
from appview.memory.scope import EVERYTHING
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.memory.support import ALICE, CONFIG, SPACE, WordAnalyser, commit, put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from tests.appview.memory.support import Clock

SPACES = [SpaceUri.public(Did(f"did:plc:space{number}")) for number in range(8)]


@pytest.fixture
async def pool(tmp_path: Path, executor: ThreadPoolExecutor, clock: Clock) -> AsyncIterator[SpacePool]:
    opened = SpacePool(tmp_path / "data" / "spaces", executor, clock, analyser=WordAnalyser(), max_open=2)
    yield opened
    async with asyncio.timeout(5):
        await opened.close()


async def test_a_space_is_made_on_first_use_under_a_name_of_its_own(pool: SpacePool, tmp_path: Path) -> None:
    assert not pool.exists(SPACE)
    async with pool.use(SPACE) as store:
        assert store.space == SPACE
    assert pool.exists(SPACE)
    assert pool.path(SPACE).parent == tmp_path / "data" / "spaces"
    assert len(pool.path(SPACE).name) == 64 + len(".db")
    assert pool.path(SPACE) != pool.path(SPACES[0])


async def test_users_at_the_same_time_share_one_store(pool: SpacePool) -> None:
    async def use() -> int:
        async with pool.use(SPACE) as store:
            await asyncio.sleep(0)
            return id(store)

    assert len(set(await asyncio.gather(*(use() for _ in range(10))))) == 1


async def test_a_store_stays_open_between_uses(pool: SpacePool) -> None:
    async with pool.use(SPACE) as first:
        pass
    async with pool.use(SPACE) as second:
        assert first is second


async def test_the_least_recently_used_store_makes_room(pool: SpacePool) -> None:
    async with pool.use(SPACES[0]) as first:
        await first.configure(CONFIG)
        await first.apply([commit(1, put("a"))])
    async with pool.use(SPACES[1]) as second:
        pass
    async with pool.use(SPACES[0]) as again:
        assert again is first
    async with pool.use(SPACES[2]):
        pass
    async with pool.use(SPACES[0]) as again:
        assert again is first
    async with pool.use(SPACES[1]) as reopened:
        assert reopened is not second
    async with pool.use(SPACES[2]), pool.use(SPACES[0]) as reopened:
        assert reopened is not first
        assert set(await reopened.live(ALICE)) == {"a"}


async def test_a_store_in_use_is_not_closed_and_who_finds_no_room_waits(pool: SpacePool) -> None:
    stack = AsyncExitStack()
    held = [await stack.enter_async_context(pool.use(space)) for space in SPACES[:2]]

    async def third() -> None:
        async with pool.use(SPACES[2]):
            pass

    waiting = asyncio.create_task(third())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    for store in held:
        assert (await store.status(EVERYTHING)).memories == 0
    await stack.aclose()
    async with asyncio.timeout(5):
        await waiting


async def test_many_tasks_over_many_spaces_lose_nothing(pool: SpacePool) -> None:
    async def work(number: int) -> None:
        async with pool.use(SPACES[number % len(SPACES)]) as store:
            await store.apply([commit(1, put("a"), author=Did(f"did:plc:author{number}"))])

    async with asyncio.timeout(20):
        await asyncio.gather(*(work(number) for number in range(40)))
        for space in SPACES:
            async with pool.use(space) as store:
                assert sum(each.count for each in (await store.status(EVERYTHING)).skipped) == 5


async def test_a_space_that_cannot_be_opened_takes_no_place_and_is_tried_again(pool: SpacePool) -> None:
    pool.path(SPACE).parent.mkdir(parents=True)
    pool.path(SPACE).write_bytes(b"no database at all " * 500)
    for _ in range(5):
        with pytest.raises(StoreError, match="not a database"):
            async with pool.use(SPACE):
                pass
    pool.path(SPACE).unlink()
    async with pool.use(SPACE) as store:
        assert store.space == SPACE


async def test_files_under_each_others_names_are_not_opened(pool: SpacePool) -> None:
    async with pool.use(SPACES[0]):
        pass
    await pool.close()
    pool.path(SPACES[0]).rename(pool.path(SPACES[1]))
    other = SpacePool(pool.path(SPACE).parent, pool._executor, pool._clock, analyser=WordAnalyser())
    with pytest.raises(StoreMismatch):
        async with other.use(SPACES[1]):
            pass
    await other.close()


async def test_a_folder_that_cannot_be_made_is_an_error(
    tmp_path: Path, executor: ThreadPoolExecutor, clock: Clock
) -> None:
    (tmp_path / "file").write_text("in the way")
    pool = SpacePool(tmp_path / "file" / "spaces", executor, clock, analyser=WordAnalyser())
    with pytest.raises(StoreError, match="cannot make the folder"):
        async with pool.use(SPACE):
            pass
    await pool.close()


async def test_whoever_stops_waiting_for_an_opening_does_not_stop_it_for_others(pool: SpacePool) -> None:
    async def use() -> int:
        async with pool.use(SPACE) as store:
            return id(store)

    impatient, patient = asyncio.create_task(use()), asyncio.create_task(use())
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_closing_waits_for_users_and_refuses_new_ones(pool: SpacePool) -> None:
    async with pool.use(SPACE) as store:
        closing = asyncio.create_task(pool.close())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not closing.done()
        with pytest.raises(StoreError, match="closed"):
            async with pool.use(SPACES[0]):
                pass
        await store.configure(CONFIG)
        await store.apply([commit(1, put("a"))])
    async with asyncio.timeout(5):
        await closing
    assert not pool.path(SPACE).with_name(pool.path(SPACE).name + "-wal").exists()


async def test_a_failed_block_gives_its_store_back(pool: SpacePool) -> None:
    with pytest.raises(RuntimeError):
        async with pool.use(SPACE):
            raise RuntimeError
    async with asyncio.timeout(5):
        await pool.close()


async def test_a_file_that_is_set_aside_makes_room_for_a_new_one(pool: SpacePool) -> None:
    async with pool.use(SPACE) as store:
        await store.configure(CONFIG)
        await store.apply([commit(1, put("a"))])
        setting = asyncio.create_task(pool.set_aside(SPACE, ".old"))
        waiting = asyncio.create_task(uses(pool))
        await asyncio.sleep(0.05)
        assert not setting.done() and not waiting.done()
        assert len(await store.list(EVERYTHING, limit=9)) == 1
    await setting
    assert await waiting == 0
    path = pool.path(SPACE)
    assert path.with_name(path.name + ".old").is_file()
    await pool.set_aside(SPACE, ".old")  # a repetition keeps what was set aside first
    assert not pool.exists(SPACE)
    assert path.with_name(path.name + ".old").stat().st_size > 0


async def test_who_sets_aside_may_be_stopped(pool: SpacePool) -> None:
    async with pool.use(SPACE):
        setting = asyncio.create_task(pool.set_aside(SPACE, ".old"))
        await asyncio.sleep(0.05)
        setting.cancel()
        await asyncio.wait([setting])
    assert await uses(pool) == 0


async def test_a_file_that_cannot_be_opened_can_be_set_aside(pool: SpacePool) -> None:
    pool.path(SPACE).parent.mkdir(parents=True)
    pool.path(SPACE).write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError):
        await uses(pool)
    await pool.set_aside(SPACE, ".old")
    assert await uses(pool) == 0


async def uses(pool: SpacePool) -> int:
    async with pool.use(SPACE) as store:
        return len(await store.list(EVERYTHING, limit=9))
