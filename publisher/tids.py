"""Record keys chosen before anything is sent, so that a repeated write cannot become a second record."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from lexicons.syntax import Tid

if TYPE_CHECKING:
    from collections.abc import Callable


class TidClock:
    """Gives TIDs that only go up, with a clock id of 10 random bits."""

    def __init__(
        self, now: Callable[[], int] = lambda: time.time_ns() // 1000, clock_id: int | None = None
    ) -> None:
        self._now = now
        self._clock_id = secrets.randbits(10) if clock_id is None else clock_id
        self._last = 0

    def next(self) -> Tid:
        """Give the TID of now, or of the microsecond after the last one."""
        self._last = max(self._now(), self._last + 1)
        return Tid.from_micros(self._last, self._clock_id)
