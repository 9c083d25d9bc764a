"""garden.engram.getMemory: one memory of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.xrpc.errors import MemoryNotFound
from appview.xrpc.filters import memory_uri, succession
from appview.xrpc.spaces import readable
from appview.xrpc.views import memory_view

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with the memory; what is hidden from the caller is not there."""
    uri = memory_uri("uri", call.parameters["uri"])
    async with readable(call) as space:
        fact = await space.store.get(uri, space.scope, succession=succession(call))
    if fact is None:
        raise MemoryNotFound
    return {"memory": memory_view(fact)}
