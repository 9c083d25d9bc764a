"""garden.engram.describeService: who this service is and who may join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with the service's DID and its registration."""
    settings = call.context.settings
    return {"did": settings.service_did, "registration": settings.registration}
