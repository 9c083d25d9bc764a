"""When an account's document is looked at again: by force at most once a minute, whoever wants it. Pure.

Invariants: a look that is wanted within a minute of the last one is owed, and is had once, when the minute is
over; one that fails is tried again, with waits that double; an instant ahead of the clock, which was put
back, holds nothing up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.ingest.commands import FetchIdentity
from appview.ingest.pace import SECOND

if TYPE_CHECKING:
    from appview.ingest.tracked import TrackedRepo
    from lexicons.syntax import Did

REFRESH_INTERVAL: Final = 60 * SECOND  # sync spec: not more than one forced refresh a minute and DID
IDENTITY_RETRY: Final = 5 * SECOND  # ours: first wait after a DID could not be resolved; doubles
MAX_IDENTITY_RETRY: Final = 600 * SECOND  # ours


class Refreshes:
    """What is owed, for all repos."""

    def __init__(self) -> None:
        self._due: dict[Did, int] = {}

    @staticmethod
    def may(repo: TrackedRepo, now: int) -> bool:
        """Tell whether a document may be looked at by force now."""
        return repo.refreshed_at is None or not 0 <= now - repo.refreshed_at < REFRESH_INTERVAL

    def is_owed(self, repo: TrackedRepo) -> bool:
        """Tell whether another look will follow."""
        return repo.did in self._due

    def start(self, repo: TrackedRepo, now: int, *, force: bool = True) -> FetchIdentity:
        """Look now."""
        repo.fetching = True
        if force:
            repo.refreshed_at = now
            self._due.pop(repo.did, None)
        return FetchIdentity(repo.did, force)

    def want(self, repo: TrackedRepo, now: int) -> list[FetchIdentity]:
        """Look now, where that may be, or else when it may."""
        if self.may(repo, now) and not repo.fetching:
            return [self.start(repo, now)]
        self.owe(repo, now)
        return []

    def owe(self, repo: TrackedRepo, now: int) -> None:
        """Look when it may be."""
        due = now if self.may(repo, now) else (repo.refreshed_at or 0) + REFRESH_INTERVAL
        self._due[repo.did] = min(due, self._due.get(repo.did, due))

    def failed(self, repo: TrackedRepo, now: int) -> None:
        """Look again later: nothing was to be had."""
        self._due[repo.did] = now + min(IDENTITY_RETRY << min(repo.identity_failures, 16), MAX_IDENTITY_RETRY)
        repo.identity_failures += 1

    def due(self, now: int) -> list[Did]:
        """Tell whose documents are to be looked at now."""
        return [did for did, due in self._due.items() if not now < due <= now + MAX_IDENTITY_RETRY]

    def forget(self, did: Did) -> None:
        """Owe nothing."""
        self._due.pop(did, None)
