"""garden.engram.getPath: the memories at one path, oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from appview.xrpc.filters import path, succession
from appview.xrpc.spaces import readable
from appview.xrpc.views import memory_view

if TYPE_CHECKING:
    from appview.memory.reads import Position
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with a page; a path that is not there, or hidden, holds nothing."""
    limit: int = call.parameters["limit"]
    after = cast("Position | None", call.position(int, str, str))
    place = path(call)
    async with readable(call) as space:
        facts = await space.store.path_facts(
            space.scope, place, limit=limit + 1, after=after, succession=succession(call)
        )
    page = facts[:limit]
    answer: dict[str, Any] = {"path": place, "memories": [memory_view(fact) for fact in page]}
    if len(facts) > limit:
        answer["cursor"] = call.seal((page[-1].ordered_at, page[-1].author, page[-1].rkey))
    return answer
