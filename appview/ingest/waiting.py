"""Events that cannot be judged yet, in order: bounded by number and bytes, a repo and in all.

Each repo has a queue of what waits, where what is more than there is room for is not kept: the highest rev of
it is, so that the repo is fetched whole. Apart from it, and bounded apart, is what was laid aside because it
may be anybody's: that takes no room from what waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.ingest.tracked import size_of

if TYPE_CHECKING:
    from appview.ingest.tracked import Doubted, RepoNews, TrackedRepo

MAX_WAITING_EVENTS: Final = 1_000  # ours, a repo
MAX_WAITING_BYTES: Final = 8_000_000  # ours, a repo: four commits of the largest size
MAX_WAITING_TOTAL: Final = 64_000_000  # ours, bytes of all repos
MAX_ASIDE_EVENTS: Final = 200  # ours, a repo
MAX_ASIDE_BYTES: Final = 4_000_000  # ours, a repo
MAX_ASIDE_TOTAL: Final = 16_000_000  # ours, bytes of all repos


class WaitingRoom:
    """Keeps the queues of all repos in bounds."""

    def __init__(self) -> None:
        self.bytes = 0
        self.aside_bytes = 0

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

    def lay_aside(self, repo: TrackedRepo, doubted: Doubted) -> bool:
        """Keep an event that may be anybody's; false where there is no room."""
        size = size_of(doubted.event)
        if (
            len(repo.aside) >= MAX_ASIDE_EVENTS
            or repo.aside_bytes + size > MAX_ASIDE_BYTES
            or self.aside_bytes + size > MAX_ASIDE_TOTAL
        ):
            return False
        repo.aside.append(doubted)
        self._weigh_aside(repo, size)
        return True

    def take_aside(self, repo: TrackedRepo) -> list[Doubted]:
        """Give all that was laid aside of a repo, oldest first."""
        taken = list(repo.aside)
        repo.aside.clear()
        self._weigh_aside(repo, -repo.aside_bytes)
        return taken

    def clear(self, repo: TrackedRepo) -> None:
        """Let nothing of a repo wait any more."""
        repo.waiting.clear()
        self._weigh(repo, -repo.waiting_bytes)

    def _weigh_aside(self, repo: TrackedRepo, size: int) -> None:
        repo.aside_bytes += size
        self.aside_bytes += size

    def _weigh(self, repo: TrackedRepo, size: int) -> None:
        repo.waiting_bytes += size
        self.bytes += size
