"""What every handler may use."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from appview.access.callers import Callers, NoAccounts
from appview.access.subjects import holder
from appview.errors import ConfigurationError
from appview.memory.reinforcer import Reinforcer
from appview.occasional import Occasional
from appview.query_log import QueryLog
from appview.search.analysis import analysis_of
from appview.search.derived import ViewCache
from appview.search.engine import Searcher
from appview.search.tuning import Tuning
from appview.xrpc.cursors import Binding, Cursors
from appview.xrpc.errors import UnknownSpace
from appview.xrpc.keys import Keys
from appview.xrpc.query_embedder import QueryEmbedder
from embedders.errors import InvalidSpec
from embedders.select import open_embedder
from lexicons.spaces import SpaceUri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.access.access import Access
    from appview.access.subjects import Subject
    from appview.clock import Clock
    from appview.control import Control
    from appview.memory.pool import SpacePool
    from appview.settings import Settings
    from appview.xrpc.cursors import Position
    from appview.xrpc.limits import Desk
    from lexicons.syntax import Nsid

API_KEY_VARIABLE: Final = "ENGRAM_EMBEDDER_API_KEY"  # a secret, so no setting that `status` could show


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of a running appview that answers are made from. Whoever opened them closes them."""

    settings: Settings
    control: Control
    access: Access
    pool: SpacePool
    searcher: Searcher
    embedder: QueryEmbedder
    keys: Keys
    cursors: Cursors
    callers: Callers
    reinforcer: Reinforcer
    query_log: QueryLog
    clock: Clock
    faults: Occasional = field(default_factory=Occasional)  # of storage, that are told in the log

    @classmethod
    def of(
        cls,
        settings: Settings,
        control: Control,
        access: Access,
        pool: SpacePool,
        *,
        clock: Clock,
        callers: Callers | None = None,
    ) -> Self:
        """Gather the parts; keys that are missing are made, the embedder that is configured is opened.

        Without `callers` no account can prove itself; this appview's own tokens hold.

        Raises `ConfigurationError` for an embedder that cannot be read, `StoreError` for a damaged key.
        """
        embedder = None
        if settings.embedder is not None:
            try:
                embedder = open_embedder(settings.embedder, api_key=os.environ.get(API_KEY_VARIABLE))
            except InvalidSpec as error:
                raise ConfigurationError(f"embedder: {error}", hint=error.hint) from None
        keys = Keys.load(settings.data)
        cursors = Cursors(keys.cursor_secret)
        analysis = analysis_of(settings.language)
        searcher = Searcher(
            cache=ViewCache(analysis, max_bytes=settings.index_memory_mb << 20),
            tuning=Tuning(method=settings.fusion),
            analysis=analysis,
            seconds=settings.query_timeout_ms / 1000,
            now=clock,
        )
        callers = callers or Callers(settings.service_did, NoAccounts(), control, clock)
        return cls(
            settings=settings,
            control=control,
            access=access,
            pool=pool,
            searcher=searcher,
            embedder=QueryEmbedder(embedder),
            keys=keys,
            cursors=cursors,
            callers=callers,
            reinforcer=Reinforcer(pool),
            query_log=QueryLog.of(settings, clock),
            clock=clock,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One request, parsed: who asks for what. `parameters`, which are the body where the method takes one,
    satisfy the method's lexicon; `desk` counts the request."""

    context: Context
    method: Nsid
    subject: Subject
    parameters: Mapping[str, Any]
    desk: Desk

    @property
    def space(self) -> SpaceUri:
        """The space the call is about; raise `UnknownSpace` for what cannot be one."""
        uri = self.parameters["space"]
        if not SpaceUri.is_valid(uri):
            raise UnknownSpace
        return SpaceUri(uri)

    def seal(self, position: Position) -> str:
        """Write the cursor that continues this call after the item at `position`."""
        return self.context.cursors.seal(self._binding, position)

    def position(self, *kinds: type[int] | type[str]) -> Position | None:
        """Read where this call continues, None at the start; raise `InvalidRequest`."""
        cursor = self.parameters.get("cursor")
        return None if cursor is None else self.context.cursors.open(self._binding, cursor, *kinds)

    @property
    def _binding(self) -> Binding:
        return Binding(self.method, holder(self.subject), self.parameters)
