"""Governing a space from outside: who may, and what the calls that change it share.

Only a known caller governs. To one who may neither read nor govern a space it is not there; to one who may
read it, the refusal is `Forbidden`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.access.errors import InvalidRule
from appview.access.rules import parse_object, parse_path
from appview.access.subjects import Anonymous
from appview.memory.scope import holds_subtree
from appview.xrpc.errors import AuthenticationRequired, Forbidden, InvalidRequest, UnknownSpace

if TYPE_CHECKING:
    from appview.memory.scope import Scope
    from appview.xrpc.context import Call
    from lexicons.spaces import SpaceUri


async def governed(call: Call) -> SpaceUri:
    """Name the call's space where the caller governs all of it.

    Raises `AuthenticationRequired`, `UnknownSpace`, `Forbidden`, `RateLimitExceeded`.
    """
    space, scope = await _found(call)
    if not scope.is_everything:
        raise Forbidden("you do not govern this space")
    return space


async def governed_below(call: Call, path: str) -> tuple[SpaceUri, Scope]:
    """Name the call's space, and all that the caller governs in it, where that is all at and below `path` at
    least; raises as `governed`."""
    space, scope = await _found(call)
    if not holds_subtree(scope, path):
        raise Forbidden("you do not govern this path")
    return space, scope


def path_of(call: Call) -> str:
    """Read the path that a call gives a tag to, in the one form that rules know; raise `InvalidRequest`."""
    try:
        return parse_path(call.parameters["path"])
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def check_tag(key: str, value: str) -> None:
    """Refuse an attribute that no rule could name; raise `InvalidRequest`."""
    try:
        parse_object(f"tag:{key}={value}")
    except (ValueError, InvalidRule) as error:
        raise InvalidRequest(str(error)) from None


async def _found(call: Call) -> tuple[SpaceUri, Scope]:
    if isinstance(call.subject, Anonymous):
        raise AuthenticationRequired("only a known caller governs a space")
    access, space = call.context.access, call.space
    scope = access.scope(call.subject, space, "admin")
    row = await call.context.control.space(space)
    hidden = scope.is_nothing and access.scope(call.subject, space, "read").is_nothing
    if row is None or not row.is_declared or hidden:
        raise UnknownSpace
    if scope.is_nothing:
        raise Forbidden("you do not govern this space")
    call.desk.count_space(space)
    return space, scope
