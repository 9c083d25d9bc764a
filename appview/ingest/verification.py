"""Proving what is served: each author's repo is fetched, proven and compared with every space it feeds, and
what a space holds with what readers of everything are shown.

A server may be running meanwhile. So a difference counts only when it is still there after the server had
time to come as far as the repo that was fetched, and after the repo was fetched once more.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from appview.errors import AppviewError, StoreError
from appview.ingest.comparison import BY_REPO, Difference, compare
from appview.ingest.errors import RepoInactive
from appview.ingest.fetch import is_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from appview.access.access import Access
    from appview.clock import Clock
    from appview.control import Control, RepairKind, SpaceRow
    from appview.ingest.fetch import RepoFetcher
    from appview.ingest.whole import RoutedRepo
    from appview.memory.pool import SpacePool
    from appview.memory.store import SpaceStore
    from appview.memory.values import Change
    from appview.memory.writer import Version
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

ROUNDS: Final = 3  # looks at one author, before a difference is believed
PATIENCE_SECONDS: Final = 10.0  # that a running server gets to come as far as the fetched repo
POLL_SECONDS: Final = 0.1
AUTHORS_AT_ONCE: Final = 8

State = Literal["equal", "different", "unreachable"]


@dataclass(frozen=True, slots=True)
class AuthorReport:
    """One author in one space. `records` counts those of the repo that belong there."""

    space: SpaceUri
    did: Did
    state: State
    rev: str | None = None
    records: int = 0
    status: str = "active"
    differences: tuple[Difference, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SpaceReport:
    """One space: its authors, and what is wrong inside its file whatever the repos hold."""

    space: SpaceUri
    authors: tuple[AuthorReport, ...]
    findings: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.findings) or any(author.differences for author in self.authors)

    @property
    def unreachable(self) -> int:
        """How many authors could not be compared."""
        return sum(author.state == "unreachable" for author in self.authors)

    @property
    def equal(self) -> bool | None:
        """Whether everything is as in the repos; None where that is not proven, nor that it is not."""
        return False if self.differs else None if self.unreachable else True


class Verifier:
    """Verifies spaces beside a server, or without one (`serving`)."""

    def __init__(
        self,
        control: Control,
        access: Access,
        pool: SpacePool,
        fetcher: RepoFetcher,
        clock: Clock,
        *,
        serving: bool,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._control = control
        self._access = access
        self._pool = pool
        self._fetcher = fetcher
        self._clock = clock
        self._serving = serving
        self._patience = patience

    async def verify(
        self, spaces: Iterable[SpaceRow], done: Callable[[int, int], None] = lambda _done, _all: None
    ) -> list[SpaceReport]:
        """Compare spaces with their authors' repos. `done` hears how many authors of how many are done."""
        rows = list(spaces)
        writers = await self._writers(row.uri for row in rows)
        authors = sorted({did for dids in writers.values() for did in dids})
        slots, finished = asyncio.Semaphore(AUTHORS_AT_ONCE), 0
        reports: dict[SpaceUri, list[AuthorReport]] = {row.uri: [] for row in rows}

        async def one(did: Did) -> None:
            nonlocal finished
            async with slots:
                for report in await self._author(did, [row for row in rows if did in writers[row.uri]]):
                    reports[report.space].append(report)
            finished += 1
            done(finished, len(authors))

        async with asyncio.TaskGroup() as group:
            for did in authors:
                group.create_task(one(did))
        result = []
        for row in rows:
            strangers, findings = await self._inside(row.uri, writers[row.uri])
            everyone = sorted([*reports[row.uri], *strangers], key=lambda report: report.did)
            result.append(SpaceReport(row.uri, tuple(everyone), findings))
        return result

    async def ask_for_repairs(self, reports: Sequence[SpaceReport]) -> None:
        """Note in control.db what is to be put right; whoever runs ingest on the folder does it."""
        now = self._clock()
        compared: set[Did] = set()
        writers = await self._writers(report.space for report in reports)
        for report in reports:
            wrong: RepairKind | None = "mend" if report.findings else None
            for author in report.authors:
                if any(each.kind not in BY_REPO for each in author.differences):
                    wrong = "rebuild"
                if not author.differences:
                    continue
                if author.did not in writers[report.space]:
                    wrong = "rebuild"
                    continue
                await self._control.put_membership(report.space, author.did, "pending")
                if author.did not in compared:
                    compared.add(author.did)
                    await self._control.compare_repo(author.did, now)
            if wrong is not None:
                await self._control.ask_repair(report.space, wrong, now)

    async def _writers(self, spaces: Iterable[SpaceUri]) -> dict[SpaceUri, frozenset[Did]]:
        """Tell who may write to spaces: whom rules name, and who came because everyone may."""
        known = self._access.known_writers
        return {space: known(space, await self._control.authors(space)) for space in spaces}

    async def until_repaired(self, reports: Sequence[SpaceReport], seconds: float) -> bool:
        """Wait until what was asked for is done; false where it is not after so long."""
        spaces = {report.space for report in reports if report.differs}
        try:
            async with asyncio.timeout(seconds):
                while await self._is_pending(spaces):  # noqa: ASYNC110 - another process does it
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            return False
        return True

    async def _is_pending(self, spaces: set[SpaceUri]) -> bool:
        if spaces & (await self._control.repairs()).keys():
            return True
        # One that is to be asked again later has been asked; what came of it, the next look tells.
        now = self._clock()
        due = {row.did: row.retry_at is None or row.retry_at <= now for row in await self._control.repos()}
        return any(
            space in spaces and state == "pending" and due.get(did, False)
            for (space, did), state in (await self._control.memberships()).items()
        )

    async def _author(self, did: Did, rows: Sequence[SpaceRow]) -> list[AuthorReport]:
        reports: list[AuthorReport] = []
        for attempt in range(ROUNDS if self._serving else 1):
            if attempt:
                await asyncio.sleep(POLL_SECONDS)
            before = {report.space: report for report in reports}
            try:
                routed = await self._routed(did, rows)
            except RepoInactive as error:
                reports = [await self._inactive(row, did, error.status) for row in rows]
            except AppviewError as error:
                if not (is_gone(error) and await self._is_deleted(did)):
                    return [AuthorReport(row.uri, did, "unreachable", error=str(error)[:500]) for row in rows]
                reports = [await self._inactive(row, did, "deleted") for row in rows]
            else:
                if self._serving and not await self._caught_up(did, routed.rev):
                    return [_late(report) for report in await self._compare(did, rows, routed)]
                reports = await self._compare(did, rows, routed)
            reports = [_confirmed(report, before.get(report.space)) for report in reports]
            if not any(report.differences for report in reports):
                break
        return reports

    async def _is_deleted(self, did: Did) -> bool:
        """Tell whether its own host has ended an account."""
        row = await self._control.repo(did)
        return row is not None and row.status == "deleted"

    async def _caught_up(self, did: Did, rev: str) -> bool:
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    row = await self._control.repo(did)
                    if row is not None and row.rev is not None and row.rev >= rev:
                        return True
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            return False

    async def _routed(self, did: Did, rows: Sequence[SpaceRow]) -> RoutedRepo:
        scopes = {row.uri: self._access.authors(row.uri).of(did) for row in rows}
        async with self._fetcher.fetch(did) as repo:
            return await repo.route(scopes)

    async def _compare(self, did: Did, rows: Sequence[SpaceRow], routed: RoutedRepo) -> list[AuthorReport]:
        updates, rev = routed.updates, routed.rev
        reports = []
        for row in rows:
            changes: Collection[Change] = updates[row.uri].changes
            found: list[Difference] = []
            active = row.config.model if row.config is not None else None
            try:
                if not self._pool.exists(row.uri):
                    found = compare(changes, {}, {}, active)
                else:
                    async with self._pool.use(row.uri) as store:
                        changes = await store.writable(updates[row.uri])
                        indexed = await store.versions(did)
                        found = compare(changes, await store.live(did), indexed, active)
                        found += await self._unseen(store, did, indexed)
            except StoreError as error:
                reports.append(AuthorReport(row.uri, did, "unreachable", rev, error=str(error)))
                continue
            state: State = "different" if found else "equal"
            count = len(changes)
            reports.append(AuthorReport(row.uri, did, state, rev, count, differences=tuple(found)))
        return reports

    async def _unseen(self, store: SpaceStore, did: Did, indexed: Mapping[str, Version]) -> list[Difference]:
        """Find what the file holds of one who may write here, and readers of everything are not shown."""
        withheld = await self._access.withheld.authors(store.space)
        if did in withheld or await store.is_hidden(did):
            return [Difference("", "hidden")]
        shown = await store.shown(did)
        return [
            Difference(rkey, "hidden", version.cid)
            for rkey, version in sorted(indexed.items())
            if rkey not in shown
        ]

    async def _inactive(self, row: SpaceRow, did: Did, status: str) -> AuthorReport:
        async def is_shown(store: SpaceStore) -> bool:
            return not await store.is_hidden(did) and bool(await store.live(did))

        try:
            shown = False
            if self._pool.exists(row.uri):
                async with self._pool.use(row.uri) as store:
                    shown = await is_shown(store)
        except StoreError as error:
            return AuthorReport(row.uri, did, "unreachable", status=status, error=str(error))
        found = (Difference("", "shown"),) if shown else ()
        return AuthorReport(row.uri, did, "different" if found else "equal", status=status, differences=found)

    async def _inside(
        self, space: SpaceUri, writers: frozenset[Did]
    ) -> tuple[list[AuthorReport], tuple[str, ...]]:
        """Look into the file: records of those who may not write, and what the check finds."""
        if not self._pool.exists(space):
            return [], ("the space has no file",)
        try:
            async with self._pool.use(space) as store:
                strangers = []
                for did in sorted(await store.authors() - writers):
                    held = await store.live(did)
                    found = [Difference(rkey, "extra", cid) for rkey, cid in sorted(held.items())]
                    strangers.append(AuthorReport(space, did, "different", differences=tuple(found)))
                return strangers, tuple(await store.check())
        except StoreError as error:
            return [], (str(error),)


def _confirmed(report: AuthorReport, before: AuthorReport | None) -> AuthorReport:
    """Leave what was there the time before too."""
    if before is None or not report.differences:
        return report
    seen = {(each.rkey, each.kind) for each in before.differences}
    kept = tuple(each for each in report.differences if (each.rkey, each.kind) in seen)
    return replace(report, differences=kept, state="different" if kept else "equal")


def _late(report: AuthorReport) -> AuthorReport:
    if not report.differences:
        return report
    return replace(report, error="the server has not come as far as the repo")
