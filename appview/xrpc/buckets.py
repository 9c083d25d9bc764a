"""Token buckets: how often somebody may ask. Pure: the time is given.

A bucket holds as many requests as its limit and refills evenly, within a minute when it was empty. It is kept
as one number, the moment at which it will be full again (the "theoretical arrival time" of the generic cell
rate algorithm), in whole units, so that nothing is lost to rounding however long it runs.

Invariant: at most `max_keys` buckets are kept. The one that was not used for longest goes first, and it is
full or nearly so: whoever can crowd it out has that many addresses to ask from anyway.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

WINDOW: Final = 60_000_000  # microseconds: limits are requests a minute
MAX_KEYS: Final = 50_000  # ours: buckets of one kind, about 200 bytes each
_SECOND: Final = 1_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class Standing:
    """How a bucket stands after a request; seconds are rounded up."""

    allowed: bool
    limit: int
    remaining: int
    full_after: int  # seconds
    retry_after: int  # seconds until the request that was refused is allowed; 0 where it was allowed


class Buckets:
    """Buckets of one kind, one a key, all with the same limit."""

    def __init__(self, limit: int, *, window: int = WINDOW, max_keys: int = MAX_KEYS) -> None:
        self._limit = limit
        self._window = window
        self._max_keys = max_keys
        # Key -> when it is full again, in microseconds times `limit`: a request is then `window` units.
        self._full_at: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    @property
    def policy(self) -> str:
        """The limit as the header `RateLimit-Policy` has it."""
        return f"{self._limit};w={self._window // _SECOND}"

    def take(self, key: str, now: int, cost: int = 1) -> Standing:
        """Take `cost` requests from a bucket, or nothing where it holds less; `now` in microseconds."""
        moment = now * self._limit
        capacity = self._window * self._limit
        # More than empty it can only be where the clock was set back.
        taken = min(max(self._full_at.get(key, moment) - moment, 0), capacity)
        wanted = taken + cost * self._window
        if wanted > capacity:
            self._keep(key, moment + taken)
            return self._standing(taken, min(wanted - capacity, taken), allowed=False)
        self._keep(key, moment + wanted)
        return self._standing(wanted, 0, allowed=True)

    def drain(self, key: str, now: int, cost: int) -> None:
        """Take `cost` requests from a bucket, or all that it holds."""
        moment = now * self._limit
        taken = max(self._full_at.get(key, moment) - moment, 0) + cost * self._window
        self._keep(key, moment + min(taken, self._window * self._limit))

    def _keep(self, key: str, full_at: int) -> None:
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._max_keys:
            self._full_at.popitem(last=False)

    def _standing(self, taken: int, excess: int, *, allowed: bool) -> Standing:
        remaining = (self._window * self._limit - taken) // self._window
        a_second = self._limit * _SECOND
        return Standing(allowed, self._limit, remaining, -(-taken // a_second), -(-excess // a_second))
