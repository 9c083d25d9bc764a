"""garden.engram.putPathTag: give an attribute to the memories at and below a path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.access.errors import TagWithheld
from appview.access.path_tags import put_path_tag
from appview.memory.errors import InvalidPathTag
from appview.memory.tags import PathTag
from appview.xrpc.errors import Forbidden, InvalidRequest
from appview.xrpc.governing import check_tag, governed_below, path_of

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer whether that changed anything. It counts from the next request on."""
    path, key, value = path_of(call), call.parameters["key"], call.parameters["value"]
    check_tag(key, value)
    space, governed = await governed_below(call, path)
    tag = PathTag(key, value, call.parameters["protected"])
    async with call.context.pool.use(space) as store:
        try:
            changed = await put_path_tag(call.context.access, store, path, tag, str(call.subject), governed)
        except InvalidPathTag as error:
            raise InvalidRequest(str(error)) from None
        except TagWithheld as error:
            raise Forbidden(str(error)) from None
    return {"changed": changed}
