"""The time a question has."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_SECONDS: Final = 3.0  # ours; a question to a million memories takes a fiftieth of it


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant after which a question takes what it has."""

    at: float = inf
    clock: Callable[[], float] = monotonic

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = monotonic) -> Self:
        """Set one so many seconds from now."""
        return cls(clock() + seconds, clock)

    def halfway(self) -> Deadline:
        """Set one after half of the time that is left: what must leave time for more keeps to it."""
        now = self.clock()
        return Deadline(now + max(0.0, self.at - now) / 2, self.clock)

    def passed(self) -> bool:
        """Tell whether it is over."""
        return self.clock() >= self.at


NEVER: Final = Deadline()
