"""Space files that are damaged or wrong: put right from what they hold, or made anew from the authors' repos.

Invariants: what is asked for is in control.db before anything that the file lost can pass the cursor; a crash
anywhere makes the same repair be done again; a file is never thrown away, it is set aside beside its
successor; a file that another space or a newer program wrote is left alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from appview.sqlite import is_damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from appview.clock import Clock
    from appview.control import Control, SpaceRow
    from appview.errors import StoreError
    from appview.ingest.committer import Committer
    from appview.ingest.pipeline import Pipeline
    from appview.memory.pool import SpacePool
    from appview.memory.tags import PathTag
    from lexicons.spaces import SpaceUri

log = structlog.get_logger(__name__)


class Repairs:
    """Knows what is asked for; `carry_out` does it."""

    def __init__(self, control: Control, pool: SpacePool, clock: Clock) -> None:
        self.asked = False  # by this process, since `carry_out` last looked
        self._control = control
        self._pool = pool
        self._clock = clock

    async def ask(self, space: SpaceUri, error: StoreError) -> None:
        """Take note of a space whose file cannot be used; it is made anew where it is damaged."""
        if is_damage(error):
            await self._control.ask_repair(space, "rebuild", self._clock())
            self.asked = True

    async def look_for_lost(self) -> None:
        """Ask for the files that should be there and are not, before anybody opens a space and makes one."""
        filled = await self._control.memberships()
        synced = {space for (space, _), state in filled.items() if state == "synced"}
        for row in await self._control.spaces():
            if row.uri in synced and not self._pool.exists(row.uri):
                await self._control.ask_repair(row.uri, "rebuild", self._clock())

    async def carry_out(
        self,
        spaces: Iterable[SpaceRow],
        committer: Committer,
        pipeline: Pipeline,
    ) -> None:
        """Do what was asked for. The pipeline's lock is held, and everything before is written."""
        self.asked = False
        rows = {row.uri: row for row in spaces}
        for space, (kind, asked_at) in (await self._control.repairs()).items():
            row = rows.get(space)
            if row is None:
                continue  # not here now; when it is admitted again, its turn comes
            if kind == "rebuild" or not await self._mend(space):
                await committer.insist(partial(self._rebuild, row, asked_at, pipeline))
            await self._control.end_repair(space)

    async def _mend(self, space: SpaceUri) -> bool:
        """Derive what can be derived; false where that does not make the file right."""
        if not self._pool.exists(space):
            return False
        try:
            async with self._pool.use(space) as store:
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

    async def _rebuild(self, row: SpaceRow, asked_at: int, pipeline: Pipeline) -> None:
        space = row.uri
        await self._control.begin_refill(space)
        tags = await self._path_tags(space)
        await self._pool.set_aside(space, f".damaged-{asked_at}")
        async with self._pool.use(space) as store:
            await store.configure(row.config)
            for path, tag in tags:  # no repo holds what the space says of its paths
                await store.set_path_tag(path, tag.key, tag.value, tag.protected)
        # Whoever was about to be noted as filled was filled into the old file.
        for did in [did for settling, did in pipeline.settling if settling == space]:
            pipeline.settling.discard((space, did))
        log.warning("space is built anew from its authors' repos", space=space)
