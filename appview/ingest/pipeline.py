"""From the engine to the committer: the engine decides what is true, this carries out what it says.

Invariants:
- Whatever changes the engine, the roster or the committer's order does so under one lock, so that each repo's
  updates reach the stores in the order of its revs.
- A repo for which anything waits in memory is noted as not synchronized before the cursor passes what waits:
  a crash makes it be fetched whole.
- An event that cannot be used is counted by its reason, logged the first time, and stops nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from appview.control import RepoRow, SyncState
from appview.ingest.claims import ClaimEvent
from appview.ingest.commands import (
    AccountStatus,
    Apply,
    ApplyRecord,
    Compare,
    ConfirmStatus,
    Drop,
    FetchIdentity,
    IdentityChanged,
    Prove,
    Purge,
    RepoState,
    Resync,
    Turn,
    Untracked,
)
from appview.ingest.pending import Pending
from appview.ingest.roster import Roster
from appview.ingest.route import RecordChange, judge_config, refusals, route_commit, route_record
from appview.memory.values import Removal, Visibility
from lexicons.data import cid_from_text, cid_text
from lexicons.ids import CONFIG, CONFIG_RKEY, MEMORY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from appview.clock import Clock
    from appview.identity.documents import Identity
    from appview.ingest.claims import RecordState
    from appview.ingest.commands import Command, ResyncReason
    from appview.ingest.commits import ProvenCommit
    from appview.ingest.committer import Committer
    from appview.ingest.declarations import Declarations
    from appview.ingest.engine import Engine
    from appview.ingest.frames import CommitEvent
    from appview.ingest.route import Stray
    from appview.memory.values import RepoUpdate
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

TICK_SECONDS: Final = 1.0
MAX_CANDIDATES: Final = 5_000  # accounts that claim to declare a space and are not yet looked at
LOGGED_REJECTS: Final = 20  # of each reason
MAX_DETAIL: Final = 300  # characters
_ORDINARY: Final = frozenset({"old-rev", "account-inactive"})
_CONFIG_PATH: Final = f"{CONFIG}/{CONFIG_RKEY}"

log = structlog.get_logger(__name__)


class Pipeline:
    """The engine with its hands. `lock` is held by whoever changes what it holds.

    It calls `wanted(did)` when a repo must be fetched, or a status be asked for; `prove(command)` when a
    record must be proven; `compare(did)` when its host must be asked how far it is; `look_up(did, force)`
    when it must be found out who an account is, and `identity_changed(did)` when that is said to have
    changed; `ended(did)` when an account is gone; `stranger(did, event)` when an account has written that is
    not followed: is it to be?
    """

    def __init__(
        self,
        engine: Engine,
        committer: Committer,
        declarations: Declarations,
        clock: Clock,
        *,
        open_registration: bool,
    ) -> None:
        self.engine = engine
        self.roster = Roster()
        self.marks: dict[tuple[SpaceUri, Did], str] = {}  # of the roster's pairs: what decides which records
        self.rows: dict[Did, RepoRow] = {}  # as last noted
        self.pending = Pending()
        self.settling: set[tuple[SpaceUri, Did]] = set()  # filled, but not on disk yet
        self.attempts: dict[Did, int] = {}  # the engine's number of the resync it waits for
        self.turns: Counter[Did] = Counter()  # how often an account came or went since the start
        self.reasons: dict[Did, ResyncReason] = {}  # and why
        self.lock = asyncio.Lock()
        self.events: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self._tree = (b"", "")  # the last one whose CID was written as text, and that
        self.wanted: Callable[[Did], None] = lambda _did: None
        self.prove: Callable[[Prove], None] = lambda _command: None
        self.compare: Callable[[Did], None] = lambda _did: None
        self.give_turn: Callable[[Did], None] = lambda _did: None
        self.look_up: Callable[[Did, bool], None] = lambda _did, _force: None
        self.identity_changed: Callable[[Did], None] = lambda _did: None
        self.check_handle: Callable[[Identity], None] = lambda _identity: None
        self.ended: Callable[[Did], None] = lambda _did: None
        self.stranger: Callable[[Did, CommitEvent | ClaimEvent], Awaitable[bool]]
        self._committer = committer
        self._declarations = declarations
        self._clock = clock
        self._open_registration = open_registration

    async def run(self) -> None:
        """Remind the engine of the time, until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            async with self.lock:
                await self.carry_out(self.engine.tick(self._clock()))

    # Commands

    async def carry_out(self, commands: Iterable[Command]) -> None:
        """Do what the engine asks for. The lock is held."""
        for command in commands:
            match command:
                case Apply(commit):
                    await self._apply(commit)
                case ApplyRecord(state):
                    await self._apply_record(state)
                case Prove(did):
                    self.note(did)
                    self.prove(command)
                case Compare(did):
                    self.note(did)
                    self.compare(did)
                case FetchIdentity(did, force):
                    self.note(did)
                    self.look_up(did, force)
                case Resync(did, reason, attempt):
                    self.attempts[did], self.reasons[did] = attempt, reason
                    self.events["resync"] += 1
                    log.info("fetching repo", did=did, reason=reason)
                    if reason == "reactivated":
                        self.note(did, retry_at=None, attempts=0)
                    else:
                        self.note(did)
                    self.wanted(did)
                case Turn(did):
                    self.note(did)
                    self.give_turn(did)
                case AccountStatus(did, active, status):
                    self._account(did, "active" if active else status or "inactive")
                case Purge(did):
                    self.note(did)
                    self._committer.add(dict.fromkeys(self.roster.of(did), Removal(did)), 0)
                    self.ended(did)
                case ConfirmStatus(did):
                    self.ask_status(did)
                case IdentityChanged(did):
                    self.identity_changed(did)
                case Untracked(did, event):
                    await self._untracked(did, event)
                case Drop(did, reason, detail):
                    self.reject(reason, did, detail)
                    if reason not in _ORDINARY:
                        self.note(did)  # it may turn out to have been true
                case _:
                    assert_never(command)

    async def _apply(self, commit: ProvenCommit) -> None:
        did = commit.did
        memories: list[RecordChange] = []
        config: RecordChange | None = None
        size = 0
        for op in commit.ops:
            if op.collection not in (MEMORY, CONFIG):
                continue
            cid = None if op.cid is None else cid_text(op.cid)
            change = RecordChange(op.collection, op.rkey, cid, op.record, op.prev is not None)
            size += len(op.record or b"")
            if op.collection == MEMORY:
                memories.append(change)
            else:
                config = change
        if memories:
            scopes = self.roster.of(did)
            strays: Counter[Stray] = Counter()
            updates = route_commit(did, commit.rev, self._text_of(commit.data), memories, scopes, strays)
            self.count_refusals(did, updates)
            self.count_strays(did, strays)
            self._send(did, updates, size)
        if config is not None:
            declared = judge_config(did, commit.rev, config)
            if declared is not None:
                await self._declarations.follow(declared)
        self.note(did)

    async def _apply_record(self, state: RecordState) -> None:
        did = state.did
        cid = None if state.cid is None else cid_text(state.cid)
        change = RecordChange(state.collection, state.rkey, cid, state.record)
        if state.collection == MEMORY:
            updates = route_record(did, state.rev, change, self.roster.of(did))
            self.count_refusals(did, updates)
            self._send(did, updates, len(state.record or b""))
        elif state.collection == CONFIG:
            declared = judge_config(did, state.rev, change)
            if declared is not None:
                await self._declarations.follow(declared)
        self.note(did)

    def _send(self, did: Did, updates: Mapping[SpaceUri, RepoUpdate], size: int) -> None:
        """Hand updates on, but for the spaces that wait for the author's whole repo."""
        waiting = self.pending.spaces(did)
        if waiting:
            held = {space: update for space, update in updates.items() if space in waiting}
            self.pending.hold(did, held, size)
            updates = {space: update for space, update in updates.items() if space not in waiting}
        self._committer.add(updates, size)

    async def account(self, did: Did, *, active: bool, status: str | None) -> None:
        """Take what the account's own host says of it. The lock is held."""
        await self.carry_out(self.engine.account_confirmed(did, self._clock(), active=active, status=status))

    def _account(self, did: Did, status: str) -> None:
        log.info("account status", did=did, status=status)
        self.events[f"account {status}"] += 1
        self.turns[did] += 1
        row, hidden = self.rows.get(did), status != "active"
        if row is None or hidden != (row.status != "active"):
            self._committer.add(dict.fromkeys(self.roster.of(did), Visibility(did, hidden)), 0)
        self.note(did, status=status)

    async def _untracked(self, did: Did, event: CommitEvent | ClaimEvent) -> None:
        if not (_declares(event) and self._open_registration):
            self.events["stranger" if await self.stranger(did, event) else "not a writer"] += 1
        elif await self.consider(did):
            await self.carry_out(self.engine.receive(event, self._clock()))

    @property
    def candidates(self) -> int:
        """How many accounts that may declare a space are not looked into yet."""
        return len(self.rows) - len(self.roster.followed)

    async def consider(self, did: Did) -> bool:
        """Follow an account that seems to declare a space: whether it does, its repo says. The lock is
        held."""
        if did in self.rows:
            return False
        if self.candidates >= MAX_CANDIDATES:
            self.reject("too many candidates", did, "waiting to see whether they declare a space")
            return False
        log.info("an account may declare a space", did=did)
        await self.follow(RepoRow(did, self._clock()))
        return True

    async def follow(self, row: RepoRow) -> None:
        """Track a repo from what is noted of it. The lock is held."""
        self.rows[row.did] = row
        data = None if row.data is None else cid_from_text(row.data)
        state = RepoState(
            row.rev,
            data,
            "synchronized"
            if row.sync_state == "synchronized"
            else "desynchronized"
            if row.rev
            else "unknown",
            row.status == "active",
            None if row.status == "active" else row.status,
            pds=row.pds,
        )
        await self.carry_out(self.engine.track(row.did, state))
        if row.status != "active":
            # A crash may have come between what the spaces' files say of it and what this row says.
            self._committer.add(dict.fromkeys(self.roster.of(row.did), Visibility(row.did, True)), 0)
            self.ask_status(row.did, row.retry_at)  # nobody may say when it is back, or that it is gone

    def ask_status(self, did: Did, due: int | None = None) -> None:
        """Have the account's own host asked for its status: now, unless a time is named. The lock is held."""
        self.note(did, retry_at=self._clock() if due is None else due)
        self.wanted(did)

    def ask_status_later(self, did: Did) -> None:
        """Note that the account's own host is to be asked for its status soon, after a restart too. The lock
        is held."""
        self.note(did, retry_at=self._clock())

    def unfollow(self, did: Did) -> None:
        """Forget a repo. The lock is held."""
        self.engine.untrack(did)
        self.rows.pop(did, None)
        self.attempts.pop(did, None)
        self.turns.pop(did, None)
        self.reasons.pop(did, None)
        self.pending.drop(did)

    # What is known of a repo

    def note(self, did: Did, **changes: object) -> None:
        """Note the state of a repo, after everything that was handed on so far."""
        row, state = self.rows.get(did), self.engine.state(did)
        if row is None or state is None:
            return
        if state.sync == "synchronized" and not state.undecided:
            sync: SyncState = "synchronized"
        else:
            sync = "pending" if state.rev is None else "desynchronized"
        data = None if state.data is None else self._text_of(state.data)
        retry_at = row.retry_at
        if row.status != "active" and state.undecided:
            retry_at = self._clock()  # what was said of it is not judged: a restart asks its host at once
        row = RepoRow(  # spelled out: `replace` takes four times as long, and every commit comes by here
            did,
            self._clock(),
            state.rev,
            data,
            row.status,
            row.pds,
            row.handle,
            sync,
            row.error,
            row.attempts,
            retry_at,
        )
        if changes:
            row = replace(row, **changes)  # type: ignore[arg-type]
        self.rows[did] = row
        self._committer.note(row)

    def _text_of(self, tree: bytes) -> str:
        """Write a tree's CID; of one commit it is asked for twice."""
        if tree != self._tree[0]:
            self._tree = (tree, cid_text(tree))
        return self._tree[1]

    def reject(self, reason: str, did: Did | None, detail: str) -> None:
        """Count what came to nothing, by reason. The first few are worth a line each."""
        self.rejects[reason] += 1
        count = self.rejects[reason]
        if count > LOGGED_REJECTS and count & (count - 1):
            return  # from here on at every power of two
        level = log.debug if reason in _ORDINARY else log.warning
        level("event rejected", reason=reason, did=did, detail=detail[:MAX_DETAIL], count=count)

    def count_refusals(self, did: Did, updates: Mapping[SpaceUri, RepoUpdate]) -> None:
        """Count records that can never be indexed. The stores log them."""
        for reason, _, _ in refusals(updates.values()):
            self.events[f"refused {reason}"] += 1

    def count_strays(self, did: Did, strays: Mapping[Stray, int]) -> None:
        """Count records that their tag `space=` keeps out of every space: nothing else would tell of them."""
        for named, count in strays.items():
            self.events[f"in no space: space= names {named}"] += count
            log.debug("memory in no space", did=did, named=named, count=count)


def _declares(event: CommitEvent | ClaimEvent) -> bool:
    if isinstance(event, ClaimEvent):
        return event.path == (CONFIG, CONFIG_RKEY) and event.cid is not None
    return any(op.path == _CONFIG_PATH and op.cid is not None for op in event.ops)
