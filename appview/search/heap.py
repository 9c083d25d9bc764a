"""Giving memory back to the system.

Building a view allocates several times what it keeps, in pieces that glibc's allocator keeps afterwards.
Other systems give memory back by themselves.
"""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Return what is free to the system, where that needs to be said."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
