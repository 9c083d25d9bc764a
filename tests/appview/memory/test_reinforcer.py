"""Recalls on their way to disk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import structlog

from appview.memory.pool import SpacePool
from appview.memory.reinforcer import Reinforcer
from appview.memory.strength import Recall
from tests.appview.memory.support import ALICE, CONFIG, NOW, SPACE, WordAnalyser, commit, put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.sqlite import Connection

CAROL = "did:plc:carol"
LONG = 3_600.0  # seconds: a moment that no test waits for


@pytest.fixture
async def pool(tmp_path: Path, executor: ThreadPoolExecutor) -> AsyncIterator[SpacePool]:
    opened = SpacePool(tmp_path, executor, lambda: NOW, analyser=WordAnalyser())
    async with opened.use(SPACE) as store:
        await store.configure(CONFIG)
        await store.apply([commit(1, put("a"), put("b"))])
    yield opened
    await opened.close()


def recall(rkey: str = "a", at: int = NOW) -> Recall:
    return Recall(ALICE, rkey, CAROL, at)


def counted(connection: Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT rkey, recalls FROM strengths").fetchall())


async def written(pool: SpacePool) -> dict[str, int]:
    async with pool.use(SPACE) as store:
        return await store.database.read(counted)


async def until_written(pool: SpacePool, expected: dict[str, int]) -> None:
    async with asyncio.timeout(10):
        while await written(pool) != expected:  # noqa: ASYNC110 - another connection writes
            await asyncio.sleep(0.01)


async def test_recalls_are_written_a_moment_later_without_anybody_waiting(pool: SpacePool) -> None:
    reinforcer = Reinforcer(pool, interval=0.01)
    reinforcer.start()
    await reinforcer.add(SPACE, [recall("a"), recall("b")])
    await reinforcer.add(SPACE, [recall("a")])
    await until_written(pool, {"a": 2, "b": 1})
    await reinforcer.add(SPACE, [recall("b")])
    await until_written(pool, {"a": 2, "b": 2})
    await reinforcer.close()


async def test_closing_writes_what_is_left_at_once(pool: SpacePool) -> None:
    reinforcer = Reinforcer(pool, interval=LONG)
    reinforcer.start()
    await reinforcer.add(SPACE, [recall()])
    assert await written(pool) == {}
    await reinforcer.close()
    assert await written(pool) == {"a": 1}


async def test_who_brings_too_many_waits_until_some_are_written(pool: SpacePool) -> None:
    reinforcer = Reinforcer(pool, interval=LONG, max_waiting=2)
    await reinforcer.add(SPACE, [recall(), recall()])
    third = asyncio.create_task(reinforcer.add(SPACE, [recall("b")]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not third.done()
    await reinforcer.flush()
    await third
    assert await written(pool) == {"a": 2}
    await reinforcer.close()
    assert await written(pool) == {"a": 2, "b": 1}


async def test_a_batch_that_cannot_be_written_stays_in_line(pool: SpacePool) -> None:
    reinforcer = Reinforcer(pool, interval=LONG)
    async with pool.use(SPACE) as store:
        writer = store.database._writer
        writer.execute("PRAGMA query_only = ON")  # as a disk that has become read-only
        await reinforcer.add(SPACE, [recall("a", NOW)])
        with structlog.testing.capture_logs() as lines:
            await reinforcer.flush()
        assert [line["event"] for line in lines] == ["recalls not written"]
        writer.execute("PRAGMA query_only = OFF")
    await reinforcer.add(SPACE, [recall("b", NOW)])
    await reinforcer.close()
    assert await written(pool) == {"a": 1, "b": 1}


async def test_a_space_that_is_gone_is_not_made_again(tmp_path: Path, pool: SpacePool) -> None:
    other = type(SPACE)("at://did:plc:gone/garden.engram.config/self")
    reinforcer = Reinforcer(pool)
    await reinforcer.add(other, [recall()])
    await reinforcer.close()
    assert not pool.exists(other)
