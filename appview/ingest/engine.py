"""The verification engine: events in, commands out, nothing awaited. It decides what is true of a repo.

Invariants, each held by a property test:
1. **Chain.** For one repo, each `Apply` starts from the tree that the last `Apply` or resync ended with, has
   a rev above it, and its operations are all that changed. So what was applied equals the repo as of the last
   rev.
2. **No gap stays.** Whatever cannot be proven to follow makes the repo `desynchronized` and asks for one
   `Resync`; a repo is `synchronized` again only through `resynced`.
3. **Nothing waits for a neighbour.** Events wait (for a key, for a resync) only behind events of the same
   repo. One that takes long waits itself, for a turn, and so does one of whose author enough is not written
   yet: the neighbours go first.
4. **Bounded.** What waits is bounded by count and bytes, a repo and in all; what overflows is made good by a
   resync.
5. **A forged event costs little.** It moves no state, and other events of the repo do not wait for what it
   leads to; that is, a minute and DID, one forced look at the document and one question to the account's host
   at most. What was true is not lost by that: refused for its signature or its host, it is made good where
   a document that was asked for later has changed; refused for anything else, where the host is further than
   what is proven. Only what the account's own host sends has the repo fetched at once, once a minute.
6. **Nothing is proven with a key that is known to be doubtful**: after an `#identity` of the account's host,
   or of a relay, commits wait for the new document. Another one within the minute is looked at when that is
   over: they do not wait for it, and if the key has changed by then, the repo is fetched whole.
7. **A claim is no proof.** What a source without proofs says of a record is asked of the account's host, or
   taken at the operator's word; it moves that record alone, never the chain (see `claims`).
8. **Only an account's own host ends it.** Another's word hides it until its host has been asked, and a host
   that is not the account's says nothing. Whether it is, its document says: until that is known, what it said
   is kept, and the host that was the account's when this program last ran hides it at once.
9. **A host that is not the account's delays nothing of it.** What it sends waits apart, if at all.

Why the frames of a tracked repo are all read: a commit to another collection moves the root of the tree too.
If such frames were dropped, `prevData` of the next commit would not be the root we hold, and whether only
other collections changed in between could not be told from a lost commit of ours. So the frame filter passes
every commit of a tracked DID (see `sieve.concerns`), and the chain has no holes by design: a hole means a
loss, and a loss means a resync.

An event that a newer document might make true (its signature fails, or its host is not the account's) is laid
aside while the document is looked at (see `identities`). One that cannot be used for any other reason is
anybody's word, up to its operations, for a signature covers the trees alone: the account's host is asked how
far the repo is (`Compare`). So it is where a rev is refused because it is ahead of the time, when the time
has come there: our own clock may have been behind. Times are microseconds since 1970 and are passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.ingest.accounts import Accounts
from appview.ingest.claims import ClaimDesk, ClaimEvent
from appview.ingest.commands import (
    Apply,
    Command,
    Compare,
    Drop,
    IdentityChanged,
    Prove,
    RepoState,
    Resync,
    ResyncReason,
    Turn,
    Untracked,
)
from appview.ingest.commits import MAX_FUTURE, ProvenCommit, check_rev, prove_commit, prove_sync
from appview.ingest.errors import Rejected
from appview.ingest.frames import AccountEvent, CommitEvent, Event, IdentityEvent, SyncEvent
from appview.ingest.identities import Identities
from appview.ingest.pace import SECOND, Pace
from appview.ingest.refreshes import Refreshes
from appview.ingest.tracked import HEAVY, TrackedRepo, weight_of
from appview.ingest.waiting import WaitingRoom
from lexicons.ids import NAMESPACE
from lexicons.syntax import Did, Tid

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from appview.identity.keys import PublicKey
    from appview.identity.resolver import Dated
    from appview.ingest.commits import ProvenRecord
    from appview.ingest.errors import Reason
    from appview.ingest.tracked import RepoNews
    from lexicons.syntax import Nsid, RecordKey

EARLY_INTERVAL: Final = 600 * SECOND  # ours: between two looks at a repo because of revs ahead of the time
MAX_IDENTITY_AGE: Final = 24 * 3600 * SECOND  # ours: a document is not believed for longer

# Refusals that say nothing of the repo itself: the message may be anyone's, or is no news.
_NO_NEWS: Final[frozenset[Reason]] = frozenset({"did-mismatch", "future-rev", "old-rev", "wrong-host"})


class Engine:
    """Tracks repos. Every method returns the commands that follow from what it was told.

    `chained(host)` tells whether a source brings the commits of repos at a host. For such a repo, what was
    proven ahead of its chain is known here alone: after a restart older commits would undo it. `prove` does
    what `prove_commit` does. `full(did)` tells whether so much of a repo is applied and not written yet that
    more should wait for a turn.
    """

    def __init__(
        self,
        namespace: str = NAMESPACE,
        chained: Callable[[str | None], bool] = lambda _host: False,
        prove: Callable[[CommitEvent, PublicKey, int], ProvenCommit] = prove_commit,
        full: Callable[[Did], bool] = lambda _did: False,
    ) -> None:
        self._chained = chained
        self._prove = prove
        self._full = full
        self._prefix = namespace + "."
        self._repos: dict[Did, TrackedRepo] = {}
        self._names: set[bytes] = set()
        self._refreshes = Refreshes()
        self._early: dict[Did, int] = {}  # when a rev that was refused as ahead of the time is so no more
        self._waiting = WaitingRoom()
        self._accounts = Accounts(self._refreshes, self._waiting, self._resync)
        self._identities = Identities(
            self._refreshes, self._waiting, self._accounts, self._resync, self._drain
        )
        self._claims = ClaimDesk(self._resync, self._refuse_early, self._identities.suspect)
        self._questions = Pace()  # because of what was refused
        self._attempts = 0
        self._doubts = 0

    # What is tracked

    @property
    def tracked(self) -> AbstractSet[bytes]:
        """The DIDs of tracked repos as bytes, live: what `sieve.concerns` asks for."""
        return self._names

    def key_of(self, name: bytes) -> PublicKey | None:
        """Give the key that a repo's next commit will likely be proven with; `name`: its DID as bytes."""
        repo = self._repos.get(Did(name.decode())) if name in self._names else None
        return None if repo is None or repo.blocked or not repo.active else repo.key

    def state(self, did: Did) -> RepoState | None:
        """Tell what is known of a repo; None where it is not tracked."""
        repo = self._repos.get(did)
        if repo is None:
            return None
        return RepoState(
            repo.rev,
            repo.data,
            repo.sync,
            repo.active,
            repo.status,
            repo.undecided or did in self._early or (bool(repo.claims.ahead) and self._chained(repo.pds)),
            repo.claims.reached,
            repo.pds,
        )

    def is_active(self, did: Did) -> bool:
        """Tell whether an account is active, as far as is known."""
        repo = self._repos.get(did)
        return repo is None or repo.active

    @property
    def waiting(self) -> tuple[int, int]:
        """How many events wait, and their bytes."""
        return sum(len(repo.waiting) for repo in self._repos.values()), self._waiting.bytes

    def track(self, did: Did, state: RepoState | None = None) -> list[Command]:
        """Follow a repo from a known state; anything but `synchronized` asks for a resync at once."""
        if did in self._repos:
            return []
        state = state or RepoState()
        repo = TrackedRepo(did, state.rev, state.data, state.sync, state.active, state.status, state.pds)
        self._repos[did] = repo
        self._names.add(did.encode())
        if not repo.active or (repo.sync == "synchronized" and repo.data is not None):
            return []
        return self._resync(repo, "new" if repo.rev is None else "asked")

    def untrack(self, did: Did) -> None:
        """Forget a repo."""
        repo = self._repos.pop(did, None)
        if repo is not None:
            self._waiting.clear(repo)
            self._waiting.take_aside(repo)
            self._names.discard(did.encode())
            self._refreshes.forget(did)
            self._accounts.forget(did)
            self._questions.forget(did)
            self._early.pop(did, None)

    def desynchronize(self, did: Did, reason: ResyncReason = "asked") -> list[Command]:
        """Take back trust in a repo's state, for instance because an `Apply` failed; asks for a resync."""
        repo = self._repos.get(did)
        return [] if repo is None or not repo.active else self._resync(repo, reason)

    def doubt(self, did: Did) -> None:
        """Take note that news of a repo may have been lost: whether it was is being found out."""
        if did in self._repos:
            self._doubts += 1
            self._repos[did].incomplete = self._doubts

    def doubted(self, did: Did) -> int | None:
        """Give the last doubt; None where there is none. Ask before it is looked into."""
        repo = self._repos.get(did)
        return None if repo is None else repo.incomplete

    def trust(self, did: Did, doubt: int | None) -> None:
        """Take note that no news was lost before that doubt. What is doubted since, goes on being doubted."""
        repo = self._repos.get(did)
        if repo is not None and repo.incomplete == doubt:
            repo.incomplete = None

    # Events

    def receive(self, event: Event | ClaimEvent, now: int, host: str | None = None) -> list[Command]:
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
            case ClaimEvent():
                repo = self._repos.get(event.did)
                return (
                    [Untracked(event.did, event)] if repo is None else self._claims.receive(repo, event, now)
                )
            case IdentityEvent():
                repo = self._repos.get(event.did)
                return (
                    [IdentityChanged(event.did)]
                    if repo is None
                    else self._identities.changed(repo, host, now)
                )
            case AccountEvent():
                repo = self._repos.get(event.did)
                return [] if repo is None else self._accounts.receive(repo, event, host, now)
        return []

    def malformed(self, did: Did | None, detail: str, now: int, host: str | None = None) -> list[Command]:
        """Take note of a message that could not be read (`MalformedFrame.did`): something may be lost."""
        repo = None if did is None else self._repos.get(did)
        if repo is None or not repo.active:
            return []
        if repo.is_foreign(host):
            return [Drop(repo.did, "wrong-host", detail), *self._identities.suspect(repo, now, host)]
        return self._refuse(repo, host, Rejected("malformed-frame", detail), now)

    def identity_resolved(self, did: Did, outcome: Dated | Exception, now: int) -> list[Command]:
        """Take the answer to `FetchIdentity`: an identity, or why there is none (it is asked for again)."""
        repo = self._repos.get(did)
        return [] if repo is None else self._identities.resolved(repo, outcome, now)

    def turn(self, did: Did, now: int) -> list[Command]:
        """Judge the heavy event that waits, and what goes quickly behind it: the answer to `Turn`."""
        repo = self._repos.get(did)
        if repo is None or not repo.busy:
            return []
        repo.busy = False
        return self._drain(repo, now, has_turn=True)

    def is_current(self, did: Did, attempt: int) -> bool:
        """Tell whether a resync is still wanted; ask before its result is applied."""
        repo = self._repos.get(did)
        return repo is not None and repo.resyncing and repo.attempt == attempt

    def resynced(
        self, did: Did, rev: str, data: bytes, now: int, attempt: int, host: str | None = None
    ) -> list[Command]:
        """Take note that a proven repo, which `host` gave, was applied whole as of `rev`; what waited goes on
        from there."""
        if not self.is_current(did, attempt):
            return []
        repo = self._repos[did]
        repo.rev, repo.data, repo.sync, repo.resyncing = rev, data, "synchronized", False
        repo.claims.settle(rev)
        repo.claims.ahead.clear()
        self._early.pop(did, None)  # its host knows of nothing later
        if repo.key is None and host is not None:
            repo.pds = host
        if repo.resync_again:
            return self._resync(repo, "asked")
        commands = self._drain(repo, now)
        if not repo.resyncing:
            commands += [Prove(did, *path) for path in repo.claims.proving]  # type: ignore[arg-type]
        return commands

    def claimed(self, did: Did, collection: Nsid, rkey: RecordKey) -> str | None:
        """Tell up to which rev a record is still to be proven; None where it is not."""
        repo = self._repos.get(did)
        return None if repo is None else repo.claims.proving.get((collection, rkey))

    def proven(
        self, did: Did, collection: Nsid, rkey: RecordKey, proof: ProvenRecord | None, now: int
    ) -> list[Command]:
        """Take the answer to `Prove`; None: there is no proof to be had, and the repo is fetched instead."""
        repo = self._repos.get(did)
        return [] if repo is None else self._claims.proven(repo, collection, rkey, proof, now)

    def account_confirmed(self, did: Did, now: int, *, active: bool, status: str | None) -> list[Command]:
        """Take what the account's own host says of it."""
        repo = self._repos.get(did)
        return [] if repo is None else self._accounts.set(repo, active, status, now, confirmed=True)

    def tick(self, now: int) -> list[Command]:
        """Do what was put off until now. Call it every few seconds."""
        commands: list[Command] = []
        for did in [did for did, due in self._early.items() if due <= now]:
            del self._early[did]
            self._repos[did].looked_early_at = now
            commands += self._ask_how_far(self._repos[did], now)
        for did in self._questions.due(now):
            commands += self._ask_how_far(self._repos[did], now)
        commands += self._accounts.tick(self._repos, now)
        for did in self._refreshes.due(now):
            if not self._repos[did].fetching:
                commands.append(self._refreshes.start(self._repos[did], now))
        return commands

    # Inside

    def _refuse_early(self, repo: TrackedRepo, rev: str, now: int) -> Drop | None:
        """Refuse a rev that is ahead of the time, and look at the repo when it is not any more: our own clock
        may be wrong."""
        try:
            check_rev(rev, now)
        except Rejected as error:
            due = Tid(rev).micros - MAX_FUTURE
            if repo.looked_early_at is not None:
                due = max(due, min(repo.looked_early_at, now) + EARLY_INTERVAL)
            self._early[repo.did] = min(due, self._early.get(repo.did, due))
            return Drop(repo.did, error.reason, error.detail)
        return None

    def _news(self, repo: TrackedRepo, event: RepoNews, host: str | None, now: int) -> list[Command]:
        if not repo.active:
            return [Drop(repo.did, "account-inactive"), *self._accounts.contradict(repo, host, now)]
        if repo.rev is not None and event.rev <= repo.rev:
            return [Drop(repo.did, "old-rev")]
        if host is not None and repo.is_foreign(host):
            return self._identities.doubt(repo, event, host, Rejected("wrong-host", f"from {host}"), now)
        refusal = self._refuse_early(repo, event.rev, now)
        if refusal is not None:
            return [refusal]
        if repo.blocked or repo.waiting:
            self._waiting.add(repo, event, host)
            return []
        if weight_of(event) > HEAVY or self._full(repo.did):
            self._waiting.add(repo, event, host)
            return self._drain(repo, now)
        return self._judge(repo, event, host, now)

    def _judge(self, repo: TrackedRepo, event: RepoNews, host: str | None, now: int) -> list[Command]:
        """Judge an event of a repo for which nothing else waits."""
        if repo.rev is not None and event.rev <= repo.rev:
            return [Drop(repo.did, "old-rev")]
        if host is not None and repo.is_foreign(host):
            return self._identities.doubt(repo, event, host, Rejected("wrong-host", f"from {host}"), now)
        if repo.key is None or not 0 <= now - repo.resolved_at < MAX_IDENTITY_AGE:
            self._waiting.add(repo, event, host, first=True)
            return self._identities.need(repo, now)
        try:
            if isinstance(event, SyncEvent):
                return self._judge_sync(repo, event, repo.key, now)
            commit = self._prove(event, repo.key, now)
        except Rejected as error:
            if error.reason == "bad-signature":
                return self._identities.doubt(repo, event, host, error, now)
            return self._refuse(repo, host, error, now)
        if commit.prev_data != repo.data:
            self._waiting.add(repo, event, host, first=True)
            return self._resync(repo, "prev-data-mismatch")
        repo.rev, repo.data = commit.rev, commit.data
        if repo.changed_at is not None:
            repo.suspected_at = now
        return [Apply(repo.claims.pass_by(commit))]

    def _judge_sync(self, repo: TrackedRepo, event: SyncEvent, key: PublicKey, now: int) -> list[Command]:
        signed = prove_sync(event, key, now)
        if signed.data != repo.data or repo.claims.ahead:
            return self._resync(repo, "sync")
        since, repo.rev = repo.rev, signed.rev
        return [Apply(ProvenCommit(repo.did, signed.rev, since, signed.data, signed.data, ()))]

    def _refuse(self, repo: TrackedRepo, host: str | None, error: Rejected, now: int) -> list[Command]:
        """Refuse what was sent in the name of a repo, and see to it that nothing is lost if it was true."""
        refusal = Drop(repo.did, error.reason, error.detail)
        if error.reason in _NO_NEWS:
            return [refusal]
        if host is not None and host == repo.pds and self._questions.take(repo.did, now):
            return [refusal, *self._resync(repo, error.reason)]
        return [refusal, *self._ask_how_far(repo, now)]

    def _ask_how_far(self, repo: TrackedRepo, now: int) -> list[Command]:
        """Find out whether news was lost: now, or when a minute is over since that was last done."""
        if not repo.active:
            return []
        self.doubt(repo.did)
        return [Compare(repo.did)] if self._questions.take(repo.did, now) else []

    def _resync(self, repo: TrackedRepo, reason: ResyncReason) -> list[Command]:
        repo.sync = "desynchronized"
        if repo.resyncing:
            repo.resync_again = True
            return []
        repo.resyncing, repo.resync_again = True, False
        self._attempts += 1
        repo.attempt = self._attempts
        return [Resync(repo.did, reason, repo.attempt)]

    def _drain(self, repo: TrackedRepo, now: int, *, has_turn: bool = False) -> list[Command]:
        """Judge what waits, as much as goes quickly; with a turn, one event that may be heavy and as much."""
        commands: list[Command] = []
        room = HEAVY
        while not repo.blocked:
            if repo.overflowed is not None:
                lost, repo.overflowed = repo.overflowed, None
                if repo.rev is None or lost > repo.rev:
                    commands += self._resync(repo, "overflow")
                continue
            if not repo.waiting:
                repo.rekeyed = False
                break
            event, _ = repo.waiting[0]
            if repo.rev is None or event.rev > repo.rev:
                weight = weight_of(event)
                if has_turn:
                    has_turn = False
                elif weight > room or self._full(repo.did):
                    repo.busy = True
                    return [*commands, Turn(repo.did)]
                else:
                    room -= weight
            event, host = self._waiting.take(repo)
            commands += self._judge(repo, event, host, now)
        return commands
