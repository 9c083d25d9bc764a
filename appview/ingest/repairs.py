"""Space files that are damaged or wrong: put right from what they hold, or made anew from the authors' repos.

What each file was when a cursor last moved is in control.db (`FileState`). A file that is another one, or an
older copy, is made anew like a damaged one. One that is ahead is ordinary: a crash came between its
transaction and control.db's. It can also mean that control.db is older, so its authors are looked at.

Invariants: what is asked for is in control.db before anything that the file lost can pass the cursor; a crash
anywhere makes the same repair be done again; a file is never thrown away, it is set aside beside its
successor; a file that another space or a newer program wrote is left alone, and is filled again from its
authors' repos when the right one is back, because what came meanwhile has passed it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import structlog

from appview.control_files import OUTDATED
from appview.errors import StoreDamaged, StoreError
from appview.memory.scope import digest
from appview.memory.store import examine
from appview.sqlite import is_beyond_use, is_damage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from appview.clock import Clock
    from appview.control import Control, SpaceRow
    from appview.control_files import FileState
    from appview.ingest.committer import Committer
    from appview.ingest.pipeline import Pipeline
    from appview.memory.pool import SpacePool
    from appview.memory.scope import Scope
    from appview.memory.store import SpaceStore
    from appview.memory.tags import PathTag
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

log = structlog.get_logger(__name__)


class Repairs:
    """Knows what is asked for; `carry_out` does it."""

    def __init__(self, control: Control, pool: SpacePool, clock: Clock) -> None:
        self.asked = False  # by this process, since `carry_out` last looked
        self._control = control
        self._pool = pool
        self._clock = clock
        self._damaged: set[SpaceUri] = set()  # that somebody met, and are not in control.db yet
        self._apart: set[SpaceUri] = set()  # whose files are somebody else's, and something has passed them
        self._ahead: set[SpaceUri] = set()  # whose files may know what control.db does not
        self._remade: SpaceUri | None = None  # whose file just now need not be what was noted
        pool.opened = self._look_at
        pool.failed = self._meet

    async def ask(self, space: SpaceUri, error: StoreError) -> None:
        """Have a file that is beyond use put right: made anew, or where it is somebody else's, filled again
        once the right one is back."""
        if is_damage(error):
            await self._control.ask_repair(space, "rebuild", self._clock())
            self.asked = True
        elif space not in self._apart:
            await self._control.ask_repair(space, "refill", self._clock())
            self._apart.add(space)

    async def look_at_files(self) -> None:
        """Compare the files with what was noted of them, before anybody opens a space and makes one."""
        memberships, noted = await self._control.memberships(), await self._control.files.all()
        synced = {space for (space, _), state in memberships.items() if state == "synced"}
        rows = await self._control.spaces()
        found = await asyncio.to_thread(self._examine, [row.uri for row in rows])
        for row in rows:
            space, state = row.uri, found[row.uri]
            if isinstance(state, StoreError):
                if is_beyond_use(state):
                    await self.ask(space, state)
            elif state is None:
                if space in synced or space in noted or row.config is not None:
                    await self._control.ask_repair(space, "rebuild", self._clock())
            else:
                try:
                    self._compare(space, state, noted.get(space))
                except StoreDamaged as error:
                    await self.ask(space, error)

    def _examine(self, spaces: Sequence[SpaceUri]) -> dict[SpaceUri, FileState | StoreError | None]:
        found: dict[SpaceUri, FileState | StoreError | None] = {}
        for space in spaces:
            try:
                found[space] = examine(self._pool.path(space), space)
            except StoreError as error:
                found[space] = error
        return found

    def _compare(self, space: SpaceUri, state: FileState, noted: FileState | None) -> None:
        """Tell a file that lacks something by raising, and take note of one that may know more."""
        if noted is not None and state.lacks(noted):
            raise StoreDamaged(OUTDATED)
        if state != noted:
            self._ahead.add(space)
            self.asked = True

    async def _look_at(self, store: SpaceStore) -> None:
        """Refuse a file, before anybody uses it, that is not the one that was written last."""
        space = store.space
        if space == self._remade:
            return
        noted = self._pool.written.get(space) or await self._control.files.get(space)
        try:
            self._compare(space, store.state, noted)
        except StoreDamaged as error:
            self._meet(space, error)
            raise
        if space in self._apart:
            self.asked = True  # it is right again

    def _meet(self, space: SpaceUri, error: StoreError) -> None:
        """Take note of what anybody met, a reader too."""
        if is_damage(error):
            self._damaged.add(space)
            self.asked = True

    async def carry_out(
        self,
        spaces: Iterable[SpaceRow],
        committer: Committer,
        pipeline: Pipeline,
        writable: Callable[[Did, SpaceUri], Scope],
    ) -> None:
        """Do what was asked for, and look into files that may know more. `writable` tells what an author may
        write. The pipeline's lock is held, and everything before is written."""
        self.asked = False
        rows = {row.uri: row for row in spaces}
        for space in sorted(self._damaged):
            await self._control.ask_repair(space, "rebuild", self._clock())
        self._damaged.clear()
        for space, (kind, asked_at) in (await self._control.repairs()).items():
            row = rows.get(space)
            if row is None:
                continue  # not here now; when it is admitted again, its turn comes
            if kind == "refill" and self._pool.exists(space):
                if await self._is_apart(space):
                    continue
                await committer.insist(partial(self._refill, row, pipeline))
            elif kind != "mend" or not await self._mend(row):
                await committer.insist(partial(self._rebuild, row, asked_at, pipeline))
            await self._control.end_repair(space)
        await self._recall_authors([rows[space] for space in sorted(self._ahead & rows.keys())], writable)

    async def _is_apart(self, space: SpaceUri) -> bool:
        """Try whether a file still is not what it should be."""
        self._apart.discard(space)
        try:
            async with self._pool.use(space):
                return False
        except StoreError as error:
            self._apart.add(space)
            log.warning("a space is filled again once its file is back", space=space, error=str(error))
            return True

    async def _recall_authors(
        self, rows: Collection[SpaceRow], writable: Callable[[Did, SpaceUri], Scope]
    ) -> None:
        """Bring what control.db says of spaces' authors in line with files that may know more of them:
        control.db may be older than the files, or new."""
        if not rows:
            return
        states: dict[SpaceUri, FileState] = {}
        noted = await self._control.memberships()
        active = {repo.did for repo in await self._control.repos() if repo.status == "active"}
        synced: dict[SpaceUri, set[Did]] = {row.uri: set() for row in rows}
        for (space, did), state in noted.items():
            if space in synced and state == "synced" and did in active:
                synced[space].add(did)
        for row in rows:
            space = row.uri
            try:
                async with self._pool.use(space) as store:
                    if store.config is None and row.config is not None:  # made where one was lost
                        await store.configure(row.config)
                    states[space] = store.state
                    authors, filled = await store.authors(), await store.filled()
            except StoreError as error:
                if not is_beyond_use(error):
                    raise
                continue
            # Those of whom control.db does not know that they are here, and those of whom the file has
            # nothing, or what they might write at another time.
            unknown = {did for did in authors if (space, did) not in noted}
            otherwise = {
                did
                for did in synced[space]
                if did not in filled or filled[did] not in (None, digest(writable(did, space)))
            }
            for did in sorted(unknown | otherwise):
                log.info("an author of a space is looked at again", space=space, author=did)
                await self._control.put_membership(space, did, "pending")
        await self._control.files.put(states)
        self._ahead -= states.keys()

    async def _mend(self, row: SpaceRow) -> bool:
        """Derive what can be derived; false where that does not make the file right."""
        space = row.uri
        if not self._pool.exists(space):
            return False
        try:
            async with self._pool.use(space) as store:
                await store.configure(row.config)
                await store.mend()
                findings = await store.check()
        except Exception as error:  # noqa: BLE001 - a file in any state
            log.error("a space cannot be mended", space=space, error=repr(error))
            return False
        log.info("space mended", space=space, findings=len(findings))
        return not findings

    async def _path_tags(self, space: SpaceUri) -> Sequence[tuple[str, PathTag]]:
        if not self._pool.exists(space):
            return ()
        try:
            async with self._pool.use(space) as store:
                return await store.path_tags()
        except Exception as error:  # noqa: BLE001 - a file in any state
            log.error("what paths say is lost with the file", space=space, error=repr(error))
            return ()

    async def _refill(self, row: SpaceRow, pipeline: Pipeline) -> None:
        """Have a file that is right again given what passed it."""
        async with self._pool.use(row.uri) as store:
            await store.configure(row.config)
        await self._begin(row.uri, pipeline)
        self._ahead.add(row.uri)
        log.warning("space is filled again from its authors' repos", space=row.uri)

    async def _rebuild(self, row: SpaceRow, asked_at: int, pipeline: Pipeline) -> None:
        space = row.uri
        await self._begin(space, pipeline)
        self._remade = space
        try:
            tags = await self._path_tags(space)
            await self._pool.set_aside(space, f".damaged-{asked_at}")
            async with self._pool.use(space) as store:
                await store.configure(row.config)
                for path, tag in tags:  # no repo holds what the space says of its paths
                    await store.set_path_tag(path, tag.key, tag.value, tag.protected)
                await self._control.files.put({space: store.state})
        finally:
            self._remade = None
        for known in (self._damaged, self._apart, self._ahead):
            known.discard(space)  # what was known of the old file
        log.warning("space is built anew from its authors' repos", space=space)

    async def _begin(self, space: SpaceUri, pipeline: Pipeline) -> None:
        """Note that every writer's repo is to fill a space, before anything that was lost can pass."""
        await self._control.begin_refill(space)
        # Whoever was about to be noted as filled was filled into the old file, or into none.
        for did in [did for settling, did in pipeline.settling if settling == space]:
            pipeline.settling.discard((space, did))
