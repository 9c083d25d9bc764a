"""garden.engram.getMemory: one memory of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.xrpc.errors import InvalidRequest, MemoryNotFound
from appview.xrpc.filters import succession
from appview.xrpc.spaces import readable
from appview.xrpc.views import memory_view
from lexicons.syntax import AtUri

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with the memory; what is hidden from the caller is not there."""
    uri = call.parameters["uri"]
    if not AtUri.is_valid(uri):  # the lexicon has it as any URI: in other kinds of space they will differ
        raise InvalidRequest("uri: not a valid AT URI")
    async with readable(call) as space:
        fact = await space.store.get(AtUri(uri), space.scope, succession=succession(call))
    if fact is None:
        raise MemoryNotFound
    return {"memory": memory_view(fact)}
