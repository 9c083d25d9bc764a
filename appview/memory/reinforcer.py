"""Recalls on their way to disk: taken during requests, written in batches afterwards.

Invariants: a recall that was taken is written once, in the order of its instant within its space, unless the
process is killed: then those of the last moment are lost. `close` writes what is left. Where more wait than
may, who brings the next one waits too. A batch whose file cannot be written stays in line.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from appview.background import Background
from appview.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.memory.pool import SpacePool
    from appview.memory.strength import Recall
    from lexicons.spaces import SpaceUri

INTERVAL_SECONDS: Final = 1.0  # ours: what a kill can cost, and how long a recall takes to show
MAX_WAITING: Final = 50_000  # ours, recalls of all spaces: about 10 MB

log = structlog.get_logger("appview.memory")


class Reinforcer:
    """Writes recalls. `start` it once, `close` it before the pool."""

    def __init__(
        self, pool: SpacePool, *, interval: float = INTERVAL_SECONDS, max_waiting: int = MAX_WAITING
    ) -> None:
        self._pool = pool
        self._interval = interval
        self._max_waiting = max_waiting
        self._waiting: dict[SpaceUri, list[Recall]] = {}
        self._count = 0
        self._changed = asyncio.Condition()
        self._writing = asyncio.Lock()
        self._background = Background(self._run, "reinforcer")

    def start(self) -> None:
        """Begin to write, in the background."""
        self._background.start()

    async def close(self) -> None:
        """Write what is left and stop."""
        self._background.end()
        async with self._changed:
            self._changed.notify_all()
        await self._background.close()
        await self.flush()
        if self._count:
            log.error("recalls lost", count=self._count)

    async def add(self, space: SpaceUri, recalls: Sequence[Recall]) -> None:
        """Take recalls; wait while there are too many."""
        if not recalls:
            return
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._count < self._max_waiting or self._background.is_ending
            )
            self._waiting.setdefault(space, []).extend(recalls)
            self._count += len(recalls)
            self._changed.notify_all()

    async def flush(self) -> None:
        """Write what waits now."""
        async with self._writing:
            async with self._changed:
                taken, self._waiting = self._waiting, {}
            for space, recalls in taken.items():
                await self._write(space, recalls)

    async def _write(self, space: SpaceUri, recalls: list[Recall]) -> None:
        kept: list[Recall] = []
        try:
            if self._pool.exists(space):  # writing must not make the file of a space that is gone
                async with self._pool.use(space) as store:
                    await store.reinforce(recalls)
        except StoreError as error:
            log.warning("recalls not written", space=space, count=len(recalls), reason=str(error))
            kept = recalls
        except BaseException:
            await asyncio.shield(self._settle(space, recalls, recalls))
            raise
        await self._settle(space, recalls, kept)

    async def _settle(self, space: SpaceUri, taken: list[Recall], kept: list[Recall]) -> None:
        async with self._changed:
            if kept:
                self._waiting[space] = kept + self._waiting.get(space, [])
            self._count -= len(taken) - len(kept)
            self._changed.notify_all()

    async def _run(self) -> None:
        while not self._background.is_ending:
            async with self._changed:
                await self._changed.wait_for(lambda: self._count > 0 or self._background.is_ending)
            await self._background.pause(self._interval)
            try:
                await self.flush()
            except Exception as error:
                log.error("recalls not written", exc_info=error)
