"""The write-ahead log of a database stays small, whoever reads."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from appview import sqlite
from appview.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from appview.sqlite import Connection

LIMIT = 8_000_000
PIECE = 1_000_000


@pytest.fixture
async def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    monkeypatch.setattr(sqlite, "MAX_JOURNAL_BYTES", LIMIT)
    monkeypatch.setattr(sqlite, "JOURNAL_LIMIT_BYTES", LIMIT // 2)
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 300)
    with ThreadPoolExecutor(6) as executor:
        database = await Database.open(tmp_path / "x.db", files("appview") / "migrations", executor)
        await database.write(lambda c: c.execute("CREATE TABLE pieces (piece BLOB)").fetchall())
        yield database
        await database.close()


def add(connection: Connection) -> None:
    connection.execute("INSERT INTO pieces VALUES (randomblob(?))", (PIECE,))


def count(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM pieces").fetchone()[0])


def size(tmp_path: Path) -> int:
    return (tmp_path / "x.db-wal").stat().st_size


async def test_readers_without_a_break_do_not_make_it_grow(database: Database, tmp_path: Path) -> None:
    ended = False

    def read(connection: Connection) -> None:
        count(connection)
        time.sleep(0.03)  # it reads for so long

    async def keep_reading() -> None:
        while not ended:
            await database.read(read)

    readers = []
    for _ in range(3):
        readers.append(asyncio.create_task(keep_reading()))
        await asyncio.sleep(0.01)  # so that one is always there
    largest = 0
    for _ in range(40):
        await database.write(add)
        largest = max(largest, size(tmp_path))
    ended = True
    await asyncio.gather(*readers)
    assert largest < LIMIT + 2 * PIECE
    assert await database.read(count) == 40


async def test_while_one_reads_for_long_writing_slows_down_and_goes_on(
    database: Database, tmp_path: Path
) -> None:
    begun, enough = threading.Event(), threading.Event()

    def read(connection: Connection) -> int:
        seen = count(connection)
        begun.set()
        enough.wait(30)
        assert count(connection) == seen  # as it was when it began
        return seen

    reader = asyncio.create_task(database.read(read))
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(9):
        await database.write(add)
    assert size(tmp_path) > LIMIT
    started = time.monotonic()
    await database.write(add)
    await database.write(add)
    assert time.monotonic() - started > 0.4  # each has waited for the reader
    assert not reader.done()
    enough.set()
    assert await reader == 0
    await database.write(add)
    assert size(tmp_path) < LIMIT
    assert await database.read(count) == 12


def test_the_limit_is_128_mb() -> None:
    assert sqlite.MAX_JOURNAL_BYTES == 128 * 1024 * 1024
