"""A queue that is bounded in bytes as well as in items: what stands between the socket and the disk."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MAX_ITEMS: Final = 4_096
MAX_BYTES: Final = 32 * 1024 * 1024


class ByteQueue(Generic[T]):
    """First in, first out. One item is always taken, however large, so that nothing gets stuck."""

    def __init__(self, max_items: int = MAX_ITEMS, max_bytes: int = MAX_BYTES) -> None:
        self._items: deque[tuple[T, int]] = deque()
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._bytes = 0
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def bytes(self) -> int:
        """How much is waiting."""
        return self._bytes

    async def put(self, item: T, size: int) -> None:
        """Add an item, waiting for room."""
        while self._is_full():
            self._room.clear()
            await self._room.wait()
        self._items.append((item, size))
        self._bytes += size
        self._filled.set()

    async def get_some(self, limit: int, most: int = MAX_BYTES) -> list[T]:
        """Take up to `limit` items, none behind the one that makes them `most` bytes; wait for the first."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        taken: list[T] = []
        size = 0
        while self._items and len(taken) < limit and size < most:
            item, each = self._items.popleft()
            taken.append(item)
            size += each
        self._bytes -= size
        if not self._is_full():
            self._room.set()
        return taken

    def _is_full(self) -> bool:
        return len(self._items) >= self._max_items or self._bytes >= self._max_bytes
