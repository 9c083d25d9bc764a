"""The space a call is about, opened for what its caller may read."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from appview.access.errors import NotFollowed
from appview.errors import StoreError
from appview.xrpc.errors import UNREADABLE_SECONDS, IndexLoading, UnknownSpace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from appview.control import SpaceRow
    from appview.memory.scope import Scope
    from appview.memory.store import SpaceStore
    from appview.xrpc.context import Call, Context
    from lexicons.spaces import SpaceUri

FOLLOW_SECONDS: Final = 1  # ours: an index that is late mostly has followed by then
_log = structlog.get_logger("appview.xrpc")


@dataclass(frozen=True, slots=True)
class Readable:
    """A space with the facts of it that the caller may read and that anyone is shown."""

    row: SpaceRow
    store: SpaceStore
    scope: Scope


@asynccontextmanager
async def readable(call: Call) -> AsyncIterator[Readable]:
    """Open the call's space for the time of the block.

    Raises `UnknownSpace` for one that does not exist and for one of which the caller may read nothing, alike,
    `RateLimitExceeded`, and `IndexLoading` where the space's file cannot be read, or is late to follow
    the rules.
    """
    uri = call.space
    scope = call.context.access.scope(call.subject, uri, "read")
    row = await call.context.control.space(uri)
    if row is None or not row.is_declared or scope.is_nothing:
        raise UnknownSpace
    # Not before: a limit that only what exists can reach would tell that it exists.
    call.desk.count_space(uri)
    try:
        withheld = await call.context.access.withheld.authors(uri)
    except NotFollowed as error:
        raise IndexLoading(str(error), after=FOLLOW_SECONDS) from None
    try:
        async with call.context.pool.use(uri) as store:
            yield Readable(row, store, store.visible(scope, withheld))
    except StoreError as error:
        tell_fault(call.context, uri, error)
        raise IndexLoading(
            "the space's memories cannot be read at the moment", after=UNREADABLE_SECONDS
        ) from error


def tell_fault(context: Context, space: SpaceUri, error: StoreError) -> None:
    """Log that a space's file cannot be read: now and then, not for each request."""
    count = context.faults.due((space, str(error)), context.clock())
    if count is not None:
        _log.error("a space cannot be read", space=space, error=str(error), hint=error.hint, count=count)
