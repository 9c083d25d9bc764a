"""Claims: what sources without proofs (Jetstream, Tap) say of single records, and what became of it.

A claim names a record and a rev. It is never applied as such (unless the operator trusts its source): the
author's host is asked for the record, and what it proves, as of a rev of its own, is applied ahead of the
chain of commits. The chain itself does not move, for a proof of one record says nothing of the others; a
commit of the chain that is older than such a proof passes the record by. Pure.

Invariants: a record never goes back behind what was proven of it; a claim that is known, by a commit, a proof
or another source, asks for nothing; what is remembered is bounded, and what overflows is made good by
fetching the repo whole. A claim that its host does not confirm comes to nothing only after the host was asked
as often as that takes (`Prove`) since the claim came: one that comes while another of the same record is
being asked for waits for its turn. And where a host did not confirm a claim, it is made sure that it still is
the account's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appview.ingest.commands import ApplyRecord, Drop, Prove

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.ingest.commands import Command, ResyncReason
    from appview.ingest.commits import ProvenCommit, ProvenRecord
    from appview.ingest.tracked import TrackedRepo
    from lexicons.syntax import Did, Nsid, RecordKey

MAX_PROVING: Final = 32  # records of one repo that are asked for singly; more, and it is fetched whole
MAX_WAITING: Final = 1_000  # claims of one repo that wait for its fetch
MAX_AHEAD: Final = 2_000  # records of one repo that are remembered as ahead of its chain

Path = tuple[str, str]  # collection, record key


@dataclass(frozen=True, slots=True)
class ClaimEvent:
    """A record is said to have changed; `cid` None: to be gone.

    `record`: its block, where the source gave one that hashes to `cid`. `trusted`: the operator takes this
    source at its word.
    """

    did: Did
    rev: str
    collection: Nsid
    rkey: RecordKey
    cid: bytes | None
    record: bytes | None
    trusted: bool

    @property
    def path(self) -> Path:
        """The record."""
        return self.collection, self.rkey

    @property
    def is_complete(self) -> bool:
        """Whether it could be applied as it stands."""
        return self.trusted and (self.cid is None) == (self.record is None)


@dataclass(slots=True)
class Claims:
    """One repo's claims: `proving` has the rev claimed of each record that is asked for, `next` the highest
    one that was claimed since, `ahead` the rev as of which a record was applied ahead of the chain."""

    proving: dict[Path, str] = field(default_factory=dict)
    next: dict[Path, str] = field(default_factory=dict)
    ahead: dict[Path, str] = field(default_factory=dict)

    @property
    def reached(self) -> str | None:
        """The highest rev of which anything was applied ahead of the chain."""
        return max(self.ahead.values(), default=None)

    def covers(self, path: Path, rev: str) -> bool:
        """Tell whether a claim is no news."""
        return (
            self.ahead.get(path, "") >= rev or self.next.get(path, "") >= rev or self.proving.get(path) == rev
        )

    def settle(self, rev: str) -> None:
        """Forget what the chain has passed."""
        for known in (self.proving, self.next, self.ahead):
            for path in [path for path, each in known.items() if each <= rev]:
                del known[path]
        self.proving |= {path: later for path, later in self.next.items() if path not in self.proving}

    def pass_by(self, commit: ProvenCommit) -> ProvenCommit:
        """Leave out of a commit what is known better, and forget what it passes."""
        if not self.ahead and not self.proving:
            return commit
        ops = tuple(op for op in commit.ops if self.ahead.get((op.collection, op.rkey), "") < commit.rev)
        self.settle(commit.rev)
        return commit if len(ops) == len(commit.ops) else replace(commit, ops=ops)

    def give_up(self) -> str | None:
        """Forget what is not proven; give the highest rev that was claimed."""
        highest = max((*self.proving.values(), *self.next.values()), default=None)
        self.proving.clear()
        self.next.clear()
        return highest

    def clear(self) -> None:
        """Forget everything."""
        self.proving.clear()
        self.next.clear()
        self.ahead.clear()


@dataclass(frozen=True, slots=True)
class RecordState:
    """A record as of a rev, to be applied ahead of the chain: bytes, or (None) gone."""

    did: Did
    rev: str
    collection: Nsid
    rkey: RecordKey
    cid: bytes | None
    record: bytes | None

    @classmethod
    def of_claim(cls, claim: ClaimEvent) -> RecordState:
        """Take a claim at its word."""
        return cls(claim.did, claim.rev, claim.collection, claim.rkey, claim.cid, claim.record)

    @classmethod
    def of_proof(cls, proof: ProvenRecord, collection: Nsid, rkey: RecordKey) -> RecordState:
        """Take what a proof says."""
        return cls(proof.did, proof.rev, collection, rkey, proof.cid, proof.record)


class ClaimDesk:
    """Judges claims, and the proofs that are had of them. `resync` has a repo fetched; `refuse_early` refuses
    a rev that is ahead of the time; `suspect` has the document looked at."""

    def __init__(
        self,
        resync: Callable[[TrackedRepo, ResyncReason], list[Command]],
        refuse_early: Callable[[TrackedRepo, str, int], Drop | None],
        suspect: Callable[[TrackedRepo, int], list[Command]],
    ) -> None:
        self._resync = resync
        self._refuse_early = refuse_early
        self._suspect = suspect

    def receive(self, repo: TrackedRepo, claim: ClaimEvent, now: int) -> list[Command]:
        """Take a claim."""
        if not repo.active:
            return [Drop(repo.did, "account-inactive")]
        if (repo.rev is not None and claim.rev <= repo.rev) or repo.claims.covers(claim.path, claim.rev):
            return [Drop(repo.did, "old-rev")]
        refusal = self._refuse_early(repo, claim.rev, now)
        if refusal is not None:
            return [refusal]
        asked = claim.path in repo.claims.proving
        if claim.is_complete and not asked and not repo.resyncing:
            return self._apply(repo, RecordState.of_claim(claim))
        if asked:
            repo.claims.next[claim.path] = claim.rev
            return []
        repo.claims.proving[claim.path] = claim.rev
        if repo.resyncing:
            if len(repo.claims.proving) > MAX_WAITING:
                self._give_up(repo)
            return []
        if len(repo.claims.proving) > MAX_PROVING:
            return self._resync(repo, "overflow")
        return [Prove(repo.did, claim.collection, claim.rkey)]

    def proven(
        self, repo: TrackedRepo, collection: Nsid, rkey: RecordKey, proof: ProvenRecord | None, now: int
    ) -> list[Command]:
        """Take the answer to `Prove`, where it is still wanted."""
        path = (collection, rkey)
        if repo.resyncing or path not in repo.claims.proving:
            return []
        if proof is None:
            self._give_up(repo)
            return self._resync(repo, "not-proven")
        claimed, later = repo.claims.proving.pop(path), repo.claims.next.pop(path, "")
        commands: list[Command] = []
        if proof.rev < claimed:
            told = f"its host has rev {proof.rev}, {claimed} was claimed"
            commands += [Drop(repo.did, "not-proven", told), *self._suspect(repo, now)]
        if proof.rev < later:
            repo.claims.proving[path] = later
            commands.append(Prove(repo.did, collection, rkey))
        if proof.rev > max(repo.rev or "", repo.claims.ahead.get(path, "")):  # else a host that lags
            commands += self._apply(repo, RecordState.of_proof(proof, collection, rkey))
        return commands

    def _apply(self, repo: TrackedRepo, state: RecordState) -> list[Command]:
        repo.claims.ahead[state.collection, state.rkey] = state.rev
        commands: list[Command] = [ApplyRecord(state)]
        if len(repo.claims.ahead) > MAX_AHEAD:
            commands += self._resync(repo, "overflow")
        return commands

    @staticmethod
    def _give_up(repo: TrackedRepo) -> None:
        repo.overflowed = max(filter(None, (repo.overflowed, repo.claims.give_up())), default=None)
