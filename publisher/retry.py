"""When to try again, and how fast to write. Pure: time and randomness are passed in."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_MAX_WAIT: Final = 60.0  # seconds; longer pauses are the user's to decide
MAX_SENSIBLE_WAIT: Final = 86_400.0  # seconds; the longest window of a PDS is a day
CREATE_POINTS: Final = 3  # what the official PDS counts for a create


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter, in seconds; a server that names a time is believed."""

    attempts: int = 6
    base: float = 0.5
    cap: float = 20.0
    max_wait: float = DEFAULT_MAX_WAIT

    def pause(self, attempt: int, asked: float | None, chance: float) -> float | None:
        """Tell how long to wait after failed attempt number `attempt` (from 1); None: give up.

        `asked` is what the server asked for; `chance` is uniform in [0, 1).
        """
        if attempt >= self.attempts:
            return None
        backoff = chance * min(self.cap, self.base * 2 ** (attempt - 1))
        # Everybody who was told the same second would come back in it, so the jitter is added to it.
        wait = backoff if asked is None else asked + chance * self.base
        return wait if wait <= self.max_wait else None


@dataclass(frozen=True, slots=True)
class Budget:
    """What a PDS said about the writes that are left: points, and the second (Unix time) they come back."""

    remaining: int
    reset: float

    def delay(self, points: int, now: float) -> float:
        """Seconds until a write of `points` fits."""
        return 0.0 if self.remaining >= points or self.reset <= now else self.reset - now


def read_budget(headers: Mapping[str, str]) -> Budget | None:
    """Read `RateLimit-Remaining` and `RateLimit-Reset` (header names in lower case)."""
    remaining, reset = headers.get("ratelimit-remaining", ""), headers.get("ratelimit-reset", "")
    if not _digits(remaining) or not _digits(reset):
        return None
    return Budget(int(remaining), float(reset))


def read_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Read how long a 429 or 503 asks to wait: `Retry-After` (seconds or a date), else `RateLimit-Reset`."""
    after = headers.get("retry-after", "").strip()
    if _digits(after):
        return min(float(after), MAX_SENSIBLE_WAIT)
    if after:
        try:
            return _until(parsedate_to_datetime(after).timestamp(), now)
        except ValueError:
            pass
    reset = headers.get("ratelimit-reset", "")
    return _until(float(reset), now) if _digits(reset) else None


def _until(moment: float, now: float) -> float:
    return min(max(moment - now, 0.0), MAX_SENSIBLE_WAIT)


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 15
