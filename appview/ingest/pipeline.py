"""From frames to the committer: the engine decides what is true, this carries out what it says.

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
from appview.errors import AppviewError
from appview.ingest.claims import ClaimEvent
from appview.ingest.commands import (
    AccountStatus,
    Apply,
    ApplyRecord,
    ConfirmStatus,
    Drop,
    FetchIdentity,
    IdentityChanged,
    Prove,
    Purge,
    RepoState,
    Resync,
    Untracked,
)
from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import CommitEvent, SyncEvent, concerns, frame_seq, parse_frame
from appview.ingest.pending import Pending
from appview.ingest.roster import Roster
from appview.ingest.route import RecordChange, judge_config, refusals, route_commit, route_record
from appview.ingest.stream import Letter
from appview.memory.values import Visibility
from lexicons.data import cid_from_text, cid_text
from lexicons.ids import CONFIG, CONFIG_RKEY, MEMORY, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from appview.clock import Clock
    from appview.identity.documents import Identity
    from appview.identity.handles import Handles
    from appview.identity.resolver import Resolver
    from appview.ingest.claims import RecordState
    from appview.ingest.commands import Command, ResyncReason
    from appview.ingest.commits import ProvenCommit
    from appview.ingest.committer import Committer
    from appview.ingest.declarations import Declarations
    from appview.ingest.engine import Engine
    from appview.ingest.frames import Event
    from appview.ingest.route import Stray
    from appview.ingest.stream import Gap, Item
    from appview.memory.values import RepoUpdate
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

BATCH_FRAMES: Final = 64  # frames between two chances for others to run
MAX_CANDIDATES: Final = 5_000  # accounts that claim to declare a space and are not yet looked at
LOGGED_REJECTS: Final = 20  # of each reason
MAX_DETAIL: Final = 300  # characters
_ORDINARY: Final = frozenset({"old-rev", "account-inactive"})
_NEEDLE: Final = NAMESPACE.encode()
_CONFIG_PATH: Final = f"{CONFIG}/{CONFIG_RKEY}"

log = structlog.get_logger(__name__)


class Pipeline:
    """The engine with its hands. `lock` is held by whoever changes what it holds.

    `wanted(did)` is called when a repo must be fetched, or an account's status be asked for; `prove(command)`
    when a record must be proven; `purge(did)` when an account is gone; `stranger(did, event)` when an account
    has written that is not followed: is it to be?
    """

    def __init__(
        self,
        engine: Engine,
        committer: Committer,
        resolver: Resolver,
        handles: Handles,
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
        self.taken: dict[str, tuple[int, Item]] = {}  # when a source's last event was taken, and what it was
        self.reasons: dict[Did, ResyncReason] = {}  # and why
        self.lock = asyncio.Lock()
        self.events: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self._tree = (b"", "")  # the last one whose CID was written as text, and that
        self.wanted: Callable[[Did], None] = lambda _did: None
        self.prove: Callable[[Prove], None] = lambda _command: None
        self.purge: Callable[[Did], Awaitable[None]] | None = None
        self.stranger: Callable[[Did, CommitEvent | ClaimEvent], bool] = lambda _did, _event: False
        self._committer = committer
        self._resolver = resolver
        self._handles = handles
        self._declarations = declarations
        self._clock = clock
        self._open_registration = open_registration
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Own the look-ups of identities, and remind the engine of the time, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            while True:
                await asyncio.sleep(1)
                async with self.lock:
                    await self.carry_out(self.engine.tick(self._clock()))

    # Frames

    async def take(self, source: str, items: list[Item], host: str | None = None) -> None:
        """Take what a source brought, and note how far that is. `host`: the PDS that speaks for itself."""
        async with self.lock:
            for start in range(0, len(items), BATCH_FRAMES):
                group = items[start : start + BATCH_FRAMES]
                for item in group:
                    match item:
                        case bytes():
                            await self._frame(item, host)
                        case Letter():
                            await self._letter(item)
                        case _:
                            await self._gap(source, item)
                last = next(
                    ((seq, item) for item in reversed(group) if (seq := _seq(item)) is not None), None
                )
                if last is not None:
                    self._committer.reached(source, last[0])
                    self.taken[source] = (self._clock(), last[1])
                await self._committer.room()
        await asyncio.sleep(0)

    async def _frame(self, frame: bytes, host: str | None) -> None:
        """Take one message. Whatever is wrong with it, the next one comes."""
        try:
            await self._read(frame, host)
        except Exception as error:  # a message that breaks the program must not stop the stream
            self.events["broken"] += 1
            log.exception("an event is given up", error=repr(error), bytes=len(frame))
            did = _did_of(frame)
            if did is not None:
                await self.carry_out(self.engine.desynchronize(did))

    async def _letter(self, letter: Letter) -> None:
        """Take one message that was read already. Whatever is wrong with it, the next one comes."""
        if letter.problem:
            await self._malformed(letter.did, letter.problem)
        for event in letter.events:
            try:
                await self._event(event, None)
            except Exception as error:  # as above
                self.events["broken"] += 1
                log.exception("an event is given up", error=repr(error), bytes=letter.size)
                await self.carry_out(self.engine.desynchronize(event.did))

    async def _read(self, frame: bytes, host: str | None) -> None:
        if not concerns(frame, _NEEDLE, self.engine.tracked):
            self.events["not ours"] += 1
            return
        try:
            event = parse_frame(frame)
        except MalformedFrame as error:
            await self._malformed(error.did, str(error))
            return
        if event is None:
            self.events["unknown"] += 1
            return
        await self._event(event, host)

    async def _event(self, event: Event | ClaimEvent, host: str | None) -> None:
        self.events[type(event).__name__] += 1
        commands = self.engine.receive(event, self._clock(), host)
        if commands:
            await self.carry_out(commands)
        elif isinstance(event, CommitEvent | SyncEvent | ClaimEvent):
            self.note(event.did)  # it waits

    async def _malformed(self, did: Did | None, problem: str) -> None:
        self.reject("malformed-frame", did, problem)
        await self.carry_out(self.engine.malformed(did, problem))

    async def _gap(self, source: str, gap: Gap) -> None:
        """Compare every repo with its host: something may have been lost here."""
        log.warning("events may be missing", source=source, reason=gap.reason, repos=len(self.rows))
        for did, row in list(self.rows.items()):
            await self.carry_out(self.engine.desynchronize(did, "gap"))
            if row.status != "active":  # it may have come back unheard
                self.ask_status(did)

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
                case FetchIdentity(did, force):
                    self.note(did)
                    self._start_look_up(did, force)
                case Resync(did, reason, attempt):
                    self.attempts[did], self.reasons[did] = attempt, reason
                    self.events["resync"] += 1
                    log.info("fetching repo", did=did, reason=reason)
                    if reason == "reactivated":
                        self.note(did, retry_at=None, attempts=0)
                    else:
                        self.note(did)
                    self.wanted(did)
                case AccountStatus(did, active, status):
                    self._account(did, "active" if active else status or "inactive")
                case Purge(did):
                    self.note(did)
                    if self.purge is not None:
                        await self.purge(did)
                case ConfirmStatus(did):
                    self.ask_status(did)
                case IdentityChanged(did):
                    self._resolver.forget(did)
                case Untracked(did, event):
                    await self._untracked(did, event)
                case Drop(did, reason, detail):
                    self.reject(reason, did, detail)
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
        await self.carry_out(self.engine.account_confirmed(did, active=active, status=status))

    def _account(self, did: Did, status: str) -> None:
        log.info("account status", did=did, status=status)
        self.events[f"account {status}"] += 1
        self.turns[did] += 1
        visibility = Visibility(did, status != "active")
        self._committer.add(dict.fromkeys(self.roster.of(did), visibility), 0)
        self.note(did, status=status)

    async def _untracked(self, did: Did, event: CommitEvent | ClaimEvent) -> None:
        if not (_declares(event) and self._open_registration):
            self.events["stranger" if self.stranger(did, event) else "not a writer"] += 1
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
        )
        await self.carry_out(self.engine.track(row.did, state))
        if row.status != "active":
            self.ask_status(row.did, row.retry_at)  # nobody may say when it is back, or that it is gone

    def ask_status(self, did: Did, due: int | None = None) -> None:
        """Have the account's own host asked for its status: now, unless a time is named. The lock is held."""
        self.note(did, retry_at=self._clock() if due is None else due)
        self.wanted(did)

    def unfollow(self, did: Did) -> None:
        """Forget a repo. The lock is held."""
        self.engine.untrack(did)
        self.rows.pop(did, None)
        self.attempts.pop(did, None)
        self.turns.pop(did, None)
        self.reasons.pop(did, None)
        self.pending.drop(did)

    # Identities

    def _start_look_up(self, did: Did, force: bool) -> None:
        if self._group is None:
            raise RuntimeError("the pipeline is not running")
        self._group.create_task(self._look_up(did, force), name=f"identity of {did}")

    async def _look_up(self, did: Did, force: bool) -> None:
        outcome: Exception | None = None
        identity = None
        try:
            identity = await self._resolver.resolve(did, fresh=force)
        except AppviewError as error:
            outcome = error
            log.warning("identity cannot be resolved", did=did, error=str(error))
        except Exception as error:  # nothing that a directory answers may end the program
            outcome = error
            log.exception("identity cannot be resolved", did=did)
        async with self.lock:
            answer = identity if identity is not None else outcome
            if answer is None or did not in self.rows:
                return
            commands = self.engine.identity_resolved(did, answer, self._clock())
            if identity is not None:
                self.note(did, pds=identity.pds)
                self.check_handle(identity, fresh=force)
            await self.carry_out(commands)
            self.note(did)

    def check_handle(self, identity: Identity, *, fresh: bool = False) -> None:
        """Find out whether the handle that a document claims is the account's, and note it. The lock is
        held."""
        row = self.rows.get(identity.did)
        if row is None or self._group is None:
            return
        if row.handle is not None and row.handle != identity.handle:
            self.note(identity.did, handle=None)
        self._group.create_task(self._check_handle(identity, fresh), name=f"handle of {identity.did}")

    async def _check_handle(self, identity: Identity, fresh: bool) -> None:
        try:
            handle = await self._handles.verified(identity, fresh=fresh)
        except Exception:  # nothing that a name server answers may end the program
            log.exception("handle cannot be verified", did=identity.did)
            return
        async with self.lock:
            row = self.rows.get(identity.did)
            if row is not None and row.handle != handle:
                self.note(identity.did, handle=handle)

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
            row.retry_at,
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


def _seq(item: Item) -> int | None:
    if isinstance(item, bytes):
        return frame_seq(item)
    return item.position if isinstance(item, Letter) else None


def _declares(event: CommitEvent | ClaimEvent) -> bool:
    if isinstance(event, ClaimEvent):
        return event.path == (CONFIG, CONFIG_RKEY) and event.cid is not None
    return any(op.path == _CONFIG_PATH and op.cid is not None for op in event.ops)


def _did_of(frame: bytes) -> Did | None:
    try:
        event = parse_frame(frame)
    except MalformedFrame as error:
        return error.did
    return getattr(event, "did", None)
