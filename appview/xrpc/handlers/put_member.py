"""garden.engram.putMember: let an account write to a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appview.xrpc.errors import InvalidRequest
from appview.xrpc.governing import governed
from lexicons.syntax import Did

if TYPE_CHECKING:
    from appview.xrpc.context import Call

MAX_MEMBERS: Final = 10_000  # ours, of one space through this method: each is a repo that is followed


async def handle(call: Call) -> dict[str, Any]:
    """Answer whether the account was none before. What it publishes is indexed from now on."""
    space, did = await governed(call), Did(call.parameters["did"])
    access = call.context.access
    members = access.members(space)
    if len(members) >= MAX_MEMBERS and did not in members:
        raise InvalidRequest(f"a space has at most {MAX_MEMBERS} members")
    return {"changed": await access.add_member(space, did, str(call.subject))}
