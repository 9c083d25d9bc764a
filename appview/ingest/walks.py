"""Walks over the trees of repos: computing that takes from a millisecond to minutes, in turns on one thread.

Invariants:
- A walk has the thread for one turn at most, then it is another's, if another waits.
- Every second turn is for the walk that has had the fewest: one that needs no more than a turn waits for two,
  and for others that are as new, however long the walks are that others bring. The turns between are for the
  site that has waited longest, so that a long walk comes to its end however many short ones come.
- Of equals, the site goes first whose last turn was longest ago; within a site, who has waited longest.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Work = Generator[None, None, T]  # gives way wherever another might go on

TURN_SECONDS: Final = 0.25  # ours: a repo of 2,000 memories in one turn
MAX_SITES: Final = 1_000  # of which is remembered when they had a turn


@dataclass(slots=True, eq=False)
class Walk:
    """One that needs turns."""

    site: str
    turns: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)


class Line:
    """Who waits for a turn, and who has the next: pure."""

    def __init__(self) -> None:
        self._waiting: dict[Walk, None] = {}  # who has waited longest comes first
        self._last: OrderedDict[str, int] = OrderedDict()  # the number of a site's last turn
        self._given = 0

    def enter(self, walk: Walk) -> None:
        """Wait for a turn."""
        self._waiting[walk] = None

    def leave(self, walk: Walk) -> None:
        """Wait no more."""
        self._waiting.pop(walk, None)

    def next(self) -> Walk | None:
        """Give a turn to one that waits."""
        if not self._waiting:
            return None
        fewest = self._given % 2 == 0
        walk = min(
            self._waiting, key=lambda each: (each.turns if fewest else 0, self._last.get(each.site, -1))
        )
        del self._waiting[walk]
        walk.turns += 1
        self._last[walk.site] = self._given
        self._last.move_to_end(walk.site)
        if len(self._last) > MAX_SITES:
            self._last.popitem(last=False)
        self._given += 1
        return walk


class Walks:
    """Does the work of many, in turns. Its thread ends with it."""

    def __init__(
        self, *, seconds: float = TURN_SECONDS, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._line = Line()
        self._busy = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="walk")

    async def run(self, site: str, work: Work[T]) -> T:
        """Do some work to its end, give what it returns and raise what it raises."""
        walk, loop = Walk(site), asyncio.get_running_loop()
        while True:
            await self._turn(walk)
            try:
                ended = await loop.run_in_executor(self._thread, self._go_on, work)
            finally:
                self._busy = False
                self._admit()
            if ended is not None:
                return ended.value

    async def _turn(self, walk: Walk) -> None:
        walk.go.clear()
        self._line.enter(walk)
        self._admit()
        try:
            await walk.go.wait()
        except asyncio.CancelledError:
            self._line.leave(walk)
            if walk.go.is_set():
                self._busy = False
                self._admit()
            raise

    def _admit(self) -> None:
        if not self._busy and (walk := self._line.next()) is not None:
            self._busy = True
            walk.go.set()

    def _go_on(self, work: Work[T]) -> _Ended[T] | None:
        until = self._monotonic() + self._seconds
        try:
            while True:
                next(work)
                if self._monotonic() >= until:
                    return None
        except StopIteration as end:
            return _Ended(end.value)


@dataclass(frozen=True, slots=True)
class _Ended(Generic[T]):
    value: T


def finish(work: Work[T]) -> T:
    """Do some work at once."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        value: T = end.value
        return value
