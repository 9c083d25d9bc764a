"""Inserting many rows with few statements.

The interpreter's lock is let go while a statement runs and must be had again after it. With a statement a
row, a thread that writes stands in line behind one that computes, once a row, and gets nowhere; with a
statement for many rows the two work side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.sqlite import Connection

# Rows of one statement. SQLite takes 32,766 values, which would be 1,820 of the widest rows; more than this
# is no faster, and a connection keeps what it has compiled: 0.2 MB for all tables of a space.
BLOCK: Final = 64


def insert_many(connection: Connection, into: str, rows: Sequence[Sequence[object]]) -> None:
    """Insert rows `into` a table, named with its columns: in blocks as far as they go, then one by one."""
    if not rows:
        return
    row = f"({', '.join('?' * len(rows[0]))})"
    whole = len(rows) - len(rows) % BLOCK
    if whole:
        statement = f"INSERT INTO {into} VALUES {', '.join([row] * BLOCK)}"  # noqa: S608
        for start in range(0, whole, BLOCK):
            connection.execute(statement, [value for each in rows[start : start + BLOCK] for value in each])
    connection.executemany(f"INSERT INTO {into} VALUES {row}", rows[whole:])  # noqa: S608
