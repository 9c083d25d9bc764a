"""garden.engram.getMemoryLinks: what a memory points to, and what points to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from appview.memory.links import PATH
from appview.search.errors import NoSuchMemory
from appview.search.graph import around
from appview.xrpc.errors import MemoryNotFound
from appview.xrpc.filters import memory_uri, succession
from appview.xrpc.spaces import readable
from appview.xrpc.views import memory_view
from lexicons.ids import MEMORY

if TYPE_CHECKING:
    from appview.memory.link_reads import Pointed
    from appview.memory.reads import Position
    from appview.xrpc.context import Call
    from appview.xrpc.views import View


async def handle(call: Call) -> dict[str, Any]:
    """Answer with all links and a page of backlinks. What a link names is the memory's own text; whether it
    is there, only who may read it is told."""
    given = call.parameters
    limit: int = given["limit"]
    before = cast("Position | None", call.position(int, str, str))
    uri = memory_uri("uri", given["uri"])
    async with readable(call) as space:
        try:
            found = await around(
                space.store,
                uri,
                space.scope,
                limit=limit + 1,
                before=before,
                succession=succession(call),
            )
        except NoSuchMemory:
            raise MemoryNotFound from None
    page = found.backlinks[:limit]
    answer: dict[str, Any] = {
        "links": [link_view(pointed) for pointed in found.links],
        "backlinks": [{"kinds": list(back.kinds), "memory": memory_view(back.fact)} for back in page],
    }
    if len(found.backlinks) > limit:
        last = page[-1].fact
        answer["cursor"] = call.seal((last.ordered_at, last.author, last.rkey))
    return answer


def link_view(pointed: Pointed) -> View:
    """Show one thing that a memory points to."""
    link = pointed.link
    if link.kind == PATH:
        return {"kind": link.kind, "path": link.target}
    view: View = {"kind": link.kind, "uri": f"at://{link.author}/{MEMORY}/{link.target}"}
    if pointed.fact is not None:
        view["memory"] = memory_view(pointed.fact)
    return view
