"""All of ingest as one thing that runs: sources, pipeline, committer, backfill, reconciliation."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import structlog

from appview.http.client import HttpClient
from appview.identity.handles import Handles
from appview.identity.resolver import Resolver
from appview.ingest.backfill import RETRY, Backfill
from appview.ingest.committer import Committer
from appview.ingest.declarations import Declarations
from appview.ingest.discovery import Discovery
from appview.ingest.endings import Endings
from appview.ingest.engine import Engine
from appview.ingest.feeds import Feed
from appview.ingest.fetch import RepoFetcher
from appview.ingest.foresight import Foresight
from appview.ingest.frames import frame_time
from appview.ingest.gaps import Gaps
from appview.ingest.hosts import Hosts
from appview.ingest.intake import Intake
from appview.ingest.lookups import LookUps
from appview.ingest.pipeline import Pipeline
from appview.ingest.prover import Prover
from appview.ingest.reconcile import Reconciler
from appview.ingest.repairs import Repairs
from appview.ingest.stream import Letter
from appview.ingest.turns import Turns
from appview.source_lines import parse_source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from appview.access.access import Access
    from appview.clock import Clock
    from appview.control import Control
    from appview.http.lanes import Standing
    from appview.ingest.backoff import Backoff, Random
    from appview.memory.pool import SpacePool
    from appview.settings import Settings
    from appview.source_lines import SourceLine
    from lexicons.syntax import Did

DRAIN_SECONDS: Final = 10.0  # what is gathered gets this long to reach the disk at the end

log = structlog.get_logger(__name__)


class Ingest:
    """Follows the sources of the settings into control.db and the spaces. `run` until `stop`."""

    def __init__(
        self,
        settings: Settings,
        control: Control,
        access: Access,
        pool: SpacePool,
        clock: Clock,
        *,
        rng: Random = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        retry: Backoff = RETRY,
    ) -> None:
        self._settings = settings
        self._control = control
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._stop = asyncio.Event()
        self._client = HttpClient(allow_loopback=settings.allow_loopback)
        open_registration = settings.registration == "open"
        self._committer = Committer(control, pool, clock, random=rng, sleep=sleep)
        self._repairs = repairs = Repairs(control, pool, clock)
        self._committer.broken = repairs.ask
        self._declarations = Declarations(
            control, access, pool, self._committer, clock, open_registration=open_registration
        )
        self.resolver = resolver = Resolver(self._client, settings.plc_url, clock, standing=self._standing)
        lines = [parse_source(line) for line in settings.source]
        hosts_of_their_own = frozenset(line.host for line in lines if line.host is not None)
        relays = any(line.kind == "firehose" for line in lines)
        self._foresight = Foresight(clock, random=rng, sleep=sleep)
        self._pipeline = Pipeline(
            Engine(
                chained=lambda host: relays or host in hosts_of_their_own,
                prove=self._foresight.prove,
                full=self._committer.is_full,
            ),
            self._committer,
            self._declarations,
            clock,
            open_registration=open_registration,
        )
        self._foresight.key_of = self._pipeline.engine.key_of
        self._intake = Intake(self._pipeline, self._committer, clock, self._foresight)
        self._turns = Turns(self._pipeline, self._committer, clock)
        self._pipeline.give_turn = self._turns.want
        self._handles = handles = Handles(
            self._client, clock, development=settings.allow_loopback, standing=self._standing
        )
        self._look_ups = look_ups = LookUps(self._pipeline, resolver, handles, clock)
        self._pipeline.look_up = look_ups.want
        self._pipeline.identity_changed = look_ups.changed
        self._pipeline.check_handle = look_ups.check_handle
        self._reconciler = Reconciler(
            control, access, pool, self._committer, self._pipeline, self._declarations, repairs, clock
        )
        self._reconciler.standings_changed = self._rank_again
        self._hosts = hosts = Hosts()
        fetcher = RepoFetcher(
            self._client, resolver, clock, settings.data, hosts=hosts, standing=self._standing
        )
        self._backfill = Backfill(
            fetcher,
            self._pipeline,
            self._reconciler,
            self._declarations,
            self._committer,
            control,
            clock,
            random=rng,
            retry=retry,
        )
        self._declarations.broken = repairs.ask
        self._declarations.changed = self._reconciler.reconcile
        self._pipeline.wanted = self._backfill.want
        self._endings = Endings(self._pipeline, self._declarations, self._committer)
        self._pipeline.ended = self._endings.want
        self._pipeline.stranger = self._reconciler.notice
        self._gaps = Gaps(
            self._pipeline,
            fetcher,
            self._backfill.outcomes,
            hosts_of_their_own,
            random=rng,
            sleep=sleep,
        )
        self._intake.gap = self._gaps.found
        self._pipeline.compare = self._gaps.compare
        self._prover = Prover(fetcher, self._pipeline, self._backfill, clock, random=rng, sleep=sleep)
        self._pipeline.prove = self._prover.want
        self._feeds = [
            Feed(
                line,
                self._client,
                control,
                self._pipeline,
                self._intake,
                self._committer,
                clock,
                random=rng,
                sleep=sleep,
            )
            for line in lines
        ]
        # Where registration is closed, every authority is known by name.
        origins = dict.fromkeys(feed.line.discover for feed in self._feeds if open_registration)
        self._discovery = Discovery(
            tuple(origin for origin in origins if origin is not None),
            self._client,
            hosts,
            control,
            self._pipeline,
            clock,
            random=rng,
        )

    def _standing(self, did: Did) -> Standing:
        return self._pipeline.roster.standing(did)

    def _rank_again(self) -> None:
        for each in (self.resolver, self._handles, self._hosts):
            each.rank_again()

    async def prepare(self) -> None:
        """Look at the files before anybody opens a space."""
        await self._repairs.look_at_files()

    def stop(self) -> None:
        """Make `run` write what it has and end."""
        self._stop.set()

    async def run(self) -> None:
        """Follow the sources until `stop` or until cancelled; raise what ended it."""
        try:
            await self._run()
        except BaseExceptionGroup as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[0]
            raise error from None

    async def _run(self) -> None:
        async with self._client, asyncio.TaskGroup() as group:
            owners = self._backfill, self._endings, self._gaps, self._look_ups, self._prover
            tasks = [
                group.create_task(part.run(), name=type(part).__name__)
                for part in (self._committer, self._pipeline, self._turns, *owners)
            ]
            async with self._pipeline.lock:
                await self._committer.insist(self._reconciler.reconcile)
            tasks.append(group.create_task(self._reconciler.run(), name="Reconciler"))
            if self._settings.prove_ahead:
                tasks.append(group.create_task(self._foresight.run(), name="Foresight"))
            sources = [group.create_task(feed.run(), name=f"source {feed.line.name}") for feed in self._feeds]
            sources.append(group.create_task(self._discovery.run(), name="Discovery"))
            await self._stop.wait()
            await _cancel(sources)
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._committer.flush()
            await _cancel(tasks)

    def status(self) -> dict[str, Any]:
        """Tell what is going on, for logs and metrics."""
        engine = self._pipeline.engine
        waiting, waiting_bytes = engine.waiting
        return {
            "sources": {feed.line.name: self._progress(feed.line, feed.status()) for feed in self._feeds},
            "events": dict(self._pipeline.events),
            "rejects": dict(self._pipeline.rejects),
            "records": dict(self._committer.outcomes),
            "configs": dict(self._declarations.outcomes),
            "repos": {
                "followed": len(self._pipeline.rows),
                "states": dict(Counter(row.sync_state for row in self._pipeline.rows.values())),
                "accounts": dict(Counter(row.status for row in self._pipeline.rows.values())),
                "synchronized": sum(row.sync_state == "synchronized" for row in self._pipeline.rows.values()),
                "to fetch": self._backfill.waiting,
                "to compare": self._gaps.waiting,
                "fetches": dict(self._backfill.outcomes),
                "proofs": dict(self._prover.outcomes),
                "to prove": self._prover.waiting,
                "proofs ahead": dict(self._foresight.outcomes),
                "listed": dict(self._discovery.outcomes),
                "waiting events": waiting,
                "waiting bytes": waiting_bytes,
            },
            "writing": dict(zip(("updates", "bytes"), self._committer.open, strict=True)),
            "failing": self._committer.failing,
        }

    def _progress(self, line: SourceLine, status: dict[str, Any]) -> dict[str, Any]:
        """Tell how far a source is behind: its last event when it was taken, what is on disk in seq."""
        taken_at, item = self._intake.taken.get(line.name, (None, None))
        said = position = None
        if isinstance(item, bytes):
            said, position = frame_time(item), status.get("position")
        elif isinstance(item, Letter) and line.kind == "jetstream":
            said = item.position
        written = self._committer.written.get(line.name)
        return {
            **status,
            "last event": taken_at,
            "lag seconds": None
            if said is None or taken_at is None
            else max(0.0, (taken_at - said) / 1_000_000),
            "written": written,
            "lag seq": None if written is None or position is None else max(0, position - written),
        }


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
