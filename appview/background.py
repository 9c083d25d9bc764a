"""Work that goes on beside everything else until it is told to end, and is let finish what it does then."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Background:
    """One task of `work`, which looks at `is_ending` and sleeps by `pause`."""

    def __init__(self, work: Callable[[], Coroutine[object, object, None]], name: str) -> None:
        self._work = work
        self._name = name
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end."""
        return self._ending.is_set()

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name=self._name)

    def end(self) -> None:
        """Tell it to end; a pause is over at once."""
        self._ending.set()

    async def close(self) -> None:
        """Tell it to end, and wait until it has."""
        self.end()
        if self._task is not None:
            await self._task
            self._task = None

    async def pause(self, seconds: float) -> None:
        """Sleep, at most until it is told to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()
