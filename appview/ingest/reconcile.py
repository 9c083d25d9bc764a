"""What is followed against what should be: spaces and rules on one side, repos and what was filled on the
other.

Run at the start, when a space has come, when the rules have changed, and when another process (the command
line) has changed control.db. A pair (space, author) that has come is filled from the author's whole repo;
from one that is gone, all that the author had there is removed. Where an author may write less than before,
what is outside leaves at once; where it may write more, the pair is filled again. A space that the operator
has hidden keeps its file, for the day it is admitted again. Where everyone may write, strangers come by what
they write (see `strangers`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from appview.control import RepoRow
from appview.errors import AppviewError, StoreError
from appview.ingest.roster import Roster, build, mark
from appview.ingest.strangers import Strangers
from appview.memory.scope import reads_attributes
from appview.memory.values import Removal, Visibility
from appview.sqlite import is_beyond_use

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from appview.access.access import Access
    from appview.clock import Clock
    from appview.control import Control
    from appview.ingest.claims import ClaimEvent
    from appview.ingest.committer import Committer
    from appview.ingest.declarations import Declarations
    from appview.ingest.frames import CommitEvent
    from appview.ingest.pipeline import Pipeline
    from appview.ingest.repairs import Repairs
    from appview.memory.pool import SpacePool
    from appview.memory.scope import Scope
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

POLL_SECONDS: Final = 0.25  # how soon a change by the command line is seen
STRANGERS_SECONDS: Final = 2.0  # from one look to the next for those who come uncalled, however many
RETRY_SECONDS: Final = 5.0
WITHDRAWN_AT_ONCE: Final = 500  # ours, authors a transaction

log = structlog.get_logger(__name__)


class Reconciler:
    """Keeps the pipeline to what control.db says."""

    def __init__(
        self,
        control: Control,
        access: Access,
        pool: SpacePool,
        committer: Committer,
        pipeline: Pipeline,
        declarations: Declarations,
        repairs: Repairs,
        clock: Clock,
    ) -> None:
        self._control = control
        self._access = access
        self._pool = pool
        self._committer = committer
        self._pipeline = pipeline
        self._declarations = declarations
        self._repairs = repairs
        self._clock = clock
        self._named: frozenset[Did] = frozenset()  # whom rules name, and the authorities
        self.strangers = Strangers(lambda: access.rules, clock)
        self._wanted = asyncio.Event()  # readers wait
        self.standings_changed: Callable[[], None] = lambda: None
        access.withheld.wake = self._wanted.set

    async def run(self) -> None:
        """Look for changes, until cancelled."""
        seen: tuple[int, int] | None = None  # what changed since the first look has to be looked for
        loop, patience = asyncio.get_running_loop(), 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wanted.wait()
            self._wanted.clear()
            try:
                version = await self._version()
                strangers = self.strangers.noticed and loop.time() >= patience
                if version != seen or self._repairs.asked or strangers:
                    await self._committer.flush()  # here, where nobody waits for it: a space may take long
                    async with self._pipeline.lock:
                        await self.reconcile()
                    seen, patience = version, loop.time() + STRANGERS_SECONDS
            except AppviewError as error:
                log.error("cannot follow control.db, trying again", error=str(error), hint=error.hint)
                seen = None
                await asyncio.sleep(RETRY_SECONDS)

    async def _version(self) -> tuple[int, int]:
        """Read what changes when other processes change control.db, and when this one changes the rules."""
        return await self._control.data_version(), self._access.version

    async def reconcile(self) -> None:
        """Follow whom spaces and rules name, and no one else. The pipeline's lock is held."""
        pipeline = self._pipeline
        await self._committer.flush()
        await self._access.refresh()
        spaces = await self._control.spaces()
        _, rules = await self._control.rules()
        rows = {row.did: row for row in await self._control.repos()}
        await self._repairs.carry_out(spaces, self._committer, self._pipeline, self._writable)
        filled = await self._control.memberships()
        filled_by = await self._control.marks()
        known = [space.uri for space in spaces]
        before, in_force = pipeline.roster, self._access.rules
        self._named = build(known, rules, self._access.writers, self._writable).followed
        unexplained = rows.keys() - pipeline.rows.keys()
        strangers = self.strangers.writers(known, filled, self._named, unexplained)
        pipeline.roster = build(
            known,
            rules,
            lambda space: self._access.writers(space) | strangers.get(space, set()),
            self._writable,
        )
        if pipeline.roster.standings != before.standings:
            self.standings_changed()
        wanted = pipeline.roster.pairs
        pipeline.marks = await self._marks(pipeline.roster)
        for did in pipeline.roster.followed - pipeline.rows.keys():
            await pipeline.follow(rows.get(did) or RepoRow(did, self._clock()))
        for did, row in rows.items():
            if did not in pipeline.rows:
                await pipeline.follow(row)  # it seemed to declare a space when the program ended
            elif row.sync_state == "pending" and pipeline.rows[did].sync_state != "pending":
                await self._compare(did)  # the command line asks for it
        lacking: list[tuple[SpaceUri, Did]] = []
        shrunk: defaultdict[tuple[SpaceUri, Scope], list[Did]] = defaultdict(list)
        for space, did in wanted:
            pair = (space, did)
            if filled.get(pair) == "synced" and filled_by[pair] == pipeline.marks[pair]:
                continue
            scope = pipeline.roster.of(did)[space]
            if filled.get(pair) == "synced" or (pair in filled and before.of(did).get(space) != scope):
                shrunk[space, scope].append(did)
            lacking.append(pair)
        for (space, scope), dids in shrunk.items():
            for start in range(0, len(dids), WITHDRAWN_AT_ONCE):
                await self._withdraw(space, dids[start : start + WITHDRAWN_AT_ONCE], scope)
        for space, did in lacking:
            await self.fill(space, did, known_pair=(space, did) in filled)
        for space, did in filled.keys() - wanted:
            if space in known:
                await self._empty(space, did)
        self._access.withheld.follow(in_force)

    async def _marks(self, roster: Roster) -> dict[tuple[SpaceUri, Did], str]:
        """Mark, for each pair, what decides which records count; most authors may write the same."""
        known: dict[tuple[SpaceUri, Scope], str] = {}
        marks = {}
        for did, scopes in roster.scopes.items():
            for space, scope in scopes.items():
                if (space, scope) not in known:
                    known[space, scope] = mark(scope, await self._path_tags(space, scope))
                marks[space, did] = known[space, scope]
        return marks

    def _writable(self, did: Did, space: SpaceUri) -> Scope:
        return self._access.authors(space).of(did)

    async def notice(self, did: Did, event: CommitEvent | ClaimEvent) -> bool:
        """Have a stranger followed that has written where everyone may. The lock is held."""
        with suppress(AppviewError):  # `run` tells of it; the rules of before stay in force
            await self._access.refresh()
        refused = self.strangers.refused
        if not self.strangers.notice(did, event):
            if self.strangers.refused > refused:
                self._pipeline.reject("too many strangers", did, "it writes where everyone may")
            return False
        if did not in self._pipeline.rows:
            self._committer.note(RepoRow(did, self._clock()))  # on disk before the cursor passes the event
        return True

    def is_stranger(self, did: Did) -> bool:
        """Tell whether an account is followed only for what it writes where everyone may."""
        return did in self._pipeline.roster.followed and did not in self._named

    async def dismiss(self, did: Did) -> None:
        """Stop following a stranger, unless it has something by now. The lock is held."""
        await self._committer.flush()
        roster = self._pipeline.roster
        for space in roster.of(did):
            if self._pool.exists(space):
                async with self._pool.use(space) as store:
                    if await store.live(did):
                        return
        for space in roster.of(did):
            await self._control.delete_membership(space, did)
        scopes = {author: spaces for author, spaces in roster.scopes.items() if author != did}
        self._pipeline.roster = Roster(scopes, roster.followed - {did}, roster.standings)
        self.strangers.dismiss(did)
        log.info("a stranger has written nothing that counts", did=did)
        await self.forget(did)

    async def _compare(self, did: Did) -> None:
        """Fetch a repo whole, whatever is thought of it."""
        pipeline = self._pipeline
        state = pipeline.engine.state(did)
        if state is not None and state.sync == "synchronized":
            await pipeline.carry_out(pipeline.engine.desynchronize(did))
        pipeline.note(did, retry_at=self._clock())
        pipeline.wanted(did)

    async def fill(self, space: SpaceUri, did: Did, *, known_pair: bool) -> None:
        """Hold a space back from an author's commits until it has the author's repo. The lock is held."""
        if not known_pair:
            await self._control.put_membership(space, did, "pending")
        if (space, did) in self._pipeline.settling:
            return
        state = self._pipeline.engine.state(did)
        if state is not None:
            gone = state.status == "deleted" and state.rev is None
            self._committer.add({space: Removal(did) if gone else Visibility(did, not state.active)}, 0)
        self._pipeline.pending.begin(did, space, state.reached if state is not None else None)
        self._pipeline.wanted(did)

    async def _withdraw(self, space: SpaceUri, authors: Sequence[Did], scope: Scope) -> None:
        """Take out at once what authors may not write any more, who may all write the same now."""

        async def work() -> None:
            gone = 0
            try:
                async with self._pool.use(space) as store:
                    gone = await store.withdraw(authors, scope)
            except StoreError as error:
                await self._give_up(space, error)
            await self._control.begin_refill(space, authors)
            log.info("rights of authors change", space=space, authors=len(authors), withdrawn=gone)

        await self._committer.insist(work)

    async def _path_tags(self, space: SpaceUri, scope: Scope) -> Sequence[object]:
        """Read what besides rules decides whether a scope has a record."""
        if not reads_attributes(scope) or not self._pool.exists(space):
            return ()
        try:
            async with self._pool.use(space) as store:
                return await store.path_tags()
        except StoreError as error:
            await self._give_up(space, error)
            return ()

    async def _give_up(self, space: SpaceUri, error: StoreError) -> None:
        """Have a file that is beyond use put right; raise where it is something else."""
        if not is_beyond_use(error):
            raise error
        await self._repairs.ask(space, error)

    async def _empty(self, space: SpaceUri, did: Did) -> None:
        log.info("author leaves space", space=space, author=did)
        self._pipeline.pending.drop(did, space)

        await self._committer.flush()
        await self._committer.insist(partial(self._remove, space, did))
        await self._control.delete_membership(space, did)
        if did not in self._pipeline.roster.followed:
            await self.forget(did)

    async def forget(self, did: Did) -> None:
        """Stop following an account that nothing names any more. The lock is held."""
        self._pipeline.unfollow(did)
        await self._committer.flush()
        await self._control.delete_repo(did)

    async def _remove(self, space: SpaceUri, did: Did) -> None:
        try:
            async with self._pool.use(space) as store:
                await store.remove_author(did)
        except StoreError as error:
            await self._give_up(space, error)
        await self._control.put_membership(space, did, "pending")
