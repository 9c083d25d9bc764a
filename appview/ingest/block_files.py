"""Blocks of one repo, laid aside until its tree says which of them matter.

A repo's CAR may bring records before the nodes that name them, so that all must be kept; in memory while they
are few, in a temporary file beyond. The index costs 16 bytes a block: the first 8 bytes of the digest, the
place and the length. The whole CID stands with the block and is compared on reading.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from appview.ingest.scratch import MEMORY_BYTES, Scratch
from lexicons.data import CID_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LENGTH_BITS: Final = 24  # of an entry of the index; a block has 2,000,000 bytes at most
_LENGTH: Final = (1 << _LENGTH_BITS) - 1


class BlockFile:
    """Takes blocks, then, once sealed, gives them by CID. A context manager: the blocks go with it."""

    def __init__(self, folder: Path | None = None, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._scratch: Scratch | None = Scratch(folder, memory_bytes=memory_bytes)
        self._prefixes = array("Q")
        self._spots = array("Q")  # place and length of CID and block

    def add(self, blocks: Iterable[tuple[bytes, bytes]]) -> None:
        """Lay blocks aside by CID; their hashes were checked. Raises `StoreError`."""
        scratch = self._open()
        for cid, block in blocks:
            self._prefixes.append(int.from_bytes(cid[4:12], "big"))
            self._spots.append(scratch.append(cid, block) << _LENGTH_BITS | CID_BYTES + len(block))

    def seal(self) -> None:
        """Sort the index; from here on blocks are read."""
        self._open().seal()
        order = np.argsort(np.frombuffer(self._prefixes, dtype=np.uint64), kind="stable")
        self._prefixes = _ordered(self._prefixes, order)
        self._spots = _ordered(self._spots, order)

    def get(self, cid: bytes) -> bytes | None:
        """Give the block of a CID, None where it was never laid aside. Raises `StoreError`."""
        scratch, prefixes = self._open(), self._prefixes
        prefix = int.from_bytes(cid[4:12], "big")
        at = bisect_left(prefixes, prefix)
        while at < len(prefixes) and prefixes[at] == prefix:
            spot = self._spots[at]
            data = scratch.read(spot >> _LENGTH_BITS, spot & _LENGTH)
            if data.startswith(cid):
                return data[CID_BYTES:]
            at += 1
        return None

    def __len__(self) -> int:
        return len(self._prefixes)

    def close(self) -> None:
        """Drop the blocks; a walk that is still under way ends with an error."""
        self._scratch = None

    def _open(self) -> Scratch:
        if self._scratch is None:
            raise RuntimeError("the blocks were dropped")
        return self._scratch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ordered(numbers: array[int], order: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> array[int]:
    ordered = array("Q")
    ordered.frombytes(np.frombuffer(numbers, dtype=np.uint64)[order].view(np.uint8).data)
    return ordered
