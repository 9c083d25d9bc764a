"""Many rows with few statements: the same rows, whatever their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pysqlite3 as sqlite3
import pytest

from appview.memory.inserts import BLOCK, insert_many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from appview.sqlite import Connection


@pytest.fixture
def connection() -> Iterator[Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE words (word TEXT NOT NULL, number INTEGER UNIQUE, data BLOB) STRICT")
    yield connection
    connection.close()


def statements_of(connection: Connection) -> list[str]:
    """Note every statement that runs from here on."""
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    return seen


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 5])
def test_every_row_is_inserted_once_and_in_order(connection: Connection, count: int) -> None:
    rows = [
        (f"word {number}", number, bytes([number % 256]) if number % 2 else None) for number in range(count)
    ]
    insert_many(connection, "words (word, number, data)", rows)
    assert connection.execute("SELECT word, number, data FROM words ORDER BY rowid").fetchall() == rows


def test_many_rows_take_few_statements(connection: Connection) -> None:
    seen = statements_of(connection)
    insert_many(connection, "words (word, number)", [("a", number) for number in range(10 * BLOCK + 2)])
    assert len(seen) == 10 + 2


def test_a_row_that_is_refused_takes_its_block_with_it(connection: Connection) -> None:
    rows: list[tuple[str | None, int]] = [("a", number) for number in range(2 * BLOCK)]
    rows[BLOCK + 3] = (None, 5_000)
    with pytest.raises(sqlite3.IntegrityError):
        insert_many(connection, "words (word, number)", rows)
    assert connection.execute("SELECT count(*) FROM words").fetchone()[0] == BLOCK
