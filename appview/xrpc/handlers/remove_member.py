"""garden.engram.removeMember: take the right to write to a space from an account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.xrpc.governing import governed
from lexicons.syntax import Did

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer whether the account was a member. What it wrote leaves the index."""
    space, did = await governed(call), Did(call.parameters["did"])
    return {"changed": await call.context.access.remove_member(space, did, str(call.subject))}
