"""Bringing files to the analysis of this program, in the background, while their old indexes answer.

One space at a time, a step at a time, and between two steps a rest as long as the step took: those who ask
and those who write have the rest of the machine. Where it stopped is in the file, so that a restart goes on
there. A file that cannot be read or written now is left until the next round.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import structlog

from appview.background import Background
from appview.errors import AppviewError
from appview.memory.keywords import Progress, is_due
from appview.sqlite import peek

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from appview.memory.pool import SpacePool
    from lexicons.spaces import SpaceUri

REST: Final = 1.0  # ours: rest between two steps, in times of what the step took
ROUND_SECONDS: Final = 600.0  # ours: between two looks at all files, which read one entry of each

log = structlog.get_logger("appview.memory")


NOTHING: Final = Progress(0, 0)


@dataclass(frozen=True, slots=True)
class Standing:
    """How many spaces are still to be done, and how far the one that is at work is."""

    spaces: int = 0
    space: SpaceUri | None = None
    progress: Progress = NOTHING

    def document(self) -> dict[str, Any]:
        """Write it for the command line and the metrics."""
        return {
            "spaces": self.spaces,
            "space": self.space,
            "done": self.progress.done,
            "memories": self.progress.total,
        }


class Reanalyser:
    """Brings the files of a pool to the analysis `version`. `start` it once, `close` it before the pool."""

    def __init__(
        self,
        pool: SpacePool,
        version: str,
        spaces: Callable[[], Awaitable[Sequence[SpaceUri]]],
        *,
        rest: float = REST,
        round_seconds: float = ROUND_SECONDS,
    ) -> None:
        self._pool = pool
        self._version = version
        self._spaces = spaces
        self._rest = rest
        self._round_seconds = round_seconds
        self._background = Background(self._run, "reanalyser")
        self.standing = Standing()

    def start(self) -> None:
        """Begin, in the background."""
        self._background.start()

    async def close(self) -> None:
        """End after the present step."""
        await self._background.close()

    async def round(self) -> None:
        """Bring every file to this program's analysis that is of another one."""
        due = [space for space in await self._spaces() if await asyncio.to_thread(self._is_due, space)]
        for number, space in enumerate(due):
            if self._background.is_ending:
                return
            self.standing = Standing(len(due) - number, space)
            try:
                await self._bring(space, len(due) - number)
            except AppviewError as error:
                log.warning("a space is not analysed anew", space=space, reason=str(error))
            except Exception as error:  # a fault of ours with one space: the others go on
                log.error("a space is not analysed anew", space=space, exc_info=error)
        self.standing = Standing()

    async def _bring(self, space: SpaceUri, left: int) -> None:
        started, progress = monotonic(), None
        while not self._background.is_ending:
            # Given back between steps, so that nobody who wants to put the file aside waits for long.
            async with self._pool.use(space) as store:
                begun = monotonic()
                progress = progress or await store.reanalysis()
                analysed = await store.reanalyse()
            if analysed is None:
                log.info(
                    "space analysed anew",
                    space=space,
                    memories=progress.total,
                    seconds=round(monotonic() - started, 1),
                )
                return
            done = progress.done + analysed
            progress = Progress(done, max(done, progress.total))
            self.standing = Standing(left, space, progress)
            await self._background.pause(self._rest * (monotonic() - begun))

    def _is_due(self, space: SpaceUri) -> bool:
        path = self._pool.path(space)
        return bool(peek(path, lambda connection: is_due(connection, self._version)))

    async def _run(self) -> None:
        while not self._background.is_ending:
            try:
                await self.round()
            except Exception as error:
                log.error("spaces are not analysed anew", exc_info=error)
            await self._background.pause(self._round_seconds)
