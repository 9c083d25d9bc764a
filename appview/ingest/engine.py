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
5. **A forged event costs little.** It moves no state; it causes at most one forced identity refresh a minute
   and DID.
6. **Nothing is proven with a key that is known to be doubtful**: after `#identity`, commits wait for the new
   document.
7. **A claim is no proof.** What a source without proofs says of a record is asked of the account's host, or
   taken at the operator's word; it moves that record alone, never the chain (see `claims`).
8. **Only an account's own host ends it.** Another's word hides it until its host has been asked, and a host
   that is not the account's says nothing.

Why the frames of a tracked repo are all read: a commit to another collection moves the root of the tree too.
If such frames were dropped, `prevData` of the next commit would not be the root we hold, and whether only
other collections changed in between could not be told from a lost commit of ours. So the frame filter passes
every commit of a tracked DID (see `sieve.concerns`), and the chain has no holes by design: a hole means a
loss, and a loss means a resync.

A signature that fails while the last forced refresh is less than a minute old is refused, and the document is
looked at again when the minute is over: if the key has changed by then, what was refused may have been true,
and the repo is fetched whole. A rev that is refused because it is ahead of the time may have been true too,
where our own clock is behind: when the time has come there, the repo is fetched. Times are microseconds since
1970 and are passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.identity.documents import Identity
from appview.ingest.claims import MAX_AHEAD, MAX_PROVING, MAX_WAITING, ClaimEvent, RecordState
from appview.ingest.commands import (
    AccountStatus,
    Apply,
    ApplyRecord,
    Command,
    ConfirmStatus,
    Drop,
    FetchIdentity,
    IdentityChanged,
    Prove,
    Purge,
    RepoState,
    Resync,
    ResyncReason,
    Turn,
    Untracked,
)
from appview.ingest.commits import MAX_FUTURE, ProvenCommit, check_rev, prove_commit, prove_sync
from appview.ingest.errors import Rejected
from appview.ingest.frames import AccountEvent, CommitEvent, Event, IdentityEvent, SyncEvent
from appview.ingest.tracked import TrackedRepo, is_heavy
from appview.ingest.waiting import WaitingRoom
from lexicons.ids import NAMESPACE
from lexicons.syntax import Tid

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from appview.identity.keys import PublicKey
    from appview.ingest.commits import ProvenRecord
    from appview.ingest.errors import Reason
    from appview.ingest.tracked import RepoNews
    from lexicons.syntax import Did, Nsid, RecordKey

SECOND: Final = 1_000_000  # microseconds
REFRESH_INTERVAL: Final = 60 * SECOND  # sync spec: not more than one forced refresh a minute and DID
EARLY_INTERVAL: Final = 600 * SECOND  # ours: between two looks at a repo because of revs ahead of the time
IDENTITY_RETRY: Final = 5 * SECOND  # ours: first wait after a DID could not be resolved; doubles
MAX_IDENTITY_RETRY: Final = 600 * SECOND  # ours
MAX_IDENTITY_AGE: Final = 24 * 3600 * SECOND  # ours: a document is not believed for longer

# Refusals that say nothing of the repo itself: the message may be anyone's, or is no news.
_NO_NEWS: Final[frozenset[Reason]] = frozenset({"did-mismatch", "future-rev", "old-rev", "wrong-host"})


