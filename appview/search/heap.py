"""Giving memory back to the system.

Building a view allocates several times what it keeps. glibc's allocator keeps such pieces in the heap of the
thread afterwards, the free ones too where others stand behind them; pieces that are mapped on their own go
back at once. Other systems give memory back by themselves.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

M_MMAP_THRESHOLD: Final = -3  # <malloc.h>
MAPPED_BYTES: Final = 1 << 18  # ours: while something large is made, pieces from here on are mapped
USUAL_BYTES: Final = 32 << 20  # otherwise: as far as glibc goes by itself, for mapping costs time
_lock = Lock()
_making = 0


def give_back() -> None:
    """Return what is free to the system, where that needs to be said."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


@contextmanager
def making_much() -> Iterator[None]:
    """Make something large inside the block, and keep no more memory than it has in the end."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)
        give_back()


def _count(change: int) -> None:
    global _making
    option = _of_glibc("mallopt")
    with _lock:
        _making += change
        if option is not None:
            option(M_MMAP_THRESHOLD, MAPPED_BYTES if _making else USUAL_BYTES)


def _of_glibc(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
