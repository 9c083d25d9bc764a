"""Rate limits: every request is counted by address, then by who asks, then by space.

The address is counted before anything else is looked at, so that guessing credentials costs the guesser; a
credential that does not hold costs as much as ten requests, because proving one asks other servers. A space
is counted only for those who may read in it, and its count shows in no header: it would tell of others.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

from appview.access.subjects import Anonymous, holder
from appview.xrpc.addresses import caller_address, limit_key
from appview.xrpc.buckets import Buckets
from appview.xrpc.errors import RateLimitExceeded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from appview.access.subjects import Subject
    from appview.clock import Clock
    from appview.setting_kinds import Network
    from appview.settings import Settings
    from appview.xrpc.buckets import Standing
    from lexicons.spaces import SpaceUri

    Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]

REFUSED_COST: Final = 10  # ours: requests that a credential which does not hold counts for
MAX_AT_ONCE: Final = 96  # ours: requests of one address; two thirds of the line before the queries
COUNTED: Final = ("/xrpc/", "/browse")  # methods, and the pages that are made of their answers
UNLIMITED: Final = frozenset({"/xrpc/_health"})  # what watches over the service asks often


class Limits:
    """What is counted of all requests. One an application."""

    def __init__(
        self,
        clock: Clock,
        *,
        address: int = 0,
        subject: int = 0,
        space: int = 0,
        at_once: int = MAX_AT_ONCE,
        trusted: tuple[Network, ...] = (),
    ) -> None:
        """Limit requests a minute; 0 is no limit."""
        self.clock = clock
        self.addresses = Buckets(address) if address else None
        self.subjects = Buckets(subject) if subject else None
        self.spaces = Buckets(space) if space else None
        self._at_once = at_once
        self._present: Counter[str] = Counter()
        self._trusted = trusted

    @classmethod
    def of(cls, settings: Settings, clock: Clock) -> Limits:
        """Take the limits that are configured."""
        return cls(
            clock,
            address=settings.rate_address,
            subject=settings.rate_subject,
            space=settings.rate_space,
            trusted=settings.trusted_proxies,
        )

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handle) -> web.StreamResponse:
        """Count a request by its address, and let what answers it count on; raise `RateLimitExceeded`."""
        if not request.path.startswith(COUNTED) or request.path in UNLIMITED:
            return await handler(request)
        address = caller_address(request.remote, request.headers.getall("X-Forwarded-For", ()), self._trusted)
        desk = request[_DESK] = Desk(self, limit_key(address))
        with self._place(desk.address):
            desk.count_address()
            return await handler(request)

    @contextmanager
    def _place(self, address: str) -> Iterator[None]:
        if self._present[address] >= self._at_once:
            raise RateLimitExceeded(f"more than {self._at_once} requests at once from one address")
        self._present[address] += 1
        try:
            yield
        finally:
            self._present[address] -= 1
            if not self._present[address]:
                del self._present[address]


class Desk:
    """The counting of one request."""

    def __init__(self, limits: Limits, address: str) -> None:
        self.address = address
        self._limits = limits
        self._tightest: tuple[Standing, str] | None = None

    def count_address(self) -> None:
        """Count the request by its address; raise `RateLimitExceeded`."""
        self._count(self._limits.addresses, self.address, "from this address")

    def count_refusal(self) -> None:
        """Count that the credential of the request does not hold, or could not be checked."""
        if self._limits.addresses is not None:
            self._limits.addresses.drain(self.address, self._limits.clock(), REFUSED_COST - 1)

    def count_subject(self, subject: Subject) -> None:
        """Count the request by who asks, where that is known; raise `RateLimitExceeded`."""
        if not isinstance(subject, Anonymous):
            self._count(self._limits.subjects, holder(subject), "by this caller")

    def count_space(self, space: SpaceUri) -> None:
        """Count the request by the space that it reads; raise `RateLimitExceeded`."""
        buckets = self._limits.spaces
        if buckets is not None:
            standing = buckets.take(str(space), self._limits.clock())
            if not standing.allowed:
                raise RateLimitExceeded("too many requests to this space", after=standing.retry_after)

    @property
    def headers(self) -> dict[str, str]:
        """What the caller is told: the tightest of the limits that count the caller alone."""
        if self._tightest is None:
            return {}
        standing, policy = self._tightest
        return {
            "RateLimit-Limit": str(standing.limit),
            "RateLimit-Remaining": str(standing.remaining),
            # Seconds since 1970, as servers of this network have it.
            "RateLimit-Reset": str(self._limits.clock() // 1_000_000 + standing.full_after),
            "RateLimit-Policy": policy,
        }

    def _count(self, buckets: Buckets | None, key: str, whose: str) -> None:
        if buckets is None:
            return
        standing = buckets.take(key, self._limits.clock())
        if self._tightest is None or not standing.allowed or standing.remaining < self._tightest[0].remaining:
            self._tightest = (standing, buckets.policy)
        if not standing.allowed:
            raise RateLimitExceeded(f"too many requests {whose}", after=standing.retry_after)


_DESK: Final = web.RequestKey("desk", Desk)


def desk_of(request: web.Request) -> Desk:
    """Find where a request that came through the middleware is counted."""
    return request[_DESK]


def address_of(request: web.BaseRequest) -> str | None:
    """Name what a request is counted as, once it is."""
    desk = request.get(_DESK)
    return None if desk is None else desk.address


def headers_of(request: web.Request) -> dict[str, str]:
    """Write the headers for the answer to a request; none where it was not counted."""
    desk = request.get(_DESK)
    return {} if desk is None else desk.headers
