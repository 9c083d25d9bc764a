"""Connections that are open, and which one goes when there are too many: one of whoever has the most.

So nobody keeps others out by connections that are of no use to him; what he reaches is that his own are
closed. The oldest one goes that waits for a request. Proxies that the operator has named speak for many, and
their connections stay.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from appview.xrpc.addresses import caller_address, limit_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.setting_kinds import Network

T = TypeVar("T")
_TRUSTED: Final = "trusted"  # a key that no address has


class Connections(Generic[T]):
    """Counts connections by address; `is_idle(connection)` tells whether one waits for a request."""

    def __init__(self, most: int, is_idle: Callable[[T], bool], trusted: tuple[Network, ...] = ()) -> None:
        self._most = most
        self._is_idle = is_idle
        self._trusted = trusted
        self._open: dict[str, dict[T, None]] = {}  # by address, oldest first
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, connection: T, peer: str | None) -> T | None:
        """Take a new one of `peer`; give the one that has to go for it, which may be itself."""
        key = self._key(peer)
        self._open.setdefault(key, {})[connection] = None
        self._counts[key] += 1
        if len(self) <= self._most:
            return None
        others = {each: count for each, count in self._counts.items() if each != _TRUSTED}
        largest = max(others, key=others.__getitem__, default=key)
        if others.get(largest, 0) <= self._counts[key]:
            largest = key
        idle = next((each for each in self._open[largest] if self._is_idle(each)), None)
        if idle is None:
            largest, idle = key, connection
        self._forget(largest, idle)
        return idle

    def remove(self, connection: T, peer: str | None) -> None:
        """Forget one that is closed."""
        self._forget(self._key(peer), connection)

    def _forget(self, key: str, connection: T) -> None:
        known = self._open.get(key, {})
        if connection not in known:
            return
        del known[connection]
        self._counts[key] -= 1
        if not known:
            del self._open[key], self._counts[key]

    def _key(self, peer: str | None) -> str:
        address = caller_address(peer, (), ())
        if address is not None and any(address in network for network in self._trusted):
            return _TRUSTED
        return limit_key(address)
