"""Blocks of one repo, laid aside until its tree says which of them matter.

A repo's CAR may bring records before the nodes that name them, so that all must be kept; in memory while they
are few, in an unnamed temporary file beyond `MEMORY_BYTES`. The index costs 16 bytes a block: the first 8
bytes of the digest and the place. The whole CID stands in the file and is compared on reading.
"""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from lexicons.data import CID_BYTES

if TYPE_CHECKING:
    from pathlib import Path

MEMORY_BYTES: Final = 8_000_000  # ours: most repos fit and never touch the disk
_HEAD_BYTES: Final = CID_BYTES + 4


class BlockFile:
    """Takes blocks, then, once sealed, gives them by CID. A context manager: the file goes with it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            max_size=MEMORY_BYTES, dir=None if folder is None else str(folder)
        )
        self._prefixes = array("Q")
        self._places = array("Q")
        self._end = 0

    def add(self, cid: bytes, block: bytes) -> None:
        """Lay a block aside; its hash was checked."""
        self._prefixes.append(int.from_bytes(cid[4:12], "big"))
        self._places.append(self._end)
        record = cid + len(block).to_bytes(4, "big") + block
        self._file.write(record)
        self._end += len(record)

    def seal(self) -> None:
        """Sort the index; from here on blocks are read."""
        prefixes = np.array(self._prefixes, dtype=np.uint64)
        places = np.array(self._places, dtype=np.uint64)
        order = np.argsort(prefixes, kind="stable")
        self._prefixes = array("Q", prefixes[order].tobytes())
        self._places = array("Q", places[order].tobytes())

    def get(self, cid: bytes) -> bytes | None:
        """Give the block of a CID, None where it was never laid aside."""
        prefix = int.from_bytes(cid[4:12], "big")
        at = bisect_left(self._prefixes, prefix)
        while at < len(self._prefixes) and self._prefixes[at] == prefix:
            self._file.seek(self._places[at])
            head = self._file.read(_HEAD_BYTES)
            if head[:CID_BYTES] == cid:
                return self._file.read(int.from_bytes(head[CID_BYTES:], "big"))
            at += 1
        return None

    def __len__(self) -> int:
        return len(self._prefixes)

    def close(self) -> None:
        """Drop the blocks."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
