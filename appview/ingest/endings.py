"""What the end of an account takes beside its memories, which go in their turn: the config of its space.

That takes a while under the pipeline's lock, so accounts are taken one by one, with pauses, however many end.
An account that is back before its turn keeps what it has: its repo tells what holds now.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from appview.ingest.committer import Committer
    from appview.ingest.declarations import Declarations
    from appview.ingest.pipeline import Pipeline
    from lexicons.syntax import Did

PAUSE: Final = 0.25  # seconds, ours: a quarter of the lock's time at most, where one takes 80 ms

log = structlog.get_logger(__name__)


class Endings:
    """Withdraws configs of accounts that have ended. `run` must be running."""

    def __init__(self, pipeline: Pipeline, declarations: Declarations, committer: Committer) -> None:
        self._pipeline = pipeline
        self._declarations = declarations
        self._committer = committer
        self._due: dict[Did, None] = {}
        self._news = asyncio.Event()

    def want(self, did: Did) -> None:
        """Take note that an account has ended."""
        self._due[did] = None
        self._news.set()

    async def run(self) -> None:
        """Take one after another, until cancelled."""
        while True:
            await self._news.wait()
            if not self._due:
                self._news.clear()
                continue
            async with self._pipeline.lock:
                did = next(iter(self._due))
                del self._due[did]
                state = self._pipeline.engine.state(did)
                if state is not None and not state.active and state.rev is None:
                    await self._committer.insist(partial(self._declarations.absent, did, None))
                    log.info("an account has ended", did=did)
            await asyncio.sleep(PAUSE)
