"""The verification engine: events in, commands out, nothing awaited. It decides what is true of a repo.

Invariants, each held by a property test:
1. **Chain.** For one repo, each `Apply` starts from the tree that the last `Apply` or resync ended with, has
   a rev above it, and its operations are all that changed. So what was applied equals the repo as of the last
   rev.
2. **No gap stays.** Whatever cannot be proven to follow makes the repo `desynchronized` and asks for one
   `Resync`; a repo is `synchronized` again only through `resynced`.
3. **Nothing waits for a neighbour.** Events wait (for a key, for a resync) only behind events of the same
   repo.
4. **Bounded.** What waits is bounded by count and bytes, a repo and in all; what overflows is made good by a
   resync.
5. **A forged event costs little.** It moves no state; it causes at most one forced identity refresh a minute
   and DID.
6. **Nothing is proven with a key that is known to be doubtful**: after `#identity`, commits wait for the new
   document.

Why the frames of a tracked repo are all read: a commit to another collection moves the root of the tree too.
If such frames were dropped, `prevData` of the next commit would not be the root we hold, and whether only
other collections changed in between could not be told from a lost commit of ours. So the frame filter passes
every commit of a tracked DID (see `frames.concerns`), and the chain has no holes by design: a hole means a
loss, and a loss means a resync.

A signature that fails while the last forced refresh is less than a minute old is refused, and the document is
looked at again when the minute is over: if the key has changed by then, what was refused may have been true,
and the repo is fetched whole. A rev that is refused because it is ahead of the time may have been true too,
where our own clock is behind: when the time has come there, the repo is fetched. Times are microseconds since
1970 and are passed in.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appview.identity.documents import Identity
from appview.ingest.commands import (
    AccountStatus,
    Apply,
    Command,
    Drop,
    FetchIdentity,
    IdentityChanged,
    RepoState,
    Resync,
    ResyncReason,
    SyncState,
    Untracked,
)
from appview.ingest.commits import MAX_FUTURE, ProvenCommit, check_rev, prove_commit, prove_sync
from appview.ingest.errors import Rejected
from appview.ingest.frames import AccountEvent, CommitEvent, Event, IdentityEvent, SyncEvent
from lexicons.ids import NAMESPACE
from lexicons.syntax import Tid

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from appview.identity.keys import PublicKey
    from appview.ingest.errors import Reason
    from lexicons.syntax import Did

SECOND: Final = 1_000_000  # microseconds
REFRESH_INTERVAL: Final = 60 * SECOND  # sync spec: not more than one forced refresh a minute and DID
EARLY_INTERVAL: Final = 600 * SECOND  # ours: between two looks at a repo because of revs ahead of the time
IDENTITY_RETRY: Final = 5 * SECOND  # ours: first wait after a DID could not be resolved; doubles
MAX_IDENTITY_RETRY: Final = 600 * SECOND  # ours
MAX_WAITING_EVENTS: Final = 1_000  # ours, a repo
MAX_WAITING_BYTES: Final = 8_000_000  # ours, a repo: four commits of the largest size
MAX_WAITING_TOTAL: Final = 64_000_000  # ours, bytes of all repos

# Refusals that say nothing of the repo itself: the message may be anyone's, or is no news.
_NO_NEWS: Final[frozenset[Reason]] = frozenset({"did-mismatch", "future-rev", "old-rev", "wrong-host"})

_RepoNews = CommitEvent | SyncEvent


@dataclass(slots=True)
class _Repo:
    did: Did
    rev: str | None
    data: bytes | None
    sync: SyncState
    active: bool
    status: str | None
    key: PublicKey | None = None
    pds: str | None = None
    awaits_identity: bool = False  # commits wait for a document
    fetching: bool = False  # a `FetchIdentity` is not answered yet
    fetch_again: bool = False  # the document changed while it was fetched
    identity_failures: int = 0
    refreshed_at: int | None = None  # the last forced refresh
    looked_early_at: int | None = None  # the last resync for a rev that was ahead of the time
    suspected: bool = False  # a signature was refused without a refresh; look again when it is due
    resyncing: bool = False
    resync_again: bool = False  # something was lost while the repo was fetched
    attempt: int = 0
    waiting: deque[tuple[_RepoNews, str | None]] = field(default_factory=deque)
    waiting_bytes: int = 0
    overflowed: str | None = None  # the highest rev that could not wait
    retried: _RepoNews | None = None  # the event for whose sake the identity was refreshed

    @property
    def undecided(self) -> bool:
        return bool(self.waiting) or self.overflowed is not None or self.suspected

    @property
    def blocked(self) -> bool:
        return self.awaits_identity or self.resyncing


class Engine:
    """Tracks repos. Every method returns the commands that follow from what it was told."""

    def __init__(self, namespace: str = NAMESPACE) -> None:
        self._prefix = namespace + "."
        self._repos: dict[Did, _Repo] = {}
        self._names: set[bytes] = set()
        self._due: dict[Did, int] = {}  # when to look at an identity again
        self._early: dict[Did, int] = {}  # when a rev that was refused as ahead of the time is so no more
        self._waiting_bytes = 0
        self._attempts = 0

    # What is tracked

    @property
    def tracked(self) -> AbstractSet[bytes]:
        """The DIDs of tracked repos as bytes, live: what `frames.concerns` asks for."""
        return self._names

    def state(self, did: Did) -> RepoState | None:
        """Tell what is known of a repo; None where it is not tracked."""
        repo = self._repos.get(did)
        if repo is None:
            return None
        return RepoState(repo.rev, repo.data, repo.sync, repo.active, repo.status, repo.undecided)

    @property
    def waiting(self) -> tuple[int, int]:
        """How many events wait, and their bytes."""
        return sum(len(repo.waiting) for repo in self._repos.values()), self._waiting_bytes

    def track(self, did: Did, state: RepoState | None = None) -> list[Command]:
        """Follow a repo from a known state; anything but `synchronized` asks for a resync at once."""
        if did in self._repos:
            return []
        state = state or RepoState()
        repo = _Repo(did, state.rev, state.data, state.sync, state.active, state.status)
        self._repos[did] = repo
        self._names.add(did.encode())
        if not repo.active or (repo.sync == "synchronized" and repo.data is not None):
            return []
        return self._resync(repo, "new" if repo.rev is None else "asked")

    def untrack(self, did: Did) -> None:
        """Forget a repo."""
        repo = self._repos.pop(did, None)
        if repo is not None:
            self._clear(repo)
            self._names.discard(did.encode())
            self._due.pop(did, None)
            self._early.pop(did, None)

    def desynchronize(self, did: Did, reason: ResyncReason = "asked") -> list[Command]:
        """Take back trust in a repo's state, for instance because an `Apply` failed; asks for a resync."""
        repo = self._repos.get(did)
        return [] if repo is None or not repo.active else self._resync(repo, reason)

    # Events

    def receive(self, event: Event, now: int, host: str | None = None) -> list[Command]:
        """Take an event. `host`: the PDS that sent it itself (scheme and authority); None from a relay."""
        match event:
            case CommitEvent():
                repo = self._repos.get(event.repo)
                if repo is None:
                    ours = any(op.path.startswith(self._prefix) for op in event.ops)
                    return [Untracked(event.repo, event)] if ours else []
                return self._news(repo, event, host, now)
            case SyncEvent():
                repo = self._repos.get(event.did)
                return [] if repo is None else self._news(repo, event, host, now)
            case IdentityEvent():
                return self._identity_event(event.did)
            case AccountEvent():
                return self._account_event(event)
        return []

    def malformed(self, did: Did | None, detail: str) -> list[Command]:
        """Take note of a message that could not be read (`MalformedFrame.did`): something was lost."""
        repo = None if did is None else self._repos.get(did)
        if repo is None or not repo.active:
            return []
        return [Drop(repo.did, "malformed-frame", detail), *self._resync(repo, "malformed-frame")]

    def identity_resolved(self, did: Did, outcome: Identity | Exception, now: int) -> list[Command]:
        """Take the answer to `FetchIdentity`: an identity, or why there is none (it is asked for again).

        An identity that the shell resolved for its own ends is welcome too.
        """
        repo = self._repos.get(did)
        if repo is None:
            return []
        repo.fetching = False
        if not isinstance(outcome, Identity):
            wait = min(IDENTITY_RETRY << min(repo.identity_failures, 16), MAX_IDENTITY_RETRY)
            repo.identity_failures += 1
            if repo.awaits_identity or repo.suspected:
                self._due[did] = now + wait
            return []
        repo.identity_failures = 0
        if repo.fetch_again:
            repo.fetch_again = False
            return [self._fetch(repo, force=True)]
        changed = repo.key is not None and (repo.key, repo.pds) != (outcome.key, outcome.pds)
        repo.key, repo.pds = outcome.key, outcome.pds
        repo.awaits_identity = False
        suspected, repo.suspected = repo.suspected, False
        self._due.pop(did, None)
        commands: list[Command] = []
        if suspected and changed and repo.active:
            commands += self._resync(repo, "moved")
        commands += self._drain(repo, now)
        repo.retried = None
        return commands

    def is_current(self, did: Did, attempt: int) -> bool:
        """Tell whether a resync is still wanted; ask before its result is applied."""
        repo = self._repos.get(did)
        return repo is not None and repo.resyncing and repo.attempt == attempt

    def resynced(self, did: Did, rev: str, data: bytes, now: int, attempt: int) -> list[Command]:
        """Take note that a proven repo was applied whole, as of `rev`; what waited goes on from there."""
        if not self.is_current(did, attempt):
            return []
        repo = self._repos[did]
        repo.rev, repo.data, repo.sync, repo.resyncing = rev, data, "synchronized", False
        if repo.resync_again:
            return self._resync(repo, "asked")
        return self._drain(repo, now)

    def tick(self, now: int) -> list[Command]:
        """Ask again for the identities whose time has come. Call it every few seconds."""
        commands: list[Command] = []
        for did in [did for did, due in self._early.items() if due <= now]:
            del self._early[did]
            self._repos[did].looked_early_at = now
            commands += self.desynchronize(did, "future-rev")
        for did in [did for did, due in self._due.items() if due <= now]:
            del self._due[did]
            repo = self._repos[did]
            repo.refreshed_at = now
            commands.append(self._fetch(repo, force=True))
        return commands

    # Inside

    def _note_early(self, repo: _Repo, rev: str, now: int) -> None:
        """Look at a repo again once a rev that was refused is not ahead any more: the clock may be wrong."""
        due = Tid(rev).micros - MAX_FUTURE
        if repo.looked_early_at is not None:
            due = max(due, min(repo.looked_early_at, now) + EARLY_INTERVAL)
        self._early[repo.did] = min(due, self._early.get(repo.did, due))

    def _news(self, repo: _Repo, event: _RepoNews, host: str | None, now: int) -> list[Command]:
        if not repo.active:
            return [Drop(repo.did, "account-inactive")]
        if repo.rev is not None and event.rev <= repo.rev:
            return [Drop(repo.did, "old-rev")]
        try:
            check_rev(event.rev, now)
        except Rejected as error:
            self._note_early(repo, event.rev, now)
            return [Drop(repo.did, error.reason, error.detail)]
        if repo.blocked or repo.waiting:
            self._wait(repo, event, host)
            return []
        return self._judge(repo, event, host, now)

    def _judge(self, repo: _Repo, event: _RepoNews, host: str | None, now: int) -> list[Command]:
        """Judge an event of a repo for which nothing else waits."""
        if repo.rev is not None and event.rev <= repo.rev:
            return [Drop(repo.did, "old-rev")]
        if repo.key is None:
            self._wait(repo, event, host, first=True)
            repo.awaits_identity = True
            return [] if repo.fetching else [self._fetch(repo, force=False)]
        if host is not None and host != repo.pds:
            return self._doubt(repo, event, host, Rejected("wrong-host", f"from {host}"), now)
        try:
            if isinstance(event, SyncEvent):
                return self._judge_sync(repo, event, repo.key, now)
            commit = prove_commit(event, repo.key, now)
        except Rejected as error:
            if error.reason == "bad-signature":
                return self._doubt(repo, event, host, error, now)
            refusal = Drop(repo.did, error.reason, error.detail)
            return [refusal] if error.reason in _NO_NEWS else [refusal, *self._resync(repo, error.reason)]
        if commit.prev_data != repo.data:
            self._wait(repo, event, host, first=True)
            return self._resync(repo, "prev-data-mismatch")
        repo.rev, repo.data = commit.rev, commit.data
        return [Apply(commit)]

    def _judge_sync(self, repo: _Repo, event: SyncEvent, key: PublicKey, now: int) -> list[Command]:
        signed = prove_sync(event, key, now)
        if signed.data != repo.data:
            return self._resync(repo, "sync")
        since, repo.rev = repo.rev, signed.rev
        return [Apply(ProvenCommit(repo.did, signed.rev, since, signed.data, signed.data, ()))]

    def _doubt(
        self, repo: _Repo, event: _RepoNews, host: str | None, error: Rejected, now: int
    ) -> list[Command]:
        """Refresh the identity before an event is refused; refuse it where that was just done."""
        if repo.retried is event:
            return [Drop(repo.did, error.reason, error.detail)]
        if repo.refreshed_at is None or now - repo.refreshed_at >= REFRESH_INTERVAL:
            repo.retried, repo.refreshed_at = event, now
            repo.awaits_identity = True
            self._wait(repo, event, host, first=True)
            return [self._fetch(repo, force=True)]
        repo.suspected = True
        self._due.setdefault(repo.did, repo.refreshed_at + REFRESH_INTERVAL)
        return [Drop(repo.did, error.reason, error.detail)]

    def _identity_event(self, did: Did) -> list[Command]:
        repo = self._repos.get(did)
        commands: list[Command] = [IdentityChanged(did)]
        if repo is None:
            return commands
        repo.awaits_identity = True
        if repo.fetching:
            repo.fetch_again = True
            return commands
        return [*commands, self._fetch(repo, force=True)]

    @staticmethod
    def _fetch(repo: _Repo, *, force: bool) -> FetchIdentity:
        repo.fetching = True
        return FetchIdentity(repo.did, force)

    def _account_event(self, event: AccountEvent) -> list[Command]:
        repo = self._repos.get(event.did)
        if repo is None or (repo.active, repo.status) == (event.active, event.status):
            return []
        was_active, repo.active, repo.status = repo.active, event.active, event.status
        commands: list[Command] = [AccountStatus(event.did, event.active, event.status)]
        if not event.active:
            self._clear(repo)
            repo.resyncing, repo.resync_again, repo.overflowed = False, False, None
            repo.sync = "desynchronized"
            if event.status == "deleted":
                repo.rev = repo.data = None
                repo.sync = "unknown"
        elif not was_active:
            commands += self._resync(repo, "reactivated")
        return commands

    def _resync(self, repo: _Repo, reason: ResyncReason) -> list[Command]:
        repo.sync = "desynchronized"
        if repo.resyncing:
            repo.resync_again = True
            return []
        repo.resyncing, repo.resync_again = True, False
        self._attempts += 1
        repo.attempt = self._attempts
        return [Resync(repo.did, reason, repo.attempt)]

    def _drain(self, repo: _Repo, now: int) -> list[Command]:
        commands: list[Command] = []
        while not repo.blocked:
            if repo.overflowed is not None:
                lost, repo.overflowed = repo.overflowed, None
                if repo.rev is None or lost > repo.rev:
                    commands += self._resync(repo, "overflow")
                continue
            if not repo.waiting:
                break
            event, host = repo.waiting.popleft()
            self._weigh(repo, -_size(event))
            commands += self._judge(repo, event, host, now)
        return commands

    def _wait(self, repo: _Repo, event: _RepoNews, host: str | None, *, first: bool = False) -> None:
        size = _size(event)
        if (
            len(repo.waiting) >= MAX_WAITING_EVENTS
            or repo.waiting_bytes + size > MAX_WAITING_BYTES
            or self._waiting_bytes + size > MAX_WAITING_TOTAL
        ):
            revs = [event.rev, repo.overflowed or "", *(each.rev for each, _ in repo.waiting)]
            repo.overflowed = max(revs)
            self._clear(repo)
            return
        if first:
            repo.waiting.appendleft((event, host))
        else:
            repo.waiting.append((event, host))
        self._weigh(repo, size)

    def _clear(self, repo: _Repo) -> None:
        repo.waiting.clear()
        self._weigh(repo, -repo.waiting_bytes)

    def _weigh(self, repo: _Repo, size: int) -> None:
        repo.waiting_bytes += size
        self._waiting_bytes += size


def _size(event: _RepoNews) -> int:
    ops: Iterable[str] = [op.path for op in event.ops] if isinstance(event, CommitEvent) else ()
    return len(event.blocks) + sum(map(len, ops)) + 500
