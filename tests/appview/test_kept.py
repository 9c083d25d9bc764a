"""Values kept for as long as nobody commits."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from appview.control import Control, SpaceRow
from appview.kept import MAX_KEPT, Kept
from appview.sqlite import Database
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.sqlite import Connection


@pytest.fixture
async def database(tmp_path: Path, executor: ThreadPoolExecutor) -> AsyncIterator[Database]:
    migrations = tmp_path / "migrations"
    migrations.mkdir()
    (migrations / "001_first.sql").write_text("CREATE TABLE things (name TEXT);", encoding="utf-8")
    opened = await Database.open(tmp_path / "a.db", migrations, executor, readers=1, watched=True)
    yield opened
    await opened.close()


class Counting:
    """Counts the things, and how often it was asked to."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, connection: Connection) -> int:
        self.asked += 1
        return int(connection.execute("SELECT count(*) FROM things").fetchone()[0])


def add(connection: Connection) -> None:
    connection.execute("INSERT INTO things VALUES ('a')")


async def test_what_nobody_changes_is_read_once(database: Database) -> None:
    kept, count = Kept(database), Counting()
    assert [await kept.get("count", count) for _ in range(3)] == [0, 0, 0]
    assert count.asked == 1


async def test_a_commit_of_our_own_is_seen_at_once(database: Database) -> None:
    kept, count = Kept(database), Counting()
    for number in range(4):
        assert await kept.get("count", count) == number
        await database.write(add)


async def test_a_commit_of_another_process_is_seen_at_once(database: Database, tmp_path: Path) -> None:
    kept, count = Kept(database), Counting()
    other = sqlite3.connect(tmp_path / "a.db")
    for number in range(4):
        assert await kept.get("count", count) == number
        with other:
            other.execute("INSERT INTO things VALUES ('a')")
    other.close()
    assert await kept.get("count", count) == 4


async def test_what_is_committed_while_it_is_read_is_not_missed(database: Database, tmp_path: Path) -> None:
    """The answer may be of before the commit, the next one may not."""
    kept, count = Kept(database), Counting()

    def slowly(connection: Connection) -> int:
        found = count(connection)
        other = sqlite3.connect(tmp_path / "a.db")
        with other:
            other.execute("INSERT INTO things VALUES ('a')")
        other.close()
        return found

    assert await kept.get("count", slowly) == 0
    assert await kept.get("count", count) == 1


async def test_no_more_is_kept_than_there_is_room_for(database: Database) -> None:
    kept, count = Kept(database), Counting()
    for number in range(MAX_KEPT + 1):
        await kept.get(number, count)
    assert count.asked == MAX_KEPT + 1
    await kept.get(MAX_KEPT, count)
    assert count.asked == MAX_KEPT + 1
    await kept.get(0, count)
    assert count.asked == MAX_KEPT + 2


async def test_a_locked_file_is_read_and_nothing_of_it_kept(database: Database, tmp_path: Path) -> None:
    kept, count = Kept(database), Counting()
    await kept.get("count", count)
    mark: Callable[[], int | None] = database.mark
    try:
        database.mark = lambda: None  # type: ignore[method-assign]  # as where it cannot be told
        assert await kept.get("count", count) == 0
        assert await kept.get("count", count) == 0
    finally:
        database.mark = mark  # type: ignore[method-assign]
    assert count.asked == 3


async def test_a_space_that_is_removed_is_gone_for_the_next_who_asks(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    did = Did("did:plc:authority")
    space = SpaceUri.public(did)
    ours = await Control.open(tmp_path / "control.db", executor)
    theirs = await Control.open(tmp_path / "control.db", executor)
    assert await ours.space(space) is None
    row = SpaceRow(space, did, "public", None, None, "3", 1)
    await theirs.put_space(row)
    assert await ours.space(space) == row
    assert await ours.space(space) == row
    await theirs.remove_space(space, 2, actor="operator")
    assert await ours.space(space) is None
    await theirs.close()
    await ours.close()
