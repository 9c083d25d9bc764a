"""Manners towards other hosts: how much is asked of one at once and in a while, and when not at all.

Invariants: a host is asked for a few things at once and no more, and those who wait for a slow host hold
nobody else's place, nor for long the places of all (see `lanes`); large answers do not keep small ones
waiting; no host is sent more than its budget of requests; one that says when to come back is not asked
before.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from appview.http.errors import FetchError, HttpStatusError
from appview.ingest.lanes import Lane, Ticket, site_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

LaneName = Literal["repo", "record"]

PER_HOST: Final[Mapping[LaneName, int]] = {"repo": 2, "record": 4}  # requests at one host at once
TOTAL: Final[Mapping[LaneName, int]] = {"repo": 12, "record": 48}  # requests at all hosts at once
PATIENCE: Final[Mapping[LaneName, float]] = {"repo": 10.0, "record": 2.0}  # seconds with a place
LONG: Final[Mapping[LaneName, int]] = {"repo": 6, "record": 16}  # more, of those that take longer
MAX_LAG: Final = 0.25  # seconds that a look at a request may itself be late
MIN_RATE: Final = 100_000.0  # bytes a second of a repo that is not called slow
# The official PDS allows an address 3,000 requests in 5 minutes: 300 at once and 9 a second.
BURST: Final = 300.0
PER_SECOND: Final = 9.0
MIN_SLEEP: Final = 0.001  # seconds
MAX_HOLD: Final = 24 * 3600.0  # seconds; a host that asks for more is asked again anyway
MAX_HOSTS: Final = 10_000  # hosts remembered
_BUSY: Final = frozenset({429, 503})


class HostHeld(FetchError):
    """A host asked not to be asked for a while, and was not."""

    def __init__(self, host: str, seconds: float) -> None:
        super().__init__(f"{host} asked to be left alone for {seconds:.0f} s")
        self._seconds = seconds

    @property
    def retry_after_seconds(self) -> float | None:
        """How long that still is."""
        return self._seconds


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


@dataclass(slots=True)
class _Host:
    tokens: float
    filled_at: float
    lanes: dict[LaneName, asyncio.Semaphore] = field(
        default_factory=lambda: {lane: asyncio.Semaphore(count) for lane, count in PER_HOST.items()}
    )
    inside: int = 0  # who waits or asks
    held_until: float = 0.0


class Hosts:
    """Places at hosts. `monotonic` gives seconds."""

    def __init__(
        self,
        *,
        patience: Mapping[LaneName, float] = PATIENCE,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._hosts: OrderedDict[str, _Host] = OrderedDict()
        self._lanes = {lane: Lane(count, LONG[lane]) for lane, count in TOTAL.items()}
        self._admitted: dict[Ticket, asyncio.Event] = {}
        self._deadlines: dict[Ticket, asyncio.Timeout] = {}
        self._watches: dict[Ticket, asyncio.TimerHandle] = {}
        self._patience = patience
        self._monotonic = monotonic
        self._sleep = sleep

    @asynccontextmanager
    async def place(self, name: str, lane: LaneName, *, reserve: float = 0.0) -> AsyncIterator[Place]:
        """Wait for a place at the host first, and only then for one of all; raise `HostHeld`, `HostSlow`.

        `reserve`: so many requests of the host's budget are left to others, who are in more of a hurry.
        """
        host = self._host(name)
        host.inside += 1
        try:
            async with host.lanes[lane]:
                await self._spend(name, host, 1.0 + reserve)
                async with self._turn(name, lane) as place:
                    yield place
        except HttpStatusError as error:
            if error.status in _BUSY and error.retry_after_seconds is not None:
                wait = min(error.retry_after_seconds, MAX_HOLD)
                host.held_until = max(host.held_until, self._monotonic() + wait)
            raise
        finally:
            host.inside -= 1

    @asynccontextmanager
    async def _turn(self, name: str, lane: LaneName) -> AsyncIterator[Place]:
        """Wait for a place among all hosts, and give it up for another one where that takes long."""
        shares, ticket, admitted = self._lanes[lane], Ticket(site_of(name)), asyncio.Event()
        self._admitted[ticket] = admitted
        try:
            self._admit(shares.enter(ticket))
            await admitted.wait()
            place = Place(self._monotonic(), self._monotonic)
            ticket.is_slow = place.is_slow
            async with asyncio.timeout(None) as deadline:
                self._deadlines[ticket] = deadline
                self._watch(lane, ticket, asyncio.get_running_loop().time() + self._patience[lane])
                yield place
        except TimeoutError:
            if not deadline.expired():
                raise
            raise HostSlow(name, place.seconds) from None
        finally:
            del self._admitted[ticket]
            self._deadlines.pop(ticket, None)
            if (watch := self._watches.pop(ticket, None)) is not None:
                watch.cancel()
            self._admit(shares.leave(ticket))

    def _watch(self, lane: LaneName, ticket: Ticket, due: float) -> None:
        """Have a request that takes long make room for others, until it has."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            if loop.time() - due > MAX_LAG:  # the answer may be here: it was this program that was slow
                self._watch(lane, ticket, loop.time() + self._patience[lane])
                return
            admitted, ended = self._lanes[lane].takes_long(ticket)
            self._admit(admitted)
            if ended is not None and ended in self._deadlines:
                self._deadlines[ended].reschedule(loop.time())
            if ticket.state == "inside":
                self._watch(lane, ticket, loop.time() + self._patience[lane])

        self._watches[ticket] = loop.call_at(due, look)

    def _admit(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            self._admitted[ticket].set()

    async def _spend(self, name: str, host: _Host, wanted: float) -> None:
        while True:
            now = self._monotonic()
            if now < host.held_until:
                raise HostHeld(name, host.held_until - now)
            host.tokens = min(BURST, host.tokens + (now - host.filled_at) * PER_SECOND)
            host.filled_at = now
            if host.tokens >= wanted:
                host.tokens -= 1.0
                return
            await self._sleep(max((wanted - host.tokens) / PER_SECOND, MIN_SLEEP))

    def _host(self, name: str) -> _Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(BURST, self._monotonic())
            for old in list(self._hosts)[: max(0, len(self._hosts) - MAX_HOSTS)]:
                if not self._hosts[old].inside and self._hosts[old].held_until <= self._monotonic():
                    del self._hosts[old]
        self._hosts.move_to_end(name)
        return host
