"""Where events may have been lost: the repos concerned are compared with their hosts.

A host is asked for a repo's present rev, its word alone. The chain of commits has no holes, so a repo that
has come as far has lost nothing; one that does not get there in a few seconds is fetched whole. Not every
loss shows in a stream, so every repo is compared once a day besides, one after another.

Invariants:
- A gap in a source concerns only repos for which no other source speaks: those of its host, for a PDS; those
  whose host is no source itself, for all others. Single repos are compared when the engine asks for it.
- A source has its repos compared at most once a minute, however many gaps it has; a later one is owed.
- Nothing waits while repos are compared: they are noted as not synchronized, before the cursor passes the
  gap, and go on. Each host is asked for one after another, and a part of its budget is left to others.
- What is doubted while its host is being asked is not settled by that answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from appview.errors import AppviewError
from appview.http.errors import FetchError, HttpStatusError
from appview.ingest.backoff import Backoff
from appview.ingest.errors import RepoInactive

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable, Iterable

    from appview.ingest.backoff import Random
    from appview.ingest.fetch import RepoFetcher
    from appview.ingest.pipeline import Pipeline
    from appview.ingest.stream import Gap
    from lexicons.syntax import Did

INTERVAL: Final = 60.0  # seconds, ours: between two comparisons for the sake of one source
GRACE: Final = 3.0  # seconds, ours: what is on its way arrives meanwhile
TICK: Final = 0.5  # seconds
RESERVE: Final = 100.0  # requests of a host's budget that are left to proofs and repos
ROUND: Final = 24 * 3600.0  # seconds, ours: in which every repo is compared once, whatever the sources say
RETRY: Final = Backoff(base=2.0, cap=600.0)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Source:
    host: str | None
    quiet_until: float
    owed: bool = False


class Gaps:
    """Compares repos. `hosts`: the PDSes that are sources themselves. `run` must be running."""

    def __init__(
        self,
        pipeline: Pipeline,
        fetcher: RepoFetcher,
        outcomes: Counter[str],
        hosts: frozenset[str],
        *,
        random: Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pipeline = pipeline
        self._fetcher = fetcher
        self._outcomes = outcomes
        self._sources_of_their_own = hosts
        self._random = random
        self._sleep = sleep
        self._sources: dict[str, _Source] = {}
        self._queues: dict[str, dict[Did, None]] = {}  # by host, each with a task
        self._late: dict[Did, tuple[float, str, int | None]] = {}  # when a repo should have come how far
        self._round: list[Did] = []  # whose turn in this round is to come
        self._turns = 0.0  # of the round, that are due
        self._group: asyncio.TaskGroup | None = None

    @property
    def waiting(self) -> int:
        """How many repos are to be compared."""
        return sum(map(len, self._queues.values())) + len(self._late)

    def found(self, name: str, host: str | None, gap: Gap) -> None:
        """Take note of a gap in a source; `host`: the PDS that it is. The lock is held."""
        concerned = self._concerned(host)
        if gap.reason == "new-source":  # repos that were never fetched are fetched anyway
            concerned = [did for did in concerned if self._pipeline.rows[did].rev is not None]
            if not concerned:
                return
        now = asyncio.get_running_loop().time()
        source = self._sources.setdefault(name, _Source(host, now))
        if source.owed:
            return
        for did in concerned:  # whether or not it is compared at once, a crash must not forget it
            self._pipeline.engine.doubt(did)
            active = self._pipeline.rows[did].status == "active"
            self._pipeline.note(did) if active else self._pipeline.ask_status_later(did)
        if now < source.quiet_until:
            source.owed = True
            return
        level = log.info if gap.reason == "new-source" else log.warning
        level("events may be missing", source=name, reason=gap.reason, repos=len(concerned))
        self._begin(source, concerned, now)

    def _concerned(self, host: str | None) -> list[Did]:
        rows = self._pipeline.rows
        if host is not None:
            return [did for did, row in rows.items() if row.pds in (host, None)]
        return [did for did, row in rows.items() if row.pds not in self._sources_of_their_own]

    def _begin(self, source: _Source, concerned: Iterable[Did], now: float) -> None:
        source.owed, source.quiet_until = False, now + INTERVAL
        for did in concerned:
            self.compare(did)

    def compare(self, did: Did) -> None:
        """Compare a repo that is followed with its host, soon. The lock is held."""
        if self._group is None:
            raise RuntimeError("gaps are not looked into")
        host = self._pipeline.rows[did].pds or ""
        if host not in self._queues:
            self._queues[host] = {}
            self._group.create_task(self._keep(host), name=f"repos at {host}")
        self._queues[host][did] = None

    async def run(self) -> None:
        """Compare, until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            self._group = group
            while True:
                await asyncio.sleep(TICK)
                now = loop.time()
                owed = [each for each in self._sources.values() if each.owed and each.quiet_until <= now]
                late = [did for did, (due, *_) in self._late.items() if due <= now]
                turns = self._due_turns()
                if not owed and not late and not turns:
                    continue
                async with self._pipeline.lock:
                    for did in self._next_of_round(turns):
                        self.compare(did)
                    for source in owed:
                        self._begin(source, self._concerned(source.host), now)
                    for did in late:
                        _, rev, doubt = self._late.pop(did)
                        if not self._has_come_to(did, rev, doubt):
                            await self._fetch(did)

    def _due_turns(self) -> int:
        """Tell how many repos have their turn in the round since the last tick."""
        self._turns += len(self._pipeline.rows) * TICK / ROUND
        turns = int(self._turns)
        self._turns -= turns
        return turns

    def _next_of_round(self, turns: int) -> list[Did]:
        """Choose whose turn it is, in an order that no restart repeats."""
        chosen: list[Did] = []
        for _ in range(turns):
            if not self._round:
                self._round = sorted(self._pipeline.rows, key=lambda _did: self._random())
            if self._round:
                chosen.append(self._round.pop())
        return [did for did in chosen if did in self._pipeline.rows]

    async def _keep(self, host: str) -> None:
        """Ask a host for one repo after another, until there is none."""
        queue, failures = self._queues[host], 0
        while queue:
            did = next(iter(queue))
            del queue[did]
            try:
                await self._compare(did)
                failures = 0
            except Exception as error:  # no host, however broken, may end the program
                if not isinstance(error, AppviewError):
                    log.exception("a comparison breaks the program", did=did)
                if not isinstance(error, FetchError) or not _is_worth_waiting_for(error):
                    async with self._pipeline.lock:
                        await self._fetch(did)  # which says what is wrong, or may do all the same
                    continue
                queue[did] = None
                failures += 1
                wait = max(RETRY.seconds(failures, self._random), error.retry_after_seconds or 0.0)
                log.warning("repos cannot be compared", host=host, error=str(error), retry_in=round(wait))
                await self._sleep(min(wait, RETRY.cap))
        del self._queues[host]

    async def _compare(self, did: Did) -> None:
        pipeline = self._pipeline
        state = pipeline.engine.state(did)
        if state is None:
            return
        if not state.active:  # it may have come back unheard
            async with pipeline.lock:
                if did in pipeline.rows:
                    pipeline.ask_status(did)
            return
        doubt = pipeline.engine.doubted(did)
        try:
            rev = await self._fetcher.latest_rev(did, reserve=RESERVE)
        except RepoInactive as error:
            async with pipeline.lock:
                await pipeline.account(did, active=False, status=error.status)
            return
        async with pipeline.lock:
            if not self._has_come_to(did, rev, doubt):
                due, *_ = self._late.get(did, (asyncio.get_running_loop().time() + GRACE,))
                self._late[did] = (due, rev, doubt)

    def _has_come_to(self, did: Did, rev: str, doubt: int | None) -> bool:
        """Take note of a repo that has lost nothing. The lock is held."""
        state = self._pipeline.engine.state(did)
        if state is not None and (state.rev is None or state.rev < rev):
            return False
        self._pipeline.engine.trust(did, doubt)
        self._pipeline.note(did)
        self._outcomes["unchanged"] += 1
        return True

    async def _fetch(self, did: Did) -> None:
        engine = self._pipeline.engine
        engine.trust(did, engine.doubted(did))  # as soon as it is fetched
        await self._pipeline.carry_out(engine.desynchronize(did, "gap"))


def _is_worth_waiting_for(error: FetchError) -> bool:
    """Tell whether a host may answer later. One that lacks the method may still give the repo."""
    return error.temporary and not (isinstance(error, HttpStatusError) and error.status == 501)
