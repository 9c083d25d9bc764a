"""Places for requests, waited for: those of a lane, and those at one host.

Invariants: a request that takes long gives its place up (see `lanes`); at a host of which nothing is known
that is soon, and the next time it has as long as any other; a program that was slow itself blames no host.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from appview.http.errors import FetchError
from appview.http.lanes import Lane, Standing, Ticket, as_member, share

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from appview.http.lanes import Rank

FIRST_PATIENCE: Final = 1.5  # seconds with a place, of a host that has never been asked
MAX_LAG: Final = 0.25  # seconds that a look at a request may itself be late
MIN_RATE: Final = 100_000.0  # bytes a second of a large answer that is not called slow


class HostSlow(FetchError):
    """A host took long while others that did so too waited for room, and was not waited for any more."""

    def __init__(self, host: str, seconds: float) -> None:
        super().__init__(f"{host} was slow: nothing for {seconds:.0f} s, while others waited")


class Place:
    """A request that may be made. Whoever reads a large answer tells how it gets on."""

    def __init__(self, started: float, monotonic: Callable[[], float]) -> None:
        self.bytes = 0
        self._started = started
        self._monotonic = monotonic
        self._whole = False

    def arrived(self) -> None:
        """Say that the answer is here: what takes longer now is nobody's fault but ours."""
        self._whole = True

    @property
    def seconds(self) -> float:
        """How long ago it began."""
        return self._monotonic() - self._started

    def is_slow(self) -> bool:
        """Tell whether the host sends less than it should."""
        return not self._whole and self.bytes < MIN_RATE * self.seconds


class Places:
    """A lane for whoever awaits a place in it. `patience`: with a place, in seconds, as `monotonic` gives."""

    def __init__(
        self,
        places: int,
        long: int,
        patience: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lane = Lane(places, long)
        self._patience = patience
        self._monotonic = monotonic
        self._admitted: dict[Ticket, asyncio.Event] = {}
        self._deadlines: dict[Ticket, asyncio.Timeout] = {}
        self._watches: dict[Ticket, asyncio.TimerHandle] = {}

    @asynccontextmanager
    async def place(self, host: str, rank: Rank = as_member) -> AsyncIterator[Place]:
        """Wait for a place, and give it up for another one where what is done with it takes long; raise
        `HostSlow`."""
        ticket, admitted = Ticket(host, rank), asyncio.Event()
        self._admitted[ticket] = admitted
        try:
            self._admit(self.lane.enter(ticket))
            await admitted.wait()
            place = Place(self._monotonic(), self._monotonic)
            ticket.is_slow = place.is_slow
            known = ticket.manner != "unknown"
            async with asyncio.timeout(None) as deadline:
                self._deadlines[ticket] = deadline
                self._watch(ticket, self._patience if known else min(FIRST_PATIENCE, self._patience))
                yield place
        except TimeoutError:
            if not deadline.expired():
                raise
            raise HostSlow(host, place.seconds) from None
        finally:
            del self._admitted[ticket]
            self._deadlines.pop(ticket, None)
            if (watch := self._watches.pop(ticket, None)) is not None:
                watch.cancel()
            self._admit(self.lane.leave(ticket))

    def rank_again(self) -> None:
        """Have everybody who waits stand where its account stands by now."""
        self._admit(self.lane.rank_again())

    def _watch(self, ticket: Ticket, seconds: float) -> None:
        """Have a request that takes long make room for others, until it has."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds

        def look() -> None:
            if loop.time() - due > MAX_LAG:  # the answer may be here: it was this program that was slow
                self._watch(ticket, seconds)
                return
            admitted, ended = self.lane.takes_long(ticket)
            self._admit(admitted)
            if ended is not None and ended in self._deadlines:
                self._deadlines[ended].reschedule(loop.time())
            if ticket.state == "inside":
                self._watch(ticket, self._patience)

        self._watches[ticket] = loop.call_at(due, look)

    def _admit(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            self._admitted[ticket].set()


@dataclass(slots=True, eq=False)
class _Turn:
    rank: Rank
    come: asyncio.Future[None]
    standing: Standing | None = None  # with which it was let in


class Gate:
    """So many at once through one door, the highest standing first. As in a lane, every standing with those
    below it leaves a quarter to those above."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._inside = [0] * len(Standing)  # of each standing and those below it
        self._waiting: list[tuple[Standing, int, _Turn]] = []
        self._numbers = count()

    @asynccontextmanager
    async def passed(self, rank: Rank = as_member) -> AsyncIterator[None]:
        """Wait to be let in."""
        turn = _Turn(rank, asyncio.get_running_loop().create_future())
        heappush(self._waiting, (rank(), next(self._numbers), turn))
        self._admit()
        try:
            await turn.come
            yield
        finally:
            if turn.standing is not None:
                self._count(turn.standing, -1)
            self._admit()

    def rank_again(self) -> None:
        """Have everybody who waits stand where its account stands by now."""
        self._waiting = [(turn.rank(), number, turn) for _, number, turn in self._waiting]
        heapify(self._waiting)
        self._admit()

    def _admit(self) -> None:
        """Let in who is first: where the first may not, nobody below may."""
        while self._waiting:
            standing, _, turn = self._waiting[0]
            if not turn.come.cancelled():
                if any(self._inside[each] >= share(self._places, each) for each in range(standing + 1)):
                    return
                self._count(standing, 1)
                turn.standing = standing
                turn.come.set_result(None)
            heappop(self._waiting)

    def _count(self, standing: Standing, number: int) -> None:
        for each in range(standing + 1):
            self._inside[each] += number