class Engine:
    """Tracks repos. Every method returns the commands that follow from what it was told."""

    def __init__(self, namespace: str = NAMESPACE) -> None:
        self._prefix = namespace + "."
        self._repos: dict[Did, TrackedRepo] = {}
        self._names: set[bytes] = set()
        self._due: dict[Did, int] = {}  # when to look at an identity again
        self._early: dict[Did, int] = {}  # when a rev that was refused as ahead of the time is so no more
        self._waiting = WaitingRoom()
        self._attempts = 0

    # What is tracked

    @property
    def tracked(self) -> AbstractSet[bytes]:
        """The DIDs of tracked repos as bytes, live: what `sieve.concerns` asks for."""
        return self._names

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
            repo.undecided,
            repo.claims.reached,
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
        repo = TrackedRepo(did, state.rev, state.data, state.sync, state.active, state.status)
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
            self._names.discard(did.encode())
            self._due.pop(did, None)
            self._early.pop(did, None)

    def desynchronize(self, did: Did, reason: ResyncReason = "asked") -> list[Command]:
        """Take back trust in a repo's state, for instance because an `Apply` failed; asks for a resync."""
        repo = self._repos.get(did)
        return [] if repo is None or not repo.active else self._resync(repo, reason)

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
                return [Untracked(event.did, event)] if repo is None else self._claim(repo, event, now)
            case IdentityEvent():
                return self._identity_event(event.did)
            case AccountEvent():
                repo = self._repos.get(event.did)
                return [] if repo is None else self._account_event(repo, event, host, now)
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
            return self._judge_account(repo)
        repo.identity_failures = 0
        if repo.fetch_again:
            repo.fetch_again = False
            return [self._fetch(repo, force=True)]
        changed = repo.key is not None and (repo.key, repo.pds) != (outcome.key, outcome.pds)
        repo.key, repo.pds, repo.resolved_at = outcome.key, outcome.pds, now
        repo.awaits_identity = False
        suspected, repo.suspected = repo.suspected, False
        self._due.pop(did, None)
        was_hidden = not repo.active
        commands = self._judge_account(repo)
        if changed and was_hidden and not repo.active:
            commands.append(
                ConfirmStatus(did)
            )  # its former host may have hidden it, and not have the last word
        elif changed and suspected and repo.active:
            commands += self._resync(repo, "moved")
        commands += self._drain(repo, now)
        if not repo.busy:
            repo.retried = None
        return commands

    def turn(self, did: Did, now: int) -> list[Command]:
        """Judge the heavy event that waits, and what goes quickly behind it: the answer to `Turn`."""
        repo = self._repos.get(did)
        if repo is None or not repo.busy:
            return []
        repo.busy = False
        commands = self._drain(repo, now, has_turn=True)
        if not repo.awaits_identity:
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
        repo.claims.settle(rev)
        repo.claims.ahead.clear()
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
        path = (collection, rkey)
        if repo is None or repo.resyncing or path not in repo.claims.proving:
            return []
        if proof is None:
            repo.overflowed = max(filter(None, (repo.overflowed, repo.claims.give_up())), default=None)
            return self._resync(repo, "not-proven")
        claimed = repo.claims.proving.pop(path)
        commands: list[Command] = []
        if proof.rev < claimed:
            commands.append(Drop(did, "not-proven", f"its host has rev {proof.rev}, {claimed} was claimed"))
        if proof.rev > max(repo.rev or "", repo.claims.ahead.get(path, "")):  # else a host that lags
            commands += self._apply_ahead(repo, RecordState.of_proof(proof, collection, rkey))
        return commands

    def account_confirmed(self, did: Did, *, active: bool, status: str | None) -> list[Command]:
        """Take what the account's own host says of it."""
        repo = self._repos.get(did)
        return [] if repo is None else self._set_account(repo, active, status, confirmed=True)

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

    def _note_early(self, repo: TrackedRepo, rev: str, now: int) -> None:
        """Look at a repo again once a rev that was refused is not ahead any more: the clock may be wrong."""
        due = Tid(rev).micros - MAX_FUTURE
        if repo.looked_early_at is not None:
            due = max(due, min(repo.looked_early_at, now) + EARLY_INTERVAL)
        self._early[repo.did] = min(due, self._early.get(repo.did, due))

    def _news(self, repo: TrackedRepo, event: RepoNews, host: str | None, now: int) -> list[Command]:
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
        if repo.key is None or not 0 <= now - repo.resolved_at < MAX_IDENTITY_AGE:
            self._waiting.add(repo, event, host, first=True)
            repo.awaits_identity = True
            return [] if repo.fetching else [self._fetch(repo, force=repo.key is not None)]
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
            self._waiting.add(repo, event, host, first=True)
            return self._resync(repo, "prev-data-mismatch")
        repo.rev, repo.data = commit.rev, commit.data
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
        """Refresh the identity before an event is refused; refuse it where that was just done."""
        if repo.retried is event:
            return [Drop(repo.did, error.reason, error.detail)]
        if repo.refreshed_at is None or now - repo.refreshed_at >= REFRESH_INTERVAL:
            repo.retried, repo.refreshed_at = event, now
            repo.awaits_identity = True
            self._waiting.add(repo, event, host, first=True)
            return [self._fetch(repo, force=True)]
        self._suspect(repo, repo.refreshed_at)
        return [Drop(repo.did, error.reason, error.detail)]

    def _suspect(self, repo: TrackedRepo, refreshed_at: int) -> None:
        """Look again when the document may be asked for again."""
        repo.suspected = True
        self._due.setdefault(repo.did, refreshed_at + REFRESH_INTERVAL)

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
    def _fetch(repo: TrackedRepo, *, force: bool) -> FetchIdentity:
        repo.fetching = True
        return FetchIdentity(repo.did, force)

    def _claim(self, repo: TrackedRepo, claim: ClaimEvent, now: int) -> list[Command]:
        if not repo.active:
            return [Drop(repo.did, "account-inactive")]
        if (repo.rev is not None and claim.rev <= repo.rev) or repo.claims.covers(claim.path, claim.rev):
            return [Drop(repo.did, "old-rev")]
        try:
            check_rev(claim.rev, now)
        except Rejected as error:
            self._note_early(repo, claim.rev, now)
            return [Drop(repo.did, error.reason, error.detail)]
        asked = claim.path in repo.claims.proving
        if claim.is_complete and not asked and not repo.resyncing:
            return self._apply_ahead(repo, RecordState.of_claim(claim))
        repo.claims.proving[claim.path] = claim.rev
        if repo.resyncing:
            if len(repo.claims.proving) > MAX_WAITING:
                repo.overflowed = max(filter(None, (repo.overflowed, repo.claims.give_up())), default=None)
            return []
        if len(repo.claims.proving) > MAX_PROVING:
            return self._resync(repo, "overflow")
        return [] if asked else [Prove(repo.did, claim.collection, claim.rkey)]

    def _apply_ahead(self, repo: TrackedRepo, state: RecordState) -> list[Command]:
        repo.claims.ahead[state.collection, state.rkey] = state.rev
        commands: list[Command] = [ApplyRecord(state)]
        if len(repo.claims.ahead) > MAX_AHEAD:
            commands += self._resync(repo, "overflow")
        return commands

    def _account_event(
        self, repo: TrackedRepo, event: AccountEvent, host: str | None, now: int
    ) -> list[Command]:
        if host is None or host == repo.pds:
            return self._set_account(repo, event.active, event.status, confirmed=host is not None)
        if repo.pds is not None and not repo.fetching:
            if repo.refreshed_at is not None and now - repo.refreshed_at < REFRESH_INTERVAL:
                self._suspect(repo, repo.refreshed_at)
                return [Drop(repo.did, "wrong-host", f"from {host}")]
            repo.refreshed_at = now
        repo.account = (event, host)
        return [] if repo.fetching else [self._fetch(repo, force=repo.pds is not None)]

    def _judge_account(self, repo: TrackedRepo) -> list[Command]:
        """Take, or refuse, what a host said of an account when it was not known to be the account's."""
        if repo.account is None:
            return []
        (event, host), repo.account = repo.account, None
        if host != repo.pds:
            return [Drop(repo.did, "wrong-host", f"from {host}")]
        return self._set_account(repo, event.active, event.status, confirmed=True)

    def _set_account(
        self, repo: TrackedRepo, active: bool, status: str | None, *, confirmed: bool
    ) -> list[Command]:
        ends = status == "deleted" and not active
        if (repo.active, repo.status) == (active, status) and not (
            ends and confirmed and repo.sync != "unknown"
        ):
            return []
        was_active, repo.active, repo.status = repo.active, active, status
        commands: list[Command] = [AccountStatus(repo.did, active, status)]
        if not active:
            self._waiting.clear(repo)
            repo.claims.give_up()  # what was proven stays: no host that lags may be believed over it later
            repo.busy = repo.resyncing = repo.resync_again = False
            repo.overflowed = None
            repo.sync = "desynchronized"
            if ends and confirmed:
                repo.rev = repo.data = None
                repo.claims.clear()
                repo.sync = "unknown"
                commands.append(Purge(repo.did))
            elif ends:
                commands.append(ConfirmStatus(repo.did))
        elif not was_active:
            commands += self._resync(repo, "reactivated")
        return commands

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
