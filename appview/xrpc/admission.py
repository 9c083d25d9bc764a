"""How many queries run at once. Beyond that a few wait a moment, the rest are asked to come back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from appview.xrpc.errors import NotEnoughResources

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_RUNNING: Final = 16  # ours: queries at work; each holds a thread or waits for one
MAX_WAITING: Final = 128  # ours: queries in line behind them
DEADLINE_SECONDS: Final = 10.0  # ours: from arrival to answer, waiting in line included


class Admission:
    """The line before the queries. One an application."""

    def __init__(
        self, running: int = MAX_RUNNING, waiting: int = MAX_WAITING, deadline: float = DEADLINE_SECONDS
    ) -> None:
        self._slots = asyncio.Semaphore(running)
        self._limit = running + waiting
        self._deadline = deadline
        self.present = 0

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        """Hold a slot for the time of the block; raise `NotEnoughResources` when the line is full or the
        deadline passes."""
        if self.present >= self._limit:
            raise NotEnoughResources("too many queries at once", hint="try again after Retry-After seconds")
        self.present += 1
        try:
            async with asyncio.timeout(self._deadline) as watch, self._slots:
                yield
        except TimeoutError:
            if not watch.expired():
                raise
            raise NotEnoughResources(
                f"no answer within {self._deadline:g} s", hint="narrow the query or try again"
            ) from None
        finally:
            self.present -= 1
