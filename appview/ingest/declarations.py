"""What an account's config record does to its own space.

The order of the writes is what makes a crash harmless: rules, then the space's file, and control.db last.
What led here (a commit behind the cursor, a repo noted as not synchronized) comes again until control.db has
it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from appview.control import SpaceRow
from appview.errors import StoreError
from appview.occasional import Occasional
from appview.sqlite import is_beyond_use
from lexicons.spaces import SpaceUri

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from appview.access.access import Access
    from appview.clock import Clock
    from appview.control import Control
    from appview.ingest.committer import Committer
    from appview.ingest.route import ConfigChange
    from appview.memory.pool import SpacePool
    from lexicons.configs import Config
    from lexicons.syntax import Did

log = structlog.get_logger(__name__)


class Declarations:
    """Applies config records. `changed` is awaited when a space has come, or its config has changed."""

    def __init__(
        self,
        control: Control,
        access: Access,
        pool: SpacePool,
        committer: Committer,
        clock: Clock,
        *,
        open_registration: bool,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self.changed: Callable[[], Awaitable[None]] | None = None
        self.broken: Callable[[SpaceUri, StoreError], Awaitable[None]] | None = None
        self._control = control
        self._access = access
        self._pool = pool
        self._committer = committer
        self._clock = clock
        self._open_registration = open_registration
        self._refusals = Occasional()

    async def follow(self, change: ConfigChange) -> None:
        """Make an author's space be as its proven config record says. One that is not valid changes
        nothing."""
        space = SpaceUri.public(change.author)
        if change.problem:
            self._refuse(change.author, "not valid", change.problem)
            return
        row = await self._control.space(space)
        if row is not None and row.config_rev is not None and change.rev < row.config_rev:
            return
        if change.config is None:
            if row is not None and row.config is not None:
                await self._take(row, change.config, change.cid, change.rev)
            return
        if not await self._control.admits(space, unknown=self._open_registration):
            self._refuse(change.author, "not admitted", "registration is closed, or the space was removed")
            return
        if row is None:
            row = SpaceRow(space, change.author, space.space_kind, None, None, None, self._clock())
        elif row.config_cid == change.cid:
            return
        await self._take(row, change.config, change.cid, change.rev)

    async def absent(self, author: Did, rev: str | None) -> None:
        """Take note that the author's repo has no config as of `rev`, or (None) that the repo is no more."""
        row = await self._control.space(SpaceUri.public(author))
        if row is not None and row.config is not None and (rev is None or (row.config_rev or "") <= rev):
            await self._take(row, None, None, row.config_rev if rev is None else rev)

    async def _take(self, row: SpaceRow, config: Config | None, cid: str | None, rev: str | None) -> None:
        await self._committer.flush()  # what came before is judged by what held before
        is_new = row.config_rev is None  # what its rules became since the first time is not undone
        row = replace(row, config=config, config_cid=cid, config_rev=rev)

        async def work() -> None:
            if is_new:
                await self._access.declare_space(row.uri)
            try:
                async with self._pool.use(row.uri) as store:
                    await store.configure(config)
            except StoreError as error:
                if not is_beyond_use(error) or self.broken is None:
                    raise
                await self.broken(row.uri, error)  # it will be given the config of control.db
            await self._control.put_space(row)

        await self._committer.insist(work)
        self.outcomes["declared" if config is not None else "withdrawn"] += 1
        log.info(
            "space declared" if config is not None else "space without config",
            space=row.uri,
            model=str(config.model) if config is not None else None,
            rev=rev,
        )
        if self.changed is not None:
            await self._committer.insist(self.changed)

    def _refuse(self, author: Did, reason: str, detail: str) -> None:
        self.outcomes[f"refused: {reason}"] += 1
        count = self._refusals.due((author, reason), self._clock())
        if count is not None:
            log.warning("config refused", author=author, reason=reason, detail=detail, count=count)
