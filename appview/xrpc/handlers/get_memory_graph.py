"""garden.engram.getMemoryGraph: the newest memories of a space and which are near each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from appview.search.graph import graph
from appview.xrpc.errors import InvalidRequest
from appview.xrpc.filters import succession
from appview.xrpc.spaces import readable
from appview.xrpc.views import memory_view

if TYPE_CHECKING:
    from appview.xrpc.context import Call

_FRACTION: Final = re.compile(r"0?\.[0-9]+|0|1(?:\.0*)?", re.ASCII)


async def handle(call: Call) -> dict[str, Any]:
    """Answer with nodes, edges and links; what is hidden from the caller is none of them."""
    given = call.parameters
    floor = read_similarity(given["minSimilarity"])
    async with readable(call) as space:
        found = await graph(
            space.store,
            space.scope,
            limit=given["limit"],
            neighbors=given["neighbors"],
            floor=floor,
            succession=succession(call),
        )
    return {
        "nodes": [memory_view(node) for node in found.nodes],
        "edges": [{"a": edge.a, "b": edge.b, "similarity": edge.similarity} for edge in found.edges],
        "links": [{"from": source, "to": target, "kind": kind} for source, target, kind in found.links],
    }


def read_similarity(text: str) -> float:
    """Read a decimal above 0 and at most 1; raise `InvalidRequest`."""
    value = float(text) if _FRACTION.fullmatch(text) else 0.0
    if not 0.0 < value <= 1.0:
        raise InvalidRequest("minSimilarity: must be a decimal above 0 and at most 1, as 0.4")
    return value
