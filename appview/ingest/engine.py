"""The verification engine: events in, commands out, nothing awaited. It decides what is true of a repo.

Invariants, each held by a property test:
1. **Chain.** For one repo, each `Apply` starts from the tree that the last `Apply` or resync ended with, has
   a rev above it, and its operations are all that changed. So what was applied equals the repo as of the last
   rev.
2. **No gap stays.** Whatever cannot be proven to follow makes the repo `desynchronized` and asks for one
   `Resync`; a repo is `synchronized` again only through `resynced`.
3. **Nothing waits for a neighbour.** Events wait (for a key, for a resync) only behind events of the same
   repo. One that takes long waits itself, for a turn: the neighbours go first.
4. **Bounded.** What waits is bounded by count and bytes, a repo and in all; what overflows is made good by a
   resync.
5. **A forged event costs little.** It moves no state, and other events of the repo do not wait for what it
   leads to; it causes at most one forced identity refresh a minute and DID.
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
aside while the document is looked at. Where that was done less than a minute ago it is refused, and the
document is looked at again when the minute is over: if it has changed by then, the repo is fetched whole.
A rev that is refused because it is ahead of the time may have been true too, where our own clock is behind:
when the time has come there, the repo is fetched. Times are microseconds since 1970 and are passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.identity.documents import Identity
from appview.ingest.accounts import Accounts
from appview.ingest.claims import ClaimDesk, ClaimEvent
from appview.ingest.commands import (
    Apply,
    Command,
    ConfirmStatus,
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
from appview.ingest.refreshes import SECOND, Refreshes
from appview.ingest.tracked import Doubted, TrackedRepo, is_heavy
from appview.ingest.waiting import WaitingRoom
from lexicons.ids import NAMESPACE
from lexicons.syntax import Did, Tid

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from appview.identity.keys import PublicKey
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
    what `prove_commit` does.
    """

    def __init__(
        self,
        namespace: str = NAMESPACE,
        chained: Callable[[str | None], bool] = lambda _host: False,
        prove: Callable[[CommitEvent, PublicKey, int], ProvenCommit] = prove_commit,
    ) -> None:
        self._chained = chained
        self._prove = prove
        self._prefix = namespace + "."
        self._repos: dict[Did, TrackedRepo] = {}
        self._names: set[bytes] = set()
        self._refreshes = Refreshes()
        self._early: dict[Did, int] = {}  # when a rev that was refused as ahead of the time is so no more
        self._waiting = WaitingRoom()
        self._accounts = Accounts(self._refreshes, self._waiting, self._resync)
        self._claims = ClaimDesk(self._resync, self._refuse_early)
        self._attempts = 0

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
            self._early.pop(did, None)

    def desynchronize(self, did: Did, reason: ResyncReason = "asked") -> list[Command]:
        """Take back trust in a repo's state, for instance because an `Apply` failed; asks for a resync."""
        repo = self._repos.get(did)
        return [] if repo is None or not repo.active else self._resync(repo, reason)

    def doubt(self, did: Did) -> None:
        """Take note that news of a repo may have been lost: whether it was is being found out."""
        if did in self._repos:
            self._repos[did].incomplete = True

    def trust(self, did: Did) -> None:
        """Take note that no news was lost."""
        if did in self._repos:
            self._repos[did].incomplete = False

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
                return self._identity_event(event.did, host, now)
            case AccountEvent():
                repo = self._repos.get(event.did)
                return [] if repo is None else self._accounts.receive(repo, event, host, now)
        return []

    def malformed(self, did: Did | None, detail: str, host: str | None = None) -> list[Command]:
        """Take note of a message that could not be read (`MalformedFrame.did`): something was lost."""
        repo = None if did is None else self._repos.get(did)
        if repo is None or not repo.active:
            return []
        if repo.is_foreign(host):
            return [Drop(repo.did, "wrong-host", detail)]
        return [Drop(repo.did, "malformed-frame", detail), *self._resync(repo, "malformed-frame")]

    def identity_resolved(self, did: Did, outcome: Identity | Exception, now: int) -> list[Command]:
        """Take the answer to `FetchIdentity`: an identity, or why there is none (it is asked for again)."""
        repo = self._repos.get(did)
        if repo is None:
            return []
        repo.fetching = False
        if not isinstance(outcome, Identity):
            self._refreshes.failed(repo, now)
            return []
        repo.identity_failures = 0
        if repo.fetch_again:
            repo.fetch_again = False
            if self._refreshes.may(repo, now):
                return [self._refreshes.start(repo, now)]
        is_first = repo.key is None
        changed = not is_first and (repo.key, repo.pds) != (outcome.key, outcome.pds)
        missed = outcome.pds in repo.strays or (changed and repo.suspected)
        repo.key, repo.pds, repo.resolved_at = outcome.key, outcome.pds, now
        repo.awaits_identity = False
        if not self._refreshes.is_owed(repo):
            repo.suspected = False
            repo.strays.clear()
        was_hidden = not repo.active
        commands = self._accounts.judge(repo, now)
        if changed and was_hidden and not repo.active:
            commands.append(
                ConfirmStatus(did)
            )  # its former host may have hidden it, and not have the last word
        elif missed and repo.active:
            commands += self._resync(repo, "moved")
        commands += self._judge_aside(repo, now, changed=changed or is_first)
        return commands + self._drain(repo, now)

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
        self, did: Did, collection: Nsid, rkey: RecordKey, proof: ProvenRecord | None
    ) -> list[Command]:
        """Take the answer to `Prove`; None: there is no proof to be had, and the repo is fetched instead."""
        repo = self._repos.get(did)
        return [] if repo is None else self._claims.proven(repo, collection, rkey, proof)

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
            commands += self.desynchronize(did, "future-rev")
        for did in self._accounts.due(now):
            commands += self._accounts.go_on(self._repos[did], now)
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
            return [Drop(repo.did, "account-inactive")]
        if repo.rev is not None and event.rev <= repo.rev:
            return [Drop(repo.did, "old-rev")]
        if host is not None and repo.is_foreign(host):
            return self._doubt(repo, event, host, Rejected("wrong-host", f"from {host}"), now)
        refusal = self._refuse_early(repo, event.rev, now)
        if refusal is not None:
            return [refusal]
        if repo.blocked or repo.waiting:
            self._waiting.add(repo, event, host)
            return []
        if is_heavy(event):
            self._waiting.add(repo, event, host)
            return self._drain(repo, now)
        return self._judge(repo, event, host, now)

    def _judge(self, repo: TrackedRepo, event: RepoNews, host: str | None, now: int) -> list[Command]:
        """Judge an event of a repo for which nothing else waits."""
        if repo.rev is not None and event.rev <= repo.rev:
            return [Drop(repo.did, "old-rev")]
        if host is not None and repo.is_foreign(host):
            return self._doubt(repo, event, host, Rejected("wrong-host", f"from {host}"), now)
        if repo.key is None or not 0 <= now - repo.resolved_at < MAX_IDENTITY_AGE:
            self._waiting.add(repo, event, host, first=True)
            repo.awaits_identity = True
            if repo.fetching or self._refreshes.is_owed(repo):
                return []
            return [self._refreshes.start(repo, now, force=repo.key is not None)]
        try:
            if isinstance(event, SyncEvent):
                return self._judge_sync(repo, event, repo.key, now)
            commit = self._prove(event, repo.key, now)
        except Rejected as error:
            if error.reason == "bad-signature":
                return self._doubt(repo, event, host, error, now)
            refusal = Drop(repo.did, error.reason, error.detail)
            return [refusal] if error.reason in _NO_NEWS else [refusal, *self._resync(repo, error.reason)]
        if commit.prev_data != repo.data:
            self._waiting.add(repo, event, host, first=True)
            return self._resync(repo, "prev-data-mismatch")
        repo.rev, repo.data = commit.rev, commit.data
        repo.suspected |= repo.doubtful
        return [Apply(repo.claims.pass_by(commit))]

    def _judge_sync(self, repo: TrackedRepo, event: SyncEvent, key: PublicKey, now: int) -> list[Command]:
        signed = prove_sync(event, key, now)
        if signed.data != repo.data or repo.claims.ahead:
            return self._resync(repo, "sync")
        since, repo.rev = repo.rev, signed.rev
        return [Apply(ProvenCommit(repo.did, signed.rev, since, signed.data, signed.data, ()))]

    def _doubt(
        self, repo: TrackedRepo, event: RepoNews, host: str | None, error: Rejected, now: int
    ) -> list[Command]:
        """Have the document looked at before an event is refused; refuse it where that was just done."""
        commands: list[Command] = []
        looks = not repo.fetching and self._refreshes.may(repo, now)
        if looks:
            commands.append(self._refreshes.start(repo, now))
        if repo.fetching and self._waiting.lay_aside(repo, Doubted(event, host, error, looks)):
            return commands
        self._suspect(repo, host, error, now)
        return [*commands, Drop(repo.did, error.reason, error.detail)]

    def _suspect(self, repo: TrackedRepo, host: str | None, error: Rejected, now: int) -> None:
        """Look again when the document may be asked for again: what is refused may have been true."""
        if error.reason == "wrong-host" and host is not None:
            repo.strays.add(host)
        else:
            repo.suspected = True
        self._refreshes.owe(repo, now)

    def _judge_aside(self, repo: TrackedRepo, now: int, *, changed: bool) -> list[Command]:
        """Judge what was laid aside anew where the document has changed; otherwise refuse it."""
        aside = self._waiting.take_aside(repo)
        if not repo.active:
            return []
        commands: list[Command] = []
        for doubted in reversed(aside):
            if changed and not repo.is_foreign(doubted.host):
                self._waiting.add(repo, doubted.event, doubted.host, first=True)
                continue
            if not doubted.certain:  # the document may have been given before this came
                self._suspect(repo, doubted.host, doubted.error, now)
            commands.append(Drop(repo.did, doubted.error.reason, doubted.error.detail))
        return commands

    def _identity_event(self, did: Did, host: str | None, now: int) -> list[Command]:
        repo = self._repos.get(did)
        if repo is None:
            return [IdentityChanged(did)]
        if repo.is_foreign(host):  # the account may have moved there, and if not, nothing waits for it
            return [*self._refreshes.want(repo, now)]
        if host is not None and repo.pds is None:  # commits wait for the first document, if for any
            repo.fetch_again |= repo.fetching
            return [IdentityChanged(did)]
        if not self._refreshes.may(repo, now):
            repo.doubtful = True
            self._refreshes.owe(repo, now)
            return [IdentityChanged(did)]
        repo.awaits_identity = True
        if repo.fetching:
            repo.fetch_again = True
            return [IdentityChanged(did)]
        return [IdentityChanged(did), self._refreshes.start(repo, now)]

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
        """Judge what waits, up to a heavy event; with a turn, up to the second one."""
        commands: list[Command] = []
        while not repo.blocked:
            if repo.overflowed is not None:
                lost, repo.overflowed = repo.overflowed, None
                if repo.rev is None or lost > repo.rev:
                    commands += self._resync(repo, "overflow")
                continue
            if not repo.waiting:
                break
            event, _ = repo.waiting[0]
            if is_heavy(event) and (repo.rev is None or event.rev > repo.rev):
                if not has_turn:
                    repo.busy = True
                    return [*commands, Turn(repo.did)]
                has_turn = False
            event, host = self._waiting.take(repo)
            commands += self._judge(repo, event, host, now)
        return commands
