"""How long to wait before trying again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Random = Callable[[], float]  # uniform in [0, 1)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waiting with jitter: the n-th wait is between half of and the whole of `base * 2**n`,
    never above `cap`. Seconds."""

    base: float
    cap: float

    def seconds(self, attempt: int, random: Random) -> float:
        """Compute the wait after `attempt` failures in a row (the first is 1)."""
        full = min(self.cap, self.base * 2.0 ** min(max(attempt - 1, 0), 40))
        return full * (0.5 + random() / 2)
