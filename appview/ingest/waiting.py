"""Events that cannot be judged yet, in order, a queue a repo: bounded by number and bytes, a repo and in all.

What is more than that is not kept: the highest rev of it is, so that the repo is fetched whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.ingest.tracked import size_of

if TYPE_CHECKING:
    from appview.ingest.tracked import RepoNews, TrackedRepo

MAX_WAITING_EVENTS: Final = 1_000  # ours, a repo
MAX_WAITING_BYTES: Final = 8_000_000  # ours, a repo: four commits of the largest size
MAX_WAITING_TOTAL: Final = 64_000_000  # ours, bytes of all repos


class WaitingRoom:
    """Keeps the queues of all repos in bounds."""

    def __init__(self) -> None:
        self.bytes = 0

    def add(self, repo: TrackedRepo, event: RepoNews, host: str | None, *, first: bool = False) -> None:
        """Let an event wait, behind the others unless it is to be `first`."""
        size = size_of(event)
        if (
            len(repo.waiting) >= MAX_WAITING_EVENTS
            or repo.waiting_bytes + size > MAX_WAITING_BYTES
            or self.bytes + size > MAX_WAITING_TOTAL
        ):
            revs = [event.rev, repo.overflowed or "", *(each.rev for each, _ in repo.waiting)]
            repo.overflowed = max(revs)
            self.clear(repo)
            return
        if first:
            repo.waiting.appendleft((event, host))
        else:
            repo.waiting.append((event, host))
        self._weigh(repo, size)

    def take(self, repo: TrackedRepo) -> tuple[RepoNews, str | None]:
        """Give the first event that waits."""
        event, host = repo.waiting.popleft()
        self._weigh(repo, -size_of(event))
        return event, host

    def clear(self, repo: TrackedRepo) -> None:
        """Let nothing of a repo wait any more."""
        repo.waiting.clear()
        self._weigh(repo, -repo.waiting_bytes)

    def _weigh(self, repo: TrackedRepo, size: int) -> None:
        repo.waiting_bytes += size
        self.bytes += size
