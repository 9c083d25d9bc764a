"""What is said of accounts: that one is hidden, back, or gone, and who may say so. Pure.

A relay's word hides; only the account's own host ends it, and a host that is not the account's says nothing.
Whether it is, its document says. Until that is known, what each host said last is kept, and the host that was
the account's when this program last ran hides it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.ingest.commands import AccountStatus, ConfirmStatus, Drop, Purge

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.ingest.commands import Command, ResyncReason
    from appview.ingest.frames import AccountEvent
    from appview.ingest.refreshes import Refreshes
    from appview.ingest.tracked import TrackedRepo
    from appview.ingest.waiting import WaitingRoom

# What the network says of an account that is not active. Source: com.atproto.sync.subscribeRepos#account.
STATUSES: Final = frozenset(
    {"takendown", "suspended", "deleted", "deactivated", "desynchronized", "throttled", "inactive"}
)
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

    def receive(self, repo: TrackedRepo, event: AccountEvent, host: str | None, now: int) -> list[Command]:
        """Take what a host says, or (None) a relay."""
        if host is None or (host == repo.pds and repo.key is not None):
            if host is not None:
                repo.words.pop(host, None)
            return self.set(repo, event.active, event.status, confirmed=host is not None)
        repo.words[host] = event  # as many as there are sources of this kind, at most
        commands: list[Command] = []
        if host == repo.pds and not event.active:
            repo.hidden_by = host
            commands += self.set(repo, False, event.status, confirmed=False)
        if repo.key is not None:
            commands += self._refreshes.want(repo, now)
        elif not repo.fetching and not self._refreshes.is_owed(repo):
            commands.append(self._refreshes.start(repo, now, force=False))
        return commands

    def judge(self, repo: TrackedRepo) -> list[Command]:
        """Take, or refuse, what hosts said when they were not known to be the account's."""
        commands: list[Command] = []
        hidden_by, repo.hidden_by = repo.hidden_by, None
        words, repo.words = repo.words, {}
        for host, event in words.items():
            if host == repo.pds:
                commands += self.set(repo, event.active, event.status, confirmed=True)
            else:
                commands.append(Drop(repo.did, "wrong-host", f"from {host}"))
        if hidden_by not in (None, repo.pds) and not repo.active:
            commands.append(ConfirmStatus(repo.did))
        return commands

    def set(self, repo: TrackedRepo, active: bool, status: str | None, *, confirmed: bool) -> list[Command]:
        """Make an account be as is said; `confirmed`: by its own host."""
        if active or not status:
            status = None
        elif status not in STATUSES:
            status = OTHER
        ends = status == "deleted" and not active
        if (repo.active, repo.status) == (active, status) and not (
            ends and confirmed and repo.sync != "unknown"
        ):
            return []
        was_active, repo.active, repo.status = repo.active, active, status
        commands: list[Command] = [AccountStatus(repo.did, active, status)]
        if not active:
            self._waiting.clear(repo)
            self._waiting.take_aside(repo)
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
