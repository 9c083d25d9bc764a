"""garden.engram.listMemories: the memories of a space, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from appview.xrpc.filters import filters, succession
from appview.xrpc.spaces import readable
from appview.xrpc.views import memory_view

if TYPE_CHECKING:
    from appview.memory.reads import Position
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with a page, and a cursor where more follow."""
    limit: int = call.parameters["limit"]
    before = cast("Position | None", call.position(int, str, str))
    async with readable(call) as space:
        facts = await space.store.list(
            space.scope, filters(call), limit=limit + 1, before=before, succession=succession(call)
        )
    page = facts[:limit]
    answer: dict[str, Any] = {"memories": [memory_view(fact) for fact in page]}
    if len(facts) > limit:
        answer["cursor"] = call.seal((page[-1].ordered_at, page[-1].author, page[-1].rkey))
    return answer
