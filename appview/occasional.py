"""Saying the same thing now and then: once an interval, with how often it happened meanwhile.

Pure, times are microseconds since 1970. What strangers can cause without end is told through here, so that
nobody makes the log long; at most `max_keys` things are told in one interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

INTERVAL: Final = 60_000_000  # microseconds; ours
MAX_KEYS: Final = 1_000  # ours


class Occasional:
    """Counts what happens, and tells when to speak of it."""

    def __init__(self, interval: int = INTERVAL, max_keys: int = MAX_KEYS) -> None:
        self._interval = interval
        self._max_keys = max_keys
        self._said: dict[Hashable, tuple[int, int]] = {}  # when it was last told, how often since

    def due(self, key: Hashable, now: int, count: int = 1) -> int | None:
        """Count something; give how often it happened since it was last told if it is to be told now."""
        known = self._said.get(key)
        if known is not None and 0 <= now - known[0] < self._interval:
            self._said[key] = (known[0], known[1] + count)
            return None
        if known is None and len(self._said) >= self._max_keys:
            self._said = {
                each: said for each, said in self._said.items() if 0 <= now - said[0] < self._interval
            }
            if len(self._said) >= self._max_keys:
                return None
        self._said[key] = (now, 0)
        return count + (0 if known is None else known[1])
