"""What the engine remembers of one repo."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appview.ingest.claims import Claims
from appview.ingest.frames import CommitEvent, SyncEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.identity.keys import PublicKey
    from appview.ingest.commands import SyncState
    from appview.ingest.errors import Rejected
    from appview.ingest.frames import AccountEvent
    from lexicons.syntax import Did

RepoNews = CommitEvent | SyncEvent

OP_WEIGHT: Final = 2_500  # ours, bytes of blocks that take as long to be judged as an operation, 0.2 ms
HEAVY: Final = 50_000  # ours, bytes: what takes about 4 ms to be proven and judged at worst


@dataclass(frozen=True, slots=True)
class Doubted:
    """An event that is judged once the document was looked at, after it came."""

    event: RepoNews
    host: str | None
    error: Rejected
    came_at: int


@dataclass(slots=True)
class TrackedRepo:
    """One repo, as the engine knows it."""

    did: Did
    rev: str | None
    data: bytes | None
    sync: SyncState
    active: bool
    status: str | None
    pds: str | None = None  # as the document says, or said when this program last ran
    key: PublicKey | None = None
    resolved_at: int = 0  # as of when key and PDS were told
    awaits_identity: bool = False  # commits wait for a document
    fetching: bool = False  # a `FetchIdentity` is not answered yet
    identity_failures: int = 0
    refreshed_at: int | None = None  # the last forced refresh
    rekeyed: bool = False  # the key has changed while what waits was on its way: that may be signed by either
    changed_at: int | None = None  # the document is said to have changed then, and is of before
    looked_early_at: int | None = None  # the last resync for a rev that was ahead of the time
    suspected_at: int | None = None  # what was refused, or applied, then may be otherwise under a newer one
    strays: dict[str, int] = field(default_factory=dict)  # hosts whose news was refused, and when
    incomplete: int | None = None  # news of it may have been lost: the number of that doubt
    busy: bool = False  # what waits first is heavy and has its turn still to come
    resyncing: bool = False
    resync_again: bool = False  # something was lost while the repo was fetched
    attempt: int = 0
    waiting: deque[tuple[RepoNews, str | None]] = field(default_factory=deque)
    waiting_bytes: int = 0
    overflowed: str | None = None  # the highest rev that could not wait
    aside: deque[Doubted] = field(default_factory=deque)
    aside_bytes: int = 0
    claims: Claims = field(default_factory=Claims)
    # Of hosts that may be the account's by now, and when they came.
    words: dict[str, tuple[AccountEvent, int]] = field(default_factory=dict)
    ended: bool = False  # its own host has said so, since it was last active
    changes: deque[int] = field(default_factory=deque)  # when its status changed, but for what hides it
    later: tuple[bool, str | None, bool] | None = None  # what it is to be: active, status, confirmed
    hidden_by: str | None = None  # a host that was the account's, when this is not known any more

    @property
    def undecided(self) -> bool:
        return (
            bool(self.waiting or self.aside or self.strays or self.words or self.claims.proving)
            or self.overflowed is not None
            or self.later is not None
            or self.suspected_at is not None
            or self.incomplete is not None
        )

    @property
    def blocked(self) -> bool:
        return self.awaits_identity or self.resyncing or self.busy

    def is_foreign(self, host: str | None) -> bool:
        """Tell whether a host that speaks for itself is, as far as is known, not the account's."""
        return host is not None and self.pds is not None and host != self.pds


def size_of(event: RepoNews) -> int:
    """Give about how many bytes an event takes while it waits."""
    ops: Iterable[str] = [op.path for op in event.ops] if isinstance(event, CommitEvent) else ()
    return len(event.blocks) + sum(map(len, ops)) + 500


def weight_of(event: RepoNews) -> int:
    """Tell how long it takes to judge an event, in bytes: what many operations name is judged once."""
    ops = len(event.ops) if isinstance(event, CommitEvent) else 0
    return ops * OP_WEIGHT + len(event.blocks)
