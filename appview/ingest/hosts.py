"""Manners towards other hosts: how much is asked of one at once and in a while, and when not at all.

Invariants: a host is asked for a few things at once and no more, and those who wait for a slow host hold
nobody else's place, nor for long the places of all (see `http.lanes`); large answers do not keep small ones
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
from appview.http.lanes import as_member
from appview.http.places import Gate, Places

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from appview.http.lanes import Rank
    from appview.http.places import Place

LaneName = Literal["repo", "record"]

PER_HOST: Final[Mapping[LaneName, int]] = {"repo": 2, "record": 4}  # requests at one host at once
TOTAL: Final[Mapping[LaneName, int]] = {"repo": 12, "record": 48}  # requests at all hosts at once
PATIENCE: Final[Mapping[LaneName, float]] = {"repo": 10.0, "record": 2.0}  # seconds with a place
LONG: Final[Mapping[LaneName, int]] = {"repo": 6, "record": 16}  # more, of those that take longer
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


@dataclass(slots=True)
class _Host:
    tokens: float
    filled_at: float
    gates: dict[LaneName, Gate] = field(
        default_factory=lambda: {lane: Gate(count) for lane, count in PER_HOST.items()}
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
        self._places = {
            lane: Places(count, LONG[lane], patience[lane], monotonic=monotonic)
            for lane, count in TOTAL.items()
        }
        self._monotonic = monotonic
        self._sleep = sleep

    @asynccontextmanager
    async def place(
        self, name: str, lane: LaneName, rank: Rank = as_member, *, reserve: float = 0.0
    ) -> AsyncIterator[Place]:
        """Wait for a place at the host first, and only then for one of all; raise `HostHeld`, `HostSlow`.

        `rank`: tells for whose sake. `reserve`: so many requests of the host's budget are left to others, who
        are in more of a hurry.
        """
        host = self._host(name)
        host.inside += 1
        try:
            async with host.gates[lane].passed(rank):
                await self._spend(name, host, 1.0 + reserve)
                async with self._places[lane].place(name, rank) as place:
                    yield place
        except HttpStatusError as error:
            if error.status in _BUSY and error.retry_after_seconds is not None:
                wait = min(error.retry_after_seconds, MAX_HOLD)
                host.held_until = max(host.held_until, self._monotonic() + wait)
            raise
        finally:
            host.inside -= 1

    def rank_again(self) -> None:
        """Have everybody who waits stand where its account stands by now."""
        for host in self._hosts.values():
            for gate in host.gates.values() if host.inside else ():
                gate.rank_again()
        for places in self._places.values():
            places.rank_again()

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
