"""Time inside the appview: whole microseconds since 1970, UTC. A clock is passed to whatever needs one."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def now() -> int:
    """Read the system's clock."""
    return time.time_ns() // 1_000
