"""Parameters that several methods share -> values of the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.memory.superseding import Succession
from appview.memory.values import Filters
from appview.xrpc.errors import InvalidRequest
from lexicons.datetimes import parse_micros
from lexicons.memories import ROOT_PATH, normalise_path
from lexicons.syntax import AtUri, Did

if TYPE_CHECKING:
    from appview.xrpc.context import Call


def filters(call: Call) -> Filters:
    """Read what a query narrows to."""
    given = call.parameters
    author, since = given.get("author"), given.get("since")
    return Filters(
        author=None if author is None else Did(author),
        tags=tuple(dict.fromkeys(given.get("tags", ()))),
        since=None if since is None else parse_micros(since),
    )


def succession(call: Call) -> Succession:
    """Read how a query meets memories that others have taken the place of."""
    return Succession(
        call.context.access.write_scopes(call.space), bool(call.parameters.get("includeSuperseded"))
    )


def memory_uri(name: str, uri: str) -> AtUri:
    """Read the URI of a memory; raise `InvalidRequest`. The lexicon has it as any URI: in other kinds of
    space they will differ."""
    if not AtUri.is_valid(uri):
        raise InvalidRequest(f"{name}: not a valid AT URI")
    return AtUri(uri)


def path(call: Call) -> str:
    """Read the path a call is about, in its one form; `/` where it names none; raise `InvalidRequest`."""
    given: str = call.parameters.get("path", ROOT_PATH)
    if not given.startswith("/"):
        raise InvalidRequest("path: must start with /")
    return normalise_path(given)
