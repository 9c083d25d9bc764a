"""What is said of accounts: that one is hidden, back, or gone, and who may say so. Pure.

A relay's word hides; only the account's own host ends it, and a host that is not the account's says nothing.
Whether it is, its document says. Until that is known, what each host said last is kept, and the host that was
the account's when this program last ran hides it at once.

An account that goes is hidden at once, and what is its own host's to end ends at once. How often it may come
back, or be hidden for another reason, is limited: beyond that the last word counts, when the minute is over.

An account whose own host sends its commits is not hidden there: the host is asked, at most once a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.ingest.commands import AccountStatus, ConfirmStatus, Drop, Purge
from appview.ingest.pace import SECOND, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from appview.ingest.commands import Command, ResyncReason
    from appview.ingest.frames import AccountEvent
    from appview.ingest.refreshes import Refreshes
    from appview.ingest.tracked import TrackedRepo
    from appview.ingest.waiting import WaitingRoom
    from lexicons.syntax import Did

# What the network says of an account that is not active. Source: com.atproto.sync.subscribeRepos#account.
STATUSES: Final = frozenset(
    {"takendown", "suspended", "deleted", "deactivated", "desynchronized", "throttled", "inactive"}
)
CHANGES: Final = 3  # ours: of one account in `CHANGES_INTERVAL`; what is said then is done when that is over
CHANGES_INTERVAL: Final = 60 * SECOND
OTHER: Final = "other"  # anything else: words of strangers are not kept, nor counted by


class Accounts:
    """Judges what is said of accounts. `resync` has a repo fetched."""

    def __init__(
        self,
        refreshes: Refreshes,
        waiting: WaitingRoom,
        resync: Callable[[TrackedRepo, ResyncReason], list[Command]],
    ) -> None:
        self._refreshes = refreshes
        self._waiting = waiting
        self._resync = resync
        self._later: dict[Did, int] = {}
        self._questions = Pace()

    def receive(self, repo: TrackedRepo, event: AccountEvent, host: str | None, now: int) -> list[Command]:
        """Take what a host says, or (None) a relay."""
        if host is None or (host == repo.pds and repo.key is not None):
            if host is not None:
                repo.words.pop(host, None)
            return self.set(repo, event.active, event.status, now, confirmed=host is not None)
        repo.words[host] = event, now  # as many as there are sources of this kind, at most
        commands: list[Command] = []
        if host == repo.pds and not event.active:
            repo.hidden_by = host
            commands += self.set(repo, False, event.status, now, confirmed=False)
        if repo.key is not None:
            commands += self._refreshes.want(repo, now)
        elif not repo.fetching and not self._refreshes.is_owed(repo):
            commands.append(self._refreshes.start(repo, now, force=False))
        return commands

    def contradict(self, repo: TrackedRepo, host: str | None, now: int) -> list[Command]:
        """Take note of news of a hidden account: its own host would have none."""
        if host is None or host != repo.pds or not self._questions.take(repo.did, now):
            return []
        return [ConfirmStatus(repo.did)]

    def judge(self, repo: TrackedRepo, as_of: int, now: int) -> list[Command]:
        """Take, or refuse, what hosts said when they were not known to be the account's. What came later than
        the instant as of which the document speaks is kept."""
        commands: list[Command] = []
        hidden_by, repo.hidden_by = repo.hidden_by, None
        words, repo.words = repo.words, {}
        for host, (event, came_at) in words.items():
            if host == repo.pds:
                commands += self.set(repo, event.active, event.status, now, confirmed=True)
            elif as_of < came_at <= now:
                repo.words[host] = event, came_at
            else:
                commands.append(Drop(repo.did, "wrong-host", f"from {host}"))
        if hidden_by not in (None, repo.pds) and not repo.active:
            commands.append(ConfirmStatus(repo.did))
        return commands

    def set(
        self, repo: TrackedRepo, active: bool, status: str | None, now: int, *, confirmed: bool
    ) -> list[Command]:
        """Make an account be as is said, soon; `confirmed`: by its own host."""
        if active or not status:
            status = None
        elif status not in STATUSES:
            status = OTHER
        ends = status == "deleted" and confirmed and not repo.ended
        hides = repo.active and not active
        repo.later = None
        self._later.pop(repo.did, None)
        if (repo.active, repo.status) == (active, status) and not ends:
            return []
        if not hides and not ends and not self._has_turn(repo, now):
            repo.later = active, status, confirmed
            return []
        was_active, repo.active, repo.status = repo.active, active, status
        commands: list[Command] = [AccountStatus(repo.did, active, status)]
        if not active:
            self._waiting.clear(repo)
            self._waiting.take_aside(repo)
            repo.claims.give_up()  # what was proven stays: no host that lags may be believed over it later
            repo.busy = repo.resyncing = repo.resync_again = False
            repo.overflowed = repo.incomplete = None  # it is fetched whole when it is back
            repo.sync = "desynchronized"
            if ends:
                repo.ended = True
                repo.rev = repo.data = None
                repo.claims.clear()
                commands.append(Purge(repo.did))
            elif status == "deleted" and not confirmed:
                commands.append(ConfirmStatus(repo.did))
            if repo.ended:
                repo.sync = "unknown"
        elif not was_active:
            repo.ended = False
            commands += self._resync(repo, "reactivated")
        return commands

    def _has_turn(self, repo: TrackedRepo, now: int) -> bool:
        """Take a turn, or tell when the next one is."""
        while repo.changes and not 0 <= now - repo.changes[0] < CHANGES_INTERVAL:
            repo.changes.popleft()
        if len(repo.changes) < CHANGES:
            repo.changes.append(now)
            return True
        self._later[repo.did] = repo.changes[0] + CHANGES_INTERVAL
        return False

    def tick(self, repos: Mapping[Did, TrackedRepo], now: int) -> list[Command]:
        """Make accounts be as was said last, and ask what was to be asked."""
        commands: list[Command] = []
        for did in [did for did, due in self._later.items() if not now < due <= now + CHANGES_INTERVAL]:
            repo = repos[did]
            if repo.later is not None:
                active, status, confirmed = repo.later
                commands += self.set(repo, active, status, now, confirmed=confirmed)
        for did in self._questions.due(now):
            self._questions.take(did, now)
            commands += [] if repos[did].active else [ConfirmStatus(did)]
        return commands

    def forget(self, did: Did) -> None:
        """Put nothing off any more."""
        self._later.pop(did, None)
        self._questions.forget(did)
