"""What may be done for a repo at most once in a while, however often it is wanted. Pure.

Invariants: what is wanted too soon is owed, and is had once, when the time has come; an instant ahead of the
clock, which was put back, holds nothing up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lexicons.syntax import Did

SECOND: Final = 1_000_000  # microseconds
MINUTE: Final = 60 * SECOND  # ours: between two questions that anybody's word may lead to


class Pace:
    """Turns of one kind, a repo at most one in `interval`."""

    def __init__(self, interval: int = MINUTE) -> None:
        self._interval = interval
        self._taken: dict[Did, int] = {}
        self._owed: dict[Did, int] = {}

    def take(self, did: Did, now: int) -> bool:
        """Take a turn; where it is too soon, one is owed."""
        last = self._taken.get(did)
        if last is not None and 0 <= now - last < self._interval:
            self._owed[did] = last + self._interval
            return False
        self._taken[did] = now
        self._owed.pop(did, None)
        return True

    def due(self, now: int) -> list[Did]:
        """Tell whose turn has come."""
        return [did for did, due in self._owed.items() if not now < due <= now + self._interval]

    def forget(self, did: Did) -> None:
        """Owe nothing."""
        self._taken.pop(did, None)
        self._owed.pop(did, None)
