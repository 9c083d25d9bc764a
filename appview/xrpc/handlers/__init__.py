"""One module a method, and the one table of them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appview.xrpc.handlers import (
    describe_service,
    get_memory,
    get_memory_graph,
    get_memory_links,
    get_path,
    get_space_status,
    list_members,
    list_memories,
    list_paths,
    list_spaces,
    put_member,
    put_path_tag,
    recall_memories,
    remove_member,
    remove_path_tag,
    search_memories,
)
from lexicons import ids

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from appview.xrpc.context import Call
    from lexicons.syntax import Nsid

    Handler = Callable[[Call], Awaitable[dict[str, Any]]]

HANDLERS: Final[Mapping[Nsid, Handler]] = {
    ids.DESCRIBE_SERVICE: describe_service.handle,
    ids.GET_MEMORY: get_memory.handle,
    ids.GET_MEMORY_GRAPH: get_memory_graph.handle,
    ids.GET_MEMORY_LINKS: get_memory_links.handle,
    ids.GET_PATH: get_path.handle,
    ids.GET_SPACE_STATUS: get_space_status.handle,
    ids.LIST_MEMBERS: list_members.handle,
    ids.LIST_MEMORIES: list_memories.handle,
    ids.LIST_PATHS: list_paths.handle,
    ids.LIST_SPACES: list_spaces.handle,
    ids.PUT_MEMBER: put_member.handle,
    ids.PUT_PATH_TAG: put_path_tag.handle,
    ids.REMOVE_MEMBER: remove_member.handle,
    ids.REMOVE_PATH_TAG: remove_path_tag.handle,
    ids.RECALL_MEMORIES: recall_memories.handle,
    ids.SEARCH_MEMORIES: search_memories.handle,
}
# Procedures that end with their caller, as queries do: what they change is noted at once, at the end.
FLEETING: Final = frozenset({ids.RECALL_MEMORIES})
# Methods that anybody may call, whatever credential comes along.
OPEN: Final = frozenset({ids.DESCRIBE_SERVICE})
