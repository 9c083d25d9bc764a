"""Bytes that are laid aside while a repo is taken: written once from front to end, then read anywhere.

In memory while they are few, in an unnamed temporary file beyond. Reading is safe from several threads. The
file goes with the last that refers to it, so that nobody who still reads has it closed under the hands.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import TYPE_CHECKING, Final

from appview.errors import StoreError

if TYPE_CHECKING:
    import io
    from pathlib import Path

MEMORY_BYTES: Final = 4_000_000  # ours: most repos fit and never touch the disk
WRITE_BYTES: Final = 262_144  # written at once, once there is a file


class Scratch:
    """Takes bytes, then, once sealed, gives them. Raises `StoreError` where the disk fails."""

    def __init__(self, folder: Path | None = None, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._folder = folder
        self._limit = memory_bytes
        self._buffer = bytearray()
        self._memory = b""
        self._file: io.FileIO | None = None
        self._written = 0

    def __len__(self) -> int:
        return self._written + len(self._buffer) + len(self._memory)

    def append(self, *parts: bytes) -> int:
        """Add bytes and tell at which place they begin."""
        buffer = self._buffer
        place = self._written + len(buffer)
        for part in parts:
            buffer += part
        if len(buffer) >= self._limit:
            self._spill()
        return place

    def seal(self) -> None:
        """Say that no more bytes come; from here on they are read."""
        if self._file is None:
            self._memory = bytes(self._buffer)
            self._buffer = bytearray()
        else:
            self._spill()

    def read(self, place: int, length: int) -> bytes:
        """Give `length` bytes from a place on, fewer where they end before."""
        if self._file is None:
            return self._memory[place : place + length]
        try:
            data = os.pread(self._file.fileno(), length, place)
            while len(data) < length and (
                more := os.pread(self._file.fileno(), length - len(data), place + len(data))
            ):
                data += more
        except OSError as error:
            raise _failure(error) from error
        return data

    def _spill(self) -> None:
        try:
            if self._file is None:
                folder = None if self._folder is None else str(self._folder)
                self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
                self._limit = WRITE_BYTES
                weakref.finalize(self, self._file.close)
            with memoryview(self._buffer) as rest:
                done = 0
                while done < len(rest):
                    done += self._file.write(rest[done:])
        except OSError as error:
            raise _failure(error) from error
        self._written += len(self._buffer)
        self._buffer = bytearray()


def _failure(error: OSError) -> StoreError:
    return StoreError(
        f"cannot lay a repo aside: {error.strerror}", hint="free some disk space; the repo is fetched again"
    )
