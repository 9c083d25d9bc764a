"""A procedure's body -> its typed input, as the method's lexicon has it.

JSON and nothing else, read strictly: a key that occurs twice, a number that is no integer, bytes that are not
UTF-8 are refused, because two readers would take them differently.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from aiohttp.http_exceptions import HttpProcessingError

from appview.xrpc.errors import InvalidRequest, PayloadTooLarge
from lexicons.data import from_json
from lexicons.errors import ContractError

if TYPE_CHECKING:
    from aiohttp import web

    from lexicons.catalog import Catalog
    from lexicons.syntax import Nsid

MAX_BODY_BYTES: Final = 128 * 1024  # ours: the longest input takes 60 kB, with escapes twice that
BODY_SECONDS: Final = 10.0  # ours: how long a body may take to arrive
CONTENT_TYPE: Final = "application/json"


def check_size(request: web.BaseRequest) -> None:
    """Refuse a body whose size is told and over the limit, before any of it is read; raise
    `PayloadTooLarge`."""
    size = request.content_length or 0
    if size > MAX_BODY_BYTES:
        raise PayloadTooLarge(f"a body of {size} bytes, at most {MAX_BODY_BYTES}")


async def read_input(catalog: Catalog, method: Nsid, request: web.Request) -> dict[str, Any]:
    """Read the input of a procedure; raise `InvalidRequest` or `PayloadTooLarge`."""
    if request.content_type != CONTENT_TYPE or (request.charset or "utf-8").lower() != "utf-8":
        raise InvalidRequest(f"the body must be {CONTENT_TYPE} in UTF-8")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise InvalidRequest("the body must not be compressed")
    value = parse(await _read(request))
    try:
        checked: dict[str, Any] = catalog.validate_input(method, value)
    except ContractError as error:
        raise InvalidRequest(str(error)) from None
    return checked


def parse(body: bytes) -> dict[str, Any]:
    """Read a JSON object; raise `InvalidRequest`."""
    try:
        value = json.loads(
            body.decode(), object_pairs_hook=_distinct, parse_constant=_refuse, parse_float=_refuse
        )
        checked = from_json(value)
    except InvalidRequest:
        raise
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not JSON in UTF-8") from None
    except (ValueError, RecursionError, ContractError):
        raise InvalidRequest("the body is not JSON that can be read") from None
    if not isinstance(checked, dict):
        raise InvalidRequest("the body must be a JSON object")
    if _holds_nul(checked):
        raise InvalidRequest("the body holds a NUL")
    return checked


async def _read(request: web.Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise PayloadTooLarge(f"a body of more than {MAX_BODY_BYTES} bytes")
    except TimeoutError:
        raise InvalidRequest(f"the body did not arrive within {BODY_SECONDS:g} s") from None
    except HttpProcessingError:
        raise InvalidRequest("the body is not what its headers say") from None
    return bytes(body)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidRequest("the body names a field twice")
    return found


def _refuse(number: str) -> Any:
    raise InvalidRequest(f"the body holds a float, which no field takes: {number[:40]}")


def _holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_holds_nul(key) or _holds_nul(inner) for key, inner in value.items())
        case list():
            return any(map(_holds_nul, value))
    return False
