"""garden.engram.removePathTag: take an attribute from a path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.access.errors import TagWithheld
from appview.access.path_tags import remove_path_tag
from appview.xrpc.errors import Forbidden
from appview.xrpc.governing import governed_below, path_of

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer whether the path had the attribute. It counts from the next request on."""
    path = path_of(call)
    space, governed = await governed_below(call, path)
    async with call.context.pool.use(space) as store:
        try:
            changed = await remove_path_tag(
                call.context.access, store, path, call.parameters["key"], str(call.subject), governed
            )
        except TagWithheld as error:
            raise Forbidden(str(error)) from None
    return {"changed": changed}
