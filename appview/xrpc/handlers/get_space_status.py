"""garden.engram.getSpaceStatus: what is indexed of a space, and what is not and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.xrpc.spaces import readable
from appview.xrpc.views import status_view

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with counts, models and what is skipped, as far as the caller may read."""
    async with readable(call) as space:
        return status_view(await space.store.status(space.scope))
