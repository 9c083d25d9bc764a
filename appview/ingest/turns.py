"""Heavy events, one at a time: each repo in turn, and everything that goes quickly in between.

A commit of hundreds of operations, or of megabytes, keeps the one thread that judges busy as long as dozens
of ordinary ones. Such a commit waits in its repo's queue; here each repo that has one gets a turn, a turn is
one commit, and it is followed by a rest of the same length, in which everything else that came gets as far as
it can: what an ordinary commit needs on its way to disk is a dozen short steps, each of which would otherwise
wait for a turn to end. A repo of whose author enough waits for the disk gets its turn when some of that is
written, and the others go first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from appview.clock import Clock
    from appview.ingest.committer import Committer
    from appview.ingest.pipeline import Pipeline
    from lexicons.syntax import Did

log = structlog.get_logger(__name__)


class Turns:
    """Gives turns. `run` must be running."""

    def __init__(self, pipeline: Pipeline, committer: Committer, clock: Clock) -> None:
        self._pipeline = pipeline
        self._committer = committer
        self._clock = clock
        self._queue: deque[Did] = deque()  # whose turns are to come
        self._news = asyncio.Event()  # a turn is wanted, or something was written
        committer.freed = self._news.set

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
            did = await self._next()
            async with self._pipeline.lock:
                started = loop.time()
                await self._give(did)
                took = loop.time() - started
                await self._committer.room()
            await asyncio.sleep(took)

    async def _next(self) -> Did:
        """Wait for a repo that may have its turn now."""
        while True:
            self._news.clear()
            for did in self._queue:
                if not self._committer.is_full(did):
                    self._queue.remove(did)
                    return did
            await self._news.wait()

    async def _give(self, did: Did) -> None:
        pipeline = self._pipeline
        try:
            await pipeline.carry_out(pipeline.engine.turn(did, self._clock()))
            pipeline.note(did)
        except Exception as error:  # a commit that breaks the program must not stop the others
            pipeline.events["broken"] += 1
            log.exception("an event is given up", error=repr(error), did=did)
            await pipeline.carry_out(pipeline.engine.desynchronize(did))
