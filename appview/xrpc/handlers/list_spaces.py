"""garden.engram.listSpaces: the spaces that the caller may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.access.errors import NotFollowed
from appview.errors import StoreError
from appview.xrpc.spaces import tell_fault
from appview.xrpc.views import space_view

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with a page of spaces by URI. Files are opened for the page alone; a space whose file cannot be
    read, or is late to follow the rules, is left out."""
    limit: int = call.parameters["limit"]
    position = call.position(str)
    after = "" if position is None else str(position[0])
    context = call.context
    found = []
    for row in sorted(await context.control.spaces(), key=lambda row: row.uri):
        if row.uri <= after or not row.is_declared:
            continue
        scope = context.access.scope(call.subject, row.uri, "read")
        if not scope.is_nothing:
            found.append((row, scope))
            if len(found) > limit:
                break
    views = []
    for row, scope in found[:limit]:
        try:
            withheld = await context.access.withheld.authors(row.uri)
            async with context.pool.use(row.uri) as store:
                views.append(space_view(row, await store.status(store.visible(scope, withheld))))
        except NotFollowed:
            continue
        except StoreError as error:
            tell_fault(context, row.uri, error)
    answer: dict[str, Any] = {"spaces": views}
    if len(found) > limit:
        answer["cursor"] = call.seal((found[limit - 1][0].uri,))
    return answer
