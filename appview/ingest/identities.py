"""Who an account is: what its document says, as of when, and what is doubted until that is known. Pure.

An answer says what a document held at an instant: when it was asked for (`Dated.asked_at`). So an event is
refused for certain only by a document that was asked for after the event had come. Where that cannot
be had now, the event is refused, and suspected to have been true: another look is owed, and if the document
has changed by then, the repo is fetched whole. An instant ahead of the clock, which was put back since,
settles nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.ingest.commands import ConfirmStatus, Drop, IdentityChanged
from appview.ingest.tracked import Doubted

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.identity.resolver import Dated
    from appview.ingest.accounts import Accounts
    from appview.ingest.commands import Command, ResyncReason
    from appview.ingest.errors import Rejected
    from appview.ingest.refreshes import Refreshes
    from appview.ingest.tracked import RepoNews, TrackedRepo
    from appview.ingest.waiting import WaitingRoom


class Identities:
    """Judges documents, and what waits for them. `resync` has a repo fetched; `drain` judges what waits."""

    def __init__(
        self,
        refreshes: Refreshes,
        waiting: WaitingRoom,
        accounts: Accounts,
        resync: Callable[[TrackedRepo, ResyncReason], list[Command]],
        drain: Callable[[TrackedRepo, int], list[Command]],
    ) -> None:
        self._refreshes = refreshes
        self._waiting = waiting
        self._accounts = accounts
        self._resync = resync
        self._drain = drain

    def changed(self, repo: TrackedRepo, host: str | None, now: int) -> list[Command]:
        """Take note that a document is said to have changed, by a host or (None) a relay."""
        if repo.is_foreign(host):  # the account may have moved there, and if not, nothing waits for it
            return [*self._refreshes.want(repo, now)]
        commands: list[Command] = [IdentityChanged(repo.did)]
        if host is not None and repo.pds is None:  # commits wait for the first document, if for any
            repo.changed_at = now if repo.fetching else repo.changed_at
            return commands
        repo.changed_at = now
        if not self._refreshes.may(repo, now):
            self._refreshes.owe(repo, now)
            return commands
        repo.awaits_identity = True
        return commands if repo.fetching else [*commands, self._refreshes.start(repo, now)]

    def need(self, repo: TrackedRepo, now: int) -> list[Command]:
        """Have commits wait for a document."""
        repo.awaits_identity = True
        if repo.fetching or self._refreshes.is_owed(repo):
            return []
        return [self._refreshes.start(repo, now, force=repo.key is not None)]

    def doubt(
        self, repo: TrackedRepo, event: RepoNews, host: str | None, error: Rejected, now: int
    ) -> list[Command]:
        """Have the document looked at before an event is refused; refuse it where that was just done."""
        commands: list[Command] = []
        if repo.rekeyed and error.reason == "bad-signature":
            repo.rekeyed = False
            refusal = Drop(repo.did, error.reason, error.detail)
            return [*self._suspect(repo, host, error, now), refusal, *self._resync(repo, "moved")]
        if not repo.fetching and self._refreshes.may(repo, now):
            commands.append(self._refreshes.start(repo, now))
        if repo.fetching and self._waiting.lay_aside(repo, Doubted(event, host, error, now)):
            return commands
        commands += self._suspect(repo, host, error, now)
        return [*commands, Drop(repo.did, error.reason, error.detail)]

    def suspect(self, repo: TrackedRepo, now: int, host: str | None = None) -> list[Command]:
        """Look whether the document has changed, and fetch the repo if so; `host`: if it is this one now."""
        if host is None:
            repo.suspected_at = now
        else:
            repo.strays[host] = now
        return [*self._refreshes.want(repo, now)]

    def resolved(self, repo: TrackedRepo, outcome: Dated | Exception, now: int) -> list[Command]:
        """Take the answer to `FetchIdentity`."""
        repo.fetching = False
        if isinstance(outcome, Exception):
            self._refreshes.failed(repo, now)
            return []
        identity, as_of = outcome.identity, outcome.asked_at if outcome.asked_at <= now else 0
        repo.identity_failures = 0
        repo.changed_at = _left(repo.changed_at, as_of, now)
        if repo.changed_at is not None and self._refreshes.may(repo, now):
            return [self._refreshes.start(repo, now)]
        is_first, was_hidden = repo.key is None, not repo.active
        has_moved = repo.pds != identity.pds and not (is_first and repo.pds is None)
        changed = has_moved or (not is_first and repo.key != identity.key)
        repo.rekeyed = changed and not is_first and bool(repo.waiting or repo.aside)
        missed = identity.pds in repo.strays or (changed and repo.suspected_at is not None)
        repo.key, repo.pds, repo.resolved_at = identity.key, identity.pds, as_of or now
        repo.awaits_identity = False
        commands = self._accounts.judge(repo, as_of, now)
        self._settle(repo, as_of, now)
        if changed and not is_first and was_hidden and not repo.active:
            # Its former host may have hidden it, and not have the last word.
            commands.append(ConfirmStatus(repo.did))
        elif missed and repo.active:
            commands += self._resync(repo, "moved")
        commands += self._judge_aside(repo, as_of, now, changed=changed or is_first)
        return commands + self._drain(repo, now)

    def _suspect(self, repo: TrackedRepo, host: str | None, error: Rejected, now: int) -> list[Command]:
        return self.suspect(repo, now, host if error.reason == "wrong-host" else None)

    def _settle(self, repo: TrackedRepo, as_of: int, now: int) -> None:
        """Suspect no more what came before the document was asked for; owe another look for the rest."""
        repo.suspected_at = _left(repo.suspected_at, as_of, now)
        for host, at in list(repo.strays.items()):
            if host == repo.pds or _left(at, as_of, now) is None:
                del repo.strays[host]
        if repo.suspected_at is not None or repo.changed_at is not None or repo.strays or repo.words:
            self._refreshes.owe(repo, now)

    def _judge_aside(self, repo: TrackedRepo, as_of: int, now: int, *, changed: bool) -> list[Command]:
        """Judge what was laid aside anew where the document has changed; otherwise refuse it."""
        aside = self._waiting.take_aside(repo)
        if not repo.active:
            return []
        commands: list[Command] = []
        for doubted in reversed(aside):
            if changed and not repo.is_foreign(doubted.host):
                self._waiting.add(repo, doubted.event, doubted.host, first=True)
                continue
            if _left(doubted.came_at, as_of, now) is not None:
                commands += self._suspect(repo, doubted.host, doubted.error, now)
            commands.append(Drop(repo.did, doubted.error.reason, doubted.error.detail))
        return commands


def _left(at: int | None, as_of: int, now: int) -> int | None:
    """Give the instant of a doubt that a document does not settle, because it was asked for before."""
    return at if at is not None and as_of < at <= now else None
