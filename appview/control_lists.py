"""The part of control.db that says how far the lists of hosts' accounts have been gone through.

Times are microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appview.sqlite import Database


@dataclass(frozen=True, slots=True)
class ListRow:
    """The list of one host: `cursor` of the page that is next, None at the start; `finished_at` is None while
    it is being gone through."""

    cursor: str | None
    finished_at: int | None


class ListTable:
    """The lists of an open control.db."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, host: str) -> ListRow | None:
        """Read how far the list of a host has been gone through, None where it never was."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT cursor, finished_at FROM discoveries WHERE host = ?", (host,)
            ).fetchall()
        )
        return ListRow(rows[0]["cursor"], rows[0]["finished_at"]) if rows else None

    async def put(self, host: str, cursor: str | None, finished_at: int | None) -> None:
        """Note the next page of a host's list, or that it was gone through."""
        await self._database.write(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO discoveries (host, cursor, finished_at) VALUES (?, ?, ?)",
                (host, cursor, finished_at),
            )
        )
