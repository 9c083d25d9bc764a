"""How memories fade and what a recall does to them. Pure functions of numbers.

Strength is `exp(-days / stability)`: 1 when a memory is made or recalled, less with every day since. A recall
makes the memory last longer, the more so the more of it had faded: what comes back after weeks is worth more
than what is asked for twice in an hour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

DAY_MICROS: Final = 86_400_000_000  # microseconds a day
FIRST_STABILITY_DAYS: Final = 1.0  # embornal model: of a memory that was never recalled
GAIN: Final = 2.75  # embornal model: how much a recall of a memory that has faded away adds
MAX_STABILITY_DAYS: Final = 3_650.0  # embornal model: ten years


@dataclass(frozen=True, slots=True)
class Trace:
    """What a memory has left behind: the instant (microseconds) it was made or last recalled, how long it
    lasts, how often it was recalled."""

    at: int
    stability_days: float = FIRST_STABILITY_DAYS
    recalls: int = 0

    def strength(self, now: int) -> float:
        """Tell what is left at an instant: 1 down to 0. A clock that went back changes nothing."""
        return math.exp(-max(0, now - self.at) / DAY_MICROS / self.stability_days)

    def recalled(self, now: int) -> Trace:
        """Tell what a recall leaves."""
        stability = self.stability_days * (1.0 + GAIN * (1.0 - self.strength(now)))
        return Trace(max(now, self.at), min(stability, MAX_STABILITY_DAYS), self.recalls + 1)
