"""garden.engram.listMembers: who is a member of a space, by whatever rule."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from appview.xrpc.governing import governed

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with a page of members by DID."""
    limit: int = call.parameters["limit"]
    position = call.position(str)
    space = await governed(call)
    members = call.context.access.members(space)
    inherited = call.context.access.inherited_members(space)
    start = 0 if position is None else bisect_right(members, str(position[0]))
    page = members[start : start + limit]
    answer: dict[str, Any] = {
        "members": [{"did": did, **({"inherited": True} if did in inherited else {})} for did in page]
    }
    if len(members) > start + limit:
        answer["cursor"] = call.seal((page[-1],))
    return answer
