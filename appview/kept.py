"""What was read of a database, kept for as long as nobody commits to it.

Every answer needs the version of the rules and the row of its space, which hardly ever change: to read them
each time would cost two hops to another thread. Nothing is ever kept that a commit of any process, this one's
included, could have changed: before each use the file's mark is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from appview.sqlite import Connection, Database

MAX_KEPT: Final = 1_000  # ours, values; a space's row is about 1 kB

T = TypeVar("T")


class Kept:
    """Values read of one database, which must be open to be `watched`. Not for several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mark: int | None = None
        self._values: dict[Hashable, object] = {}

    async def get(self, key: Hashable, work: Callable[[Connection], T]) -> T:
        """Give what `work` reads; the same key must always come with the same work."""
        mark = self._database.mark()
        if mark != self._mark:
            self._values.clear()
            self._mark = mark
        elif mark is not None and key in self._values:
            return cast("T", self._values[key])
        value = await self._database.read(work)
        # Read after the mark was taken, so as new as it says or newer.
        if mark is not None and mark == self._mark:
            if len(self._values) >= MAX_KEPT:
                self._values.clear()
            self._values[key] = value
        return value
