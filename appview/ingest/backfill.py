"""Whole repos: when they are fetched, how often again, and what becomes of them.

Invariants: one fetch of a repo at a time; a failure is followed by a wait that doubles, is noted in
control.db and honoured after a restart; a repo that is behind what was already proven is not taken, until it
has been behind for so long that the account's history must have been put back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from appview.errors import AppviewError
from appview.http.errors import FetchError, HttpStatusError
from appview.identity.errors import IdentityError
from appview.ingest.backoff import Backoff
from appview.ingest.errors import RepoBehind, RepoInactive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.clock import Clock
    from appview.control import Control
    from appview.ingest.backoff import Random
    from appview.ingest.committer import Committer
    from appview.ingest.declarations import Declarations
    from appview.ingest.fetch import FetchedRepo, RepoFetcher
    from appview.ingest.pipeline import Pipeline
    from appview.ingest.reconcile import Reconciler
    from appview.ingest.whole import RoutedRepo
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

_SECOND: Final = 1_000_000  # microseconds
RETRY: Final = Backoff(base=2.0, cap=3600.0)
INACTIVE_SECONDS: Final = (
    6 * 3600.0
)  # an inactive account: its host says when it is back, this is in case not
MAX_RETRY_AFTER: Final = 24 * 3600.0  # seconds; a host that asks for more is asked again anyway
CANDIDATE_ATTEMPTS: Final = 10  # at an account that only seemed to declare a space
PATIENCE: Final = 4  # times that a repo may be behind before it is believed
MAX_UNWRITTEN: Final = 32  # repos between the walk and the disk: 1 MB of memory each, and a file
MAX_SLEEP: Final = 30.0  # seconds; the clock may jump

log = structlog.get_logger(__name__)


class _Overtaken(Exception):
    """The account went, or came back, while its repo was fetched."""


@dataclass(frozen=True, slots=True)
class _Due:
    """When a wait is over, by the clock or by the event loop's time, whichever is sooner: the clock may have
    been ahead when the wait began, and the machine asleep since."""

    at: int  # microseconds since 1970
    by: float  # seconds of the event loop

    def left(self, now: int, loop_now: float) -> float:
        """Give how long it still is, in seconds."""
        return min((self.at - now) / _SECOND, self.by - loop_now)


@dataclass(frozen=True, slots=True)
class _Handed:
    """A repo on its way to the disk: what it means, by what marks, and the spaces that it fills."""

    routed: RoutedRepo
    marks: Mapping[tuple[SpaceUri, Did], str]
    filled: frozenset[SpaceUri]


class Backfill:
    """Fetches the repos that are asked for. `run` must be running."""

    def __init__(
        self,
        fetcher: RepoFetcher,
        pipeline: Pipeline,
        reconciler: Reconciler,
        declarations: Declarations,
        committer: Committer,
        control: Control,
        clock: Clock,
        *,
        random: Random,
        retry: Backoff = RETRY,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self._fetcher = fetcher
        self._pipeline = pipeline
        self._reconciler = reconciler
        self._declarations = declarations
        self._committer = committer
        self._control = control
        self._clock = clock
        self._random = random
        self._retry = retry
        self._due: dict[Did, _Due] = {}
        self._running: set[Did] = set()
        self._asking: set[Did] = set()  # for the status of a hidden account, whatever fetch is on its way
        self._unwritten = asyncio.Semaphore(MAX_UNWRITTEN)
        self._news = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many repos are to be fetched."""
        return len(self._due) + len(self._running) + len(self._asking)

    def want(self, did: Did) -> None:
        """Ask for a repo: now, or when the wait after its last failure is over."""
        row, state = self._pipeline.rows.get(did), self._pipeline.engine.state(did)
        wait = 0.0
        if row is not None and row.retry_at is not None:
            wait = min((row.retry_at - self._clock()) / _SECOND, MAX_RETRY_AFTER)  # the clock may have jumped
        elif state is not None and not state.active:
            wait = INACTIVE_SECONDS  # its host, or a relay, has just said so
        due, known = self._in(wait), self._due.get(did)
        self._due[did] = due if known is None else _Due(min(due.at, known.at), min(due.by, known.by))
        self._news.set()

    def _in(self, seconds: float) -> _Due:
        return _Due(self._clock() + int(seconds * _SECOND), asyncio.get_running_loop().time() + seconds)

    async def run(self) -> None:
        """Start what is due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._news.clear()
                now, loop_now = self._clock(), asyncio.get_running_loop().time()
                for did in [did for did, due in self._due.items() if due.left(now, loop_now) <= 0]:
                    busy = self._lane(did)
                    if did in busy:
                        continue
                    del self._due[did]
                    busy.add(did)
                    group.create_task(self._job(did, busy), name=f"repo of {did}")
                later = [due for did, due in self._due.items() if did not in self._lane(did)]
                wait = min([MAX_SLEEP, *(due.left(now, loop_now) for due in later)])
                # Among thousands this takes long, and each that ends is news: others come in between.
                await asyncio.sleep(asyncio.get_running_loop().time() - loop_now)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(wait, 0.0)):
                        await self._news.wait()

    def _lane(self, did: Did) -> set[Did]:
        return self._running if self._pipeline.engine.is_active(did) else self._asking

    async def _job(self, did: Did, busy: set[Did]) -> None:
        attempt, turn = self._pipeline.attempts.get(did, 0), self._pipeline.turns[did]
        try:
            if not await self._is_hidden(did, attempt, turn):
                async with AsyncExitStack() as stack:
                    async with self._fetcher.fetch(did) as repo:
                        # Waited for with the repo's place among all that are fetched: where a disk is slow,
                        # less is fetched.
                        await stack.enter_async_context(self._unwritten)
                        handed = await self._take(repo, attempt, turn)
                    if handed is not None:
                        await self._finish(did, handed)
        except _Overtaken:
            self.outcomes["overtaken"] += 1
            async with self._pipeline.lock:
                self._ask_again(did)
        except RepoInactive as error:
            async with self._pipeline.lock:
                if (self._pipeline.attempts.get(did, 0), self._pipeline.turns[did]) == (attempt, turn):
                    await self._pipeline.account(did, active=False, status=error.status)
                    self.failed(did, error)
                else:  # it has come back since it was asked for
                    self.want(did)
        except Exception as error:  # one repo, whatever is wrong with it, must not stop the others
            if not isinstance(error, AppviewError):
                log.exception("repo breaks the program", did=did)
            async with self._pipeline.lock:
                self.failed(did, error)
                if self._is_hopeless(did, error):
                    stranger = self._reconciler.is_stranger(did)
                    give_up = self._reconciler.dismiss if stranger else self._reconciler.forget
                    await self._committer.insist(partial(give_up, did))
        finally:
            busy.discard(did)
            self._news.set()

    def _ask_again(self, did: Did) -> None:
        """Fetch an account that came or went meanwhile: now, or where it is gone, when that has settled."""
        state = self._pipeline.engine.state(did)
        if state is None or state.active:
            self.want(did)
        else:
            self.failed(did, RepoInactive(did, state.status or "inactive"))

    async def _is_hidden(self, did: Did, attempt: int, turn: int) -> bool:
        """Ask for the status of an account that was said to be inactive or gone; false: fetch its repo."""
        pipeline = self._pipeline
        state = pipeline.engine.state(did)
        if state is None or state.active:
            return False
        try:
            status = await self._fetcher.status(did)
        except HttpStatusError as error:
            if error.status == 501 or error.name == "MethodNotImplemented":
                return False  # whether the repo is given out says it too
            raise
        async with pipeline.lock:
            state = pipeline.engine.state(did)
            if state is None or state.active:
                self.want(did)
            elif (pipeline.attempts.get(did, 0), pipeline.turns[did]) != (attempt, turn):
                self.failed(did, RepoInactive(did, state.status or "inactive"))
                if state.status == "deleted":
                    pipeline.ask_status(did)  # that is news, and must be made sure of
            elif status == "active":
                await pipeline.account(did, active=True, status=None)
            else:
                # A host that knows nothing of an account does not end it: nobody has said that it is deleted.
                if status == "deleted" != state.status:
                    status = state.status or "inactive"
                await pipeline.account(did, active=False, status=status)
                self.failed(did, RepoInactive(did, status))
        return True

    def failed(self, did: Did, error: Exception) -> None:
        """Note why an account's host was of no use, and when to ask it again. The lock is held."""
        row = self._pipeline.rows.get(did)
        if row is None:
            return
        attempts = row.attempts + 1
        wait = self._retry.seconds(attempts, self._random)
        if isinstance(error, RepoInactive):
            wait = INACTIVE_SECONDS
        elif isinstance(error, FetchError) and error.retry_after_seconds is not None:
            wait = max(wait, min(error.retry_after_seconds, MAX_RETRY_AFTER))
        elif isinstance(error, FetchError) and not error.temporary:
            wait = max(wait, self._retry.seconds(attempts + 4, self._random))
        due = self._due[did] = self._in(wait)
        self.outcomes[f"failed: {type(error).__name__}"] += 1
        log.warning(
            "repo cannot be fetched", did=did, error=str(error), attempts=attempts, retry_in=round(wait)
        )
        self._pipeline.note(did, error=str(error)[:500], attempts=attempts, retry_at=due.at)

    def _is_hopeless(self, did: Did, error: Exception) -> bool:
        """Tell whether to give up on an account of which nobody speaks but a message that proves nothing."""
        row = self._pipeline.rows.get(did)
        if row is None:
            return False
        if did in self._pipeline.roster.followed and (row.rev or not self._reconciler.is_stranger(did)):
            return False
        return isinstance(error, IdentityError) or row.attempts >= CANDIDATE_ATTEMPTS

    async def _take(self, repo: FetchedRepo, attempt: int, turn: int) -> _Handed | None:
        """Hand on what the repo holds for every space that waits for it, and let the repo go on from there;
        None where nothing is to be done with it any more."""
        did, pipeline = repo.did, self._pipeline
        scopes, marks = pipeline.roster.of(did), pipeline.marks
        routed = await repo.route(scopes)
        declared = False
        while True:
            async with pipeline.lock:
                if declared and did not in pipeline.rows:
                    return None
                self._check_not_overtaken(did, turn)
                self._check_not_behind(repo)
                state = pipeline.engine.state(did)
                if state is not None and not state.active:
                    # Its host gives it out again; what is here asks for it anew.
                    await pipeline.account(did, active=True, status=None)
                    return None
                if not declared:
                    await self._committer.insist(partial(self._declare, did, routed))
                    declared = True
                elif pipeline.roster.of(did) == scopes:
                    return _Handed(routed, marks, await self._hand_on(repo, attempt, routed))
                wanted, marked = pipeline.roster.of(did), pipeline.marks
            if wanted != scopes:  # its own config, or rules, have changed what the author may write
                scopes, marks = wanted, marked
                routed = await repo.route(scopes)

    async def _finish(self, did: Did, handed: _Handed) -> None:
        """Wait until what was handed on is on disk, and note that it is."""
        await self._committer.flush()
        async with self._pipeline.lock:
            await self._committer.insist(partial(self._settle, did, handed.filled, handed.marks))
            nothing = not any(map(len, (update.changes for update in handed.routed.updates.values())))
            if nothing and self._reconciler.is_stranger(did):
                await self._committer.insist(partial(self._reconciler.dismiss, did))
        self.outcomes["fetched"] += 1
        routed = handed.routed
        log.info("repo fetched", did=did, rev=routed.rev, memories=routed.memories, spaces=len(handed.filled))

    async def _settle(
        self, did: Did, filled: frozenset[SpaceUri], marks: Mapping[tuple[SpaceUri, Did], str]
    ) -> None:
        """Note what is on disk now."""
        pipeline = self._pipeline
        for space in filled:
            pair = (space, did)
            pipeline.settling.discard(pair)
            if space not in pipeline.roster.of(did) or space in pipeline.pending.spaces(did):
                continue
            if marks.get(pair) == pipeline.marks.get(pair):
                await self._control.put_membership(space, did, "synced", marks.get(pair))
            else:  # what the author may write has changed since the repo was routed
                await self._reconciler.fill(space, did, known_pair=True)
        self._forget_wish(did)
        if did not in pipeline.roster.followed and did in pipeline.rows:
            await self._reconciler.forget(did)  # it declares no space after all

    async def _hand_on(self, repo: FetchedRepo, attempt: int, routed: RoutedRepo) -> frozenset[SpaceUri]:
        # What whole repos hold is not in memory; counted here they would hold up everybody.
        did, pipeline, updates = repo.did, self._pipeline, routed.updates
        for reason, number in routed.refused.items():
            pipeline.events[f"refused {reason}"] += number
        pipeline.count_strays(did, routed.strays)
        if pipeline.engine.is_current(did, attempt):
            filled = frozenset(updates)
            self._committer.add(updates, 0)
            pipeline.pending.drop(did)
            pipeline.settling |= {(space, did) for space in filled}
            await pipeline.carry_out(
                pipeline.engine.resynced(did, repo.rev, repo.data, self._clock(), attempt, repo.identity.pds)
            )
        else:
            filled = pipeline.pending.spaces(did) & updates.keys()
            self._committer.add({space: updates[space] for space in filled}, 0)
            for held in pipeline.pending.finish(did):
                self._committer.add({space: held[space] for space in held.keys() & filled}, 0)
            pipeline.settling |= {(space, did) for space in filled}
        pipeline.note(
            did,
            error=None,
            attempts=0,
            retry_at=None,
            pds=repo.identity.pds,
        )
        pipeline.check_handle(repo.identity)
        self._forget_wish(did)  # before anything happens to the account that is to be asked about
        return filled

    def _forget_wish(self, did: Did) -> None:
        """Ask no more for a repo of which everything is handed on."""
        state = self._pipeline.engine.state(did)
        if state is not None and state.sync == "synchronized" and not self._pipeline.pending.spaces(did):
            self._due.pop(did, None)

    async def _declare(self, did: Did, routed: RoutedRepo) -> None:
        """Follow the config that the repo holds, or that it holds none."""
        if routed.config is not None:
            await self._declarations.follow(routed.config)
        else:
            await self._declarations.absent(did, routed.rev)

    def _check_not_overtaken(self, did: Did, turn: int) -> None:
        """Refuse a repo whose account has gone or come since it was asked for: it may tell of before."""
        if self._pipeline.turns[did] != turn:
            raise _Overtaken

    def _check_not_behind(self, repo: FetchedRepo) -> None:
        """Refuse a repo that lacks what was proven before, or what went by before it was held back."""
        row, state = self._pipeline.rows.get(repo.did), self._pipeline.engine.state(repo.did)
        if row is None or state is None:
            raise RepoBehind(f"{repo.did} is not followed any more")
        resync = state.sync != "synchronized"
        known = state.reached
        if resync and known is not None and repo.rev < known and row.attempts < PATIENCE:
            raise RepoBehind(f"the host has rev {repo.rev}, {known} was proven")
        if not resync and not self._pipeline.pending.reaches(repo.did, repo.rev):
            raise RepoBehind(f"the host has rev {repo.rev}, later ones went by")
