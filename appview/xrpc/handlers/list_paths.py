"""garden.engram.listPaths: one level of a space's tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.xrpc.filters import path, succession
from appview.xrpc.spaces import readable
from appview.xrpc.views import path_view

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with the paths directly below one, with what the caller may read counted."""
    limit: int = call.parameters["limit"]
    position = call.position(str)
    after = None if position is None else str(position[0])
    parent = path(call)
    async with readable(call) as space:
        nodes = await space.store.paths(
            space.scope, parent, limit=limit + 1, after=after, succession=succession(call)
        )
    page = nodes[:limit]
    answer: dict[str, Any] = {"path": parent, "paths": [path_view(node) for node in page]}
    if len(nodes) > limit:
        answer["cursor"] = call.seal((page[-1].segment,))
    return answer
