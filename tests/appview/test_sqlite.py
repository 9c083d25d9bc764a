"""Calls that are cancelled: what they run ends, and the connection is as good as new."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import TYPE_CHECKING

import pytest

from appview.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.sqlite import Connection

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
async def database(tmp_path: Path, executor: ThreadPoolExecutor) -> AsyncIterator[Database]:
    migrations = tmp_path / "migrations"
    migrations.mkdir()
    (migrations / "001_first.sql").write_text("CREATE TABLE things (name TEXT);", encoding="utf-8")
    opened = await Database.open(tmp_path / "a.db", migrations, executor, readers=1)
    yield opened
    await opened.close()


def count(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM things").fetchone()[0])


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_connection_waits_for_the_disk_and_keeps_its_log_short(database: Database, kind: str) -> None:
    def settings(connection: Connection) -> dict[str, int | str]:
        names = ("journal_mode", "synchronous", "journal_size_limit", "foreign_keys", "trusted_schema")
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    assert await getattr(database, kind)(settings) == {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL: what was answered for survives a loss of power
        "journal_size_limit": 64 * 1024 * 1024,
        "foreign_keys": 1,
        "trusted_schema": 0,
    }


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_statement_that_begins_after_the_cancelling_ends_too(
    database: Database, kind: str, times: int
) -> None:
    began, cancelled = asyncio.Event(), Event()
    loop, ends = asyncio.get_running_loop(), []

    def work(connection: Connection) -> None:
        loop.call_soon_threadsafe(began.set)
        cancelled.wait()
        try:
            connection.execute(ENDLESS).fetchone()
        finally:
            ends.append(connection.in_transaction)

    async with asyncio.timeout(20):
        task = asyncio.create_task(getattr(database, kind)(work))
        await began.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The only reader, and the writer, are free, and in no transaction.
        assert ends == [True]
        assert await database.read(count) == 0
        await database.write(lambda connection: connection.execute("INSERT INTO things VALUES ('a')"))
        assert await database.read(count) == 1


async def test_whatever_the_moment_of_the_cancelling_the_next_call_goes_well(database: Database) -> None:
    """Interrupts fall on every statement, those that end a transaction included."""

    def work(connection: Connection) -> None:
        for _ in range(20):
            count(connection)

    for turn in range(200):
        task = asyncio.create_task(database.read(work) if turn % 2 else database.write(work))
        for _ in range(turn % 7):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert await database.read(count) == 0
        await database.write(count)
