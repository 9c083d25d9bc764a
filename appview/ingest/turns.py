"""Heavy events, one at a time: each repo in turn, and everything that goes quickly in between.

A commit of hundreds of operations, or of megabytes, keeps the one thread that judges busy as long as dozens
of ordinary ones. Such a commit waits in its repo's queue; here each repo that has one gets a turn, a turn is
one commit, and it is followed by a rest of the same length, in which everything else that came gets as far as
it can: what an ordinary commit needs on its way to disk is a dozen short steps, each of which would otherwise
wait for a turn to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from appview.clock import Clock
    from appview.ingest.committer import Committer
    from appview.ingest.pipeline import Pipeline
    from lexicons.syntax import Did

MAX_REST: Final = 0.1  # seconds after a turn

log = structlog.get_logger(__name__)


class Turns:
    """Gives turns. `run` must be running."""

    def __init__(self, pipeline: Pipeline, committer: Committer, clock: Clock) -> None:
        self._pipeline = pipeline
        self._committer = committer
        self._clock = clock
        self._queue: deque[Did] = deque()  # whose turns are to come
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queue)

    def want(self, did: Did) -> None:
        """Let a repo have a turn, behind those that wait already."""
        self._queue.append(did)
        self._news.set()

    async def run(self) -> None:
        """Give turns until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                did = self._queue.popleft()
                async with self._pipeline.lock:
                    started = loop.time()
                    await self._give(did)
                    took = loop.time() - started
                    await self._committer.room()
                await asyncio.sleep(min(took, MAX_REST))

    async def _give(self, did: Did) -> None:
        pipeline = self._pipeline
        try:
            await pipeline.carry_out(pipeline.engine.turn(did, self._clock()))
            pipeline.note(did)
        except Exception as error:  # a commit that breaks the program must not stop the others
            pipeline.events["broken"] += 1
            log.exception("an event is given up", error=repr(error), did=did)
            await pipeline.carry_out(pipeline.engine.desynchronize(did))
