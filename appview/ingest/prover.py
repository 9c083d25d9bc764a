"""Claims of single records, proven by the hosts of their authors.

What a host cannot prove (it is away, it refuses, its proof does not hold) is made good by fetching the repo
whole, with all that belongs to that: a wait that doubles, is noted, and is honoured after a restart. A host
that has not come as far as the claim yet is asked a few times more; then what it has proven counts. When a
record is to be asked for again, whoever still asks for it gives up: what that hears may be of before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from appview.errors import AppviewError
from appview.ingest.backoff import Backoff
from appview.ingest.errors import RepoInactive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from appview.clock import Clock
    from appview.ingest.backfill import Backfill
    from appview.ingest.backoff import Random
    from appview.ingest.commands import Prove
    from appview.ingest.fetch import RepoFetcher
    from appview.ingest.pipeline import Pipeline
    from lexicons.syntax import Did, Nsid, RecordKey

BEHIND: Final = Backoff(base=0.5, cap=8.0)  # between looks at a host that is behind a claim
LOOKS: Final = 5
MAX_OPEN: Final = 2_000  # records asked for at once; for more, repos are fetched whole

log = structlog.get_logger(__name__)


class Prover:
    """Carries out `Prove`. `run` must be running."""

    def __init__(
        self,
        fetcher: RepoFetcher,
        pipeline: Pipeline,
        backfill: Backfill,
        clock: Clock,
        *,
        random: Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self._fetcher = fetcher
        self._pipeline = pipeline
        self._backfill = backfill
        self._clock = clock
        self._random = random
        self._sleep = sleep
        self._group: asyncio.TaskGroup | None = None
        self._open = 0
        self._last: dict[tuple[Did, Nsid, RecordKey], Prove] = {}  # the question that counts, of each record
        self._stopped = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many records are being asked for."""
        return self._open

    def want(self, command: Prove) -> None:
        """Ask for a proof."""
        if self._group is None:
            raise RuntimeError("the prover is not running")
        self._open += 1
        self._last[_record(command)] = command
        work = self._job(command) if self._open <= MAX_OPEN else self._give_up(command, None)
        task = self._group.create_task(work, name=f"record of {command.did}")
        task.add_done_callback(partial(self._ended, command))

    def _ended(self, command: Prove, _task: asyncio.Task[None]) -> None:
        self._open -= 1
        if self._counts(command):
            del self._last[_record(command)]

    def _counts(self, command: Prove) -> bool:
        return self._last.get(_record(command)) is command

    async def run(self) -> None:
        """Own the questions, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._stopped.wait()

    async def _job(self, command: Prove) -> None:
        did, collection, rkey = command.did, command.collection, command.rkey
        for look in range(1, LOOKS + 1):
            try:
                proof = await self._fetcher.record(did, collection, rkey)
            except RepoInactive as error:
                async with self._pipeline.lock:
                    await self._pipeline.account(did, active=False, status=error.status)
                return
            except Exception as error:  # one record, whatever is wrong with it, must not stop the others
                if not isinstance(error, AppviewError):
                    log.exception("a record breaks the program", did=did)
                await self._give_up(command, error)
                return
            async with self._pipeline.lock:
                claimed = self._pipeline.engine.claimed(did, collection, rkey)
                if claimed is None or not self._counts(command):
                    self.outcomes["overtaken"] += 1
                    return
                if proof.rev >= claimed or look == LOOKS:
                    commands = self._pipeline.engine.proven(did, collection, rkey, proof, self._clock())
                    await self._pipeline.carry_out(commands)
                    self._pipeline.note(did)
                    self.outcomes["proven" if proof.cid is not None else "proven gone"] += 1
                    return
            await self._sleep(BEHIND.seconds(look, self._random))

    async def _give_up(self, command: Prove, error: Exception | None) -> None:
        did = command.did
        async with self._pipeline.lock:
            claimed = self._pipeline.engine.claimed(did, command.collection, command.rkey)
            if claimed is None or not self._counts(command):
                return
            if error is not None:
                self._backfill.failed(did, error)
            commands = self._pipeline.engine.proven(
                did, command.collection, command.rkey, None, self._clock()
            )
            await self._pipeline.carry_out(commands)
            self._pipeline.note(did)
        self.outcomes["not proven" if error is None else f"failed: {type(error).__name__}"] += 1


def _record(command: Prove) -> tuple[Did, Nsid, RecordKey]:
    return command.did, command.collection, command.rkey
