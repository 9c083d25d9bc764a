"""One search of a data folder, answered as the service would, without a socket."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from appview.clock import now
from appview.memory.pool import SpacePool
from appview.search.analysis import ANALYSIS
from appview.xrpc.context import Call, Context
from appview.xrpc.errors import InvalidRequest
from appview.xrpc.handlers import search_memories
from appview.xrpc.limits import Desk, Limits
from lexicons.catalog import garden
from lexicons.errors import InvalidRecord
from lexicons.ids import SEARCH_MEMORIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.access.access import Access
    from appview.access.subjects import Subject
    from appview.control import Control
    from appview.settings import Settings

THREADS: Final = 2  # one search, and the opening of its file


async def ask(
    settings: Settings, control: Control, access: Access, subject: Subject, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Answer `searchMemories` for a subject; raise `XrpcError` as the service does."""
    try:
        checked = garden().validate_params(SEARCH_MEMORIES, parameters)
    except InvalidRecord as error:
        raise InvalidRequest(str(error)) from None
    with ThreadPoolExecutor(THREADS) as executor:
        pool = SpacePool(settings.spaces_folder, executor, now, analyser=ANALYSIS)
        context = Context.of(settings, control, access, pool, clock=now)
        context.embedder.start()
        try:
            return await search_memories.handle(
                Call(context, SEARCH_MEMORIES, subject, checked, Desk(Limits(now), ""))
            )
        finally:
            await context.searcher.close()
            await context.embedder.close()
            await pool.close()
