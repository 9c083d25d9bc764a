"""Looks at who an account is, beside the stream: its document for the engine, its handle for people.

However often an account's handle is to be checked, that is done once more at most.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from appview.errors import AppviewError
from appview.identity.resolver import ANY_KEPT, Freshness

if TYPE_CHECKING:
    from appview.clock import Clock
    from appview.identity.documents import Identity
    from appview.identity.handles import Handles
    from appview.identity.resolver import Dated, Resolver
    from appview.ingest.pipeline import Pipeline
    from lexicons.syntax import Did

NOW: Final = Freshness(believed=0)  # where the directory is away, that is the answer

log = structlog.get_logger(__name__)


class LookUps:
    """Carries out `FetchIdentity`, and verifies handles. `run` must be running."""

    def __init__(self, pipeline: Pipeline, resolver: Resolver, handles: Handles, clock: Clock) -> None:
        self._pipeline = pipeline
        self._resolver = resolver
        self._handles = handles
        self._clock = clock
        self._handles_due: dict[Did, tuple[Identity, bool]] = {}  # as claimed last
        self._checking: set[Did] = set()
        self._group: asyncio.TaskGroup | None = None
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Own the questions, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._stopped.wait()

    def want(self, did: Did, force: bool) -> None:
        """Ask who an account is, and tell the engine."""
        if self._group is None:
            raise RuntimeError("the look-ups are not running")
        self._group.create_task(self._look_up(did, force), name=f"identity of {did}")

    def changed(self, did: Did) -> None:
        """Take note that an account says that its document has changed."""
        self._resolver.forget(did)

    async def _look_up(self, did: Did, force: bool) -> None:
        answer: Dated | Exception
        try:
            answer = await self._resolver.look(did, fresh=force, freshness=NOW if force else ANY_KEPT)
        except AppviewError as error:
            answer = error
            log.warning("identity cannot be resolved", did=did, error=str(error))
        except Exception as error:  # nothing that a directory answers may end the program
            answer = error
            log.exception("identity cannot be resolved", did=did)
        pipeline = self._pipeline
        async with pipeline.lock:
            if did not in pipeline.rows:
                return
            commands = pipeline.engine.identity_resolved(did, answer, self._clock())
            if not isinstance(answer, Exception):
                pipeline.note(did, pds=answer.identity.pds)
                self.check_handle(answer.identity, fresh=force)
            await pipeline.carry_out(commands)
            pipeline.note(did)

    def check_handle(self, identity: Identity, *, fresh: bool = False) -> None:
        """Find out whether the handle that a document claims is the account's, and note it. The lock is
        held."""
        row = self._pipeline.rows.get(identity.did)
        if row is None or self._group is None:
            return
        if row.handle is not None and row.handle != identity.handle:
            self._pipeline.note(identity.did, handle=None)
        _, known = self._handles_due.get(identity.did, (None, False))
        self._handles_due[identity.did] = identity, fresh or known
        if identity.did not in self._checking:
            self._checking.add(identity.did)
            self._group.create_task(self._check_handles(identity.did), name=f"handle of {identity.did}")

    async def _check_handles(self, did: Did) -> None:
        """Check what an account claims, until it claims nothing new."""
        try:
            while did in self._handles_due:
                await self._check_handle(*self._handles_due.pop(did))
        finally:
            self._checking.discard(did)

    async def _check_handle(self, identity: Identity, fresh: bool) -> None:
        try:
            handle = await self._handles.verified(identity, fresh=fresh)
        except Exception:  # nothing that a name server answers may end the program
            log.exception("handle cannot be verified", did=identity.did)
            return
        async with self._pipeline.lock:
            row = self._pipeline.rows.get(identity.did)
            if row is not None and row.handle != handle and identity.did not in self._handles_due:
                self._pipeline.note(identity.did, handle=handle)
