"""File descriptors: how many the system gives, and how many of them are left for those who ask.

Without a bound that fits, connections that nobody uses take the last one, and then no database can be opened
either. Most systems give a program 1,024 unless it asks for more, which it may.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

ENOUGH: Final = 65_536  # ours
UNKNOWN: Final = 1_024  # where a system does not say
OF_A_SPACE: Final = (
    12  # two of each of the five connections to its file, one of its log's index, one to spare
)
OTHERS: Final = 320  # 200 of the HTTP client, 64 of repos on their way, control.db, sources, standard streams
MAX_CONNECTIONS: Final = 1_000  # ours
MIN_CONNECTIONS: Final = 64  # ours: whatever the system gives


def raise_limit() -> int:
    """Ask for as many as there may be, and give how many there are."""
    try:
        import resource
    except ImportError:  # not on Windows
        return UNKNOWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENOUGH if soft == resource.RLIM_INFINITY else soft


def connections_for(limit: int, open_spaces: int) -> int:
    """Tell how many connections there may be, with so many descriptors and so many spaces open at once."""
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, limit - OTHERS - OF_A_SPACE * open_spaces))
