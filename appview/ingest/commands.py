"""What the verification engine asks of the shell around it, and what it is told of a repo.

The shell carries commands out in the order in which it gets them, those of one repo one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from appview.ingest.errors import Reason

if TYPE_CHECKING:
    from appview.ingest.claims import ClaimEvent, RecordState
    from appview.ingest.commits import ProvenCommit
    from appview.ingest.frames import CommitEvent
    from lexicons.syntax import Did, Nsid, RecordKey

SyncState = Literal["synchronized", "desynchronized", "unknown"]
ResyncReason = (
    Reason
    | Literal[
        "new",  # nothing is known of the repo yet
        "sync",  # the repo says that it stands elsewhere
        "reactivated",  # nobody sends what happens to a hidden account
        "overflow",  # more came than could wait
        "gap",  # the source lost events: the repo may be as it was
        "moved",  # what was refused under an older document may have been true
        "asked",  # the shell wants it
    ]
)


@dataclass(frozen=True, slots=True)
class RepoState:
    """What is known of a repo: the last commit that is applied, and whether that is all there is.

    `undecided`: something came after it that waits, or that was refused by a key that may be old.
    """

    rev: str | None = None
    data: bytes | None = None
    sync: SyncState = "unknown"
    active: bool = True
    status: str | None = None
    undecided: bool = False
    ahead: str | None = None  # the highest rev of which a single record was applied
    pds: str | None = None  # the account's host

    @property
    def reached(self) -> str | None:
        """The highest rev of which anything was applied."""
        return max(filter(None, (self.rev, self.ahead)), default=None)


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply a proven commit. Without operations only the rev moves."""

    commit: ProvenCommit


@dataclass(frozen=True, slots=True)
class ApplyRecord:
    """Apply one record as of its rev, ahead of the repo's chain."""

    state: RecordState


@dataclass(frozen=True, slots=True)
class Prove:
    """Ask the account's host for a record and call `proven`."""

    did: Did
    collection: Nsid
    rkey: RecordKey


@dataclass(frozen=True, slots=True)
class Compare:
    """Ask the account's host how far its repo is, and have the repo fetched where that is further: news of it
    may have been lost. Nothing waits for that."""

    did: Did


@dataclass(frozen=True, slots=True)
class FetchIdentity:
    """Resolve the DID and call `identity_resolved`; `force`: past any cache."""

    did: Did
    force: bool


@dataclass(frozen=True, slots=True)
class Resync:
    """Fetch the whole repo, apply it, and call `resynced` with the same `attempt`."""

    did: Did
    reason: ResyncReason
    attempt: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Call `turn` once others had theirs: a heavy event of the repo waits."""

    did: Did


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """Hide or show what the account has."""

    did: Did
    active: bool
    status: str | None


@dataclass(frozen=True, slots=True)
class Purge:
    """Remove what the account had: its own host says that it is gone."""

    did: Did


@dataclass(frozen=True, slots=True)
class ConfirmStatus:
    """Ask the account's host for its status and call `account_confirmed`."""

    did: Did


@dataclass(frozen=True, slots=True)
class IdentityChanged:
    """Forget what is cached of the DID document."""

    did: Did


@dataclass(frozen=True, slots=True)
class Untracked:
    """News of our namespace in a repo that is not tracked: unproven. Decide whether to track it."""

    did: Did
    commit: CommitEvent | ClaimEvent


@dataclass(frozen=True, slots=True)
class Drop:
    """Count an event that came to nothing."""

    did: Did
    reason: Reason
    detail: str = ""


Command = (
    Apply
    | ApplyRecord
    | Prove
    | Compare
    | FetchIdentity
    | Resync
    | Turn
    | AccountStatus
    | Purge
    | ConfirmStatus
    | IdentityChanged
    | Untracked
    | Drop
)
