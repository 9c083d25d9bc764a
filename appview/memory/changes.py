"""What changed in a space's file, for whoever keeps something of it in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from appview.sqlite import Connection


def last_change(connection: Connection) -> int:
    """Read the number of the newest change."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    return 0 if row is None else int(row[0])


def changed_since(connection: Connection, number: int) -> NDArray[np.int64] | None:
    """List the facts that changed after a change, None where that is not known any more."""
    last = last_change(connection)
    if number > last:
        return None  # the file was replaced by an older one
    oldest = connection.execute("SELECT min(number) FROM changes").fetchone()[0]
    if oldest is None or oldest > number + 1:
        return None if last > number else np.empty(0, np.int64)
    return np.unique(numbers(connection, "SELECT fact_id AS number FROM changes WHERE number > ?", (number,)))


def numbers(connection: Connection, sql: str, params: Sequence[object] = ()) -> NDArray[np.int64]:
    """Run a query for one column `number`, in the order it gives, as one text."""
    row = connection.execute(f"SELECT group_concat(number) FROM ({sql})", params).fetchone()  # noqa: S608
    return parsed(row[0])


def parsed(text: str | None) -> NDArray[np.int64]:
    """Read numbers with commas between them."""
    return np.fromstring(text, np.int64, sep=",") if text is not None else np.empty(0, np.int64)
