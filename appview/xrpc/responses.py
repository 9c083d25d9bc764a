"""Answers: JSON bodies, the headers that all of them carry, what browsers need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.xrpc.errors import XrpcError

JSON_TYPE: Final = "application/json; charset=utf-8"
PREFLIGHT_SECONDS: Final = 86_400  # a day: what browsers keep at most
# Any page may ask, and none gets a visitor's credentials along: there are no cookies here.
COMMON_HEADERS: Final[Mapping[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, "
    "RateLimit-Policy, WWW-Authenticate, X-Request-Id",
    "X-Content-Type-Options": "nosniff",
    "Server": "engram-appview",
    # What an answer holds depends on who asks and on the moment.
    "Cache-Control": "no-store",
}
PREFLIGHT_HEADERS: Final[Mapping[str, str]] = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, OPTIONS",
    # `*` does not stand for Authorization (Fetch standard, CORS protocol).
    "Access-Control-Allow-Headers": "*, Authorization",
    "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
}


def encode(body: Mapping[str, Any]) -> bytes:
    """Write a body: JSON, UTF-8, without spaces."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def answer(body: Mapping[str, Any], status: int = 200) -> web.Response:
    """Make a JSON answer."""
    return web.Response(body=encode(body), status=status, headers={"Content-Type": JSON_TYPE})


def error_answer(error: XrpcError) -> web.Response:
    """Make the answer that says what went wrong."""
    response = answer(error.body(), error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def preflight() -> web.Response:
    """Answer a browser that asks what it may ask."""
    return web.Response(status=204, headers=PREFLIGHT_HEADERS)
