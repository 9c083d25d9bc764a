"""The web application: routes, and the outermost layer where every error becomes an answer."""

from __future__ import annotations

import hashlib
import itertools
import secrets
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web

from appview.errors import StoreError
from appview.xrpc.admission import Admission
from appview.xrpc.errors import (
    InternalServerError,
    InvalidRequest,
    NotEnoughResources,
    NotFound,
    XrpcError,
)
from appview.xrpc.limits import Limits, headers_of
from appview.xrpc.responses import COMMON_HEADERS, answer, error_answer, preflight
from appview.xrpc.routing import Routes, check_verb
from appview.xrpc.service import did_document, program_version, service_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from appview.xrpc.context import Context

    Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Ids of requests: a number, digested with a key that nobody else has, so that a caller cannot tell from two
# of them how many requests others made in between. Asking the system for random bytes each time would hand
# the interpreter to another thread, and getting it back takes up to 5 ms under load.
_ID_KEY: Final = secrets.token_bytes(32)
_ID_BYTES: Final = 8  # the same id twice in a million requests: 1 in 37 million
_NUMBERS: Final = itertools.count(1)

ROUTES: Final = web.AppKey("routes", Routes)
_CONTEXT: Final = web.AppKey["Context"]("context")
_log = structlog.get_logger("appview.xrpc")


def make_app(
    context: Context, admission: Admission | None = None, limits: Limits | None = None
) -> web.Application:
    """Make the application that answers from `context`, which outlives it.

    `admission` and `limits` replace those of the settings.
    """
    limits = limits or Limits.of(context.settings, context.clock)
    app = web.Application(middlewares=[_outermost, limits.middleware])
    app[_CONTEXT] = context
    routes = app[ROUTES] = Routes(context, admission or Admission())
    document = did_document(
        context.settings.service_did, service_url(context.settings), context.keys.public_key_multibase
    )

    async def query_log(_app: web.Application) -> AsyncIterator[None]:
        context.query_log.start()
        yield
        await context.query_log.close()

    app.cleanup_ctx.append(query_log)

    async def health(request: web.Request) -> web.Response:
        check_verb(request, ("GET", "HEAD"))
        return answer({"version": program_version()})

    async def did(request: web.Request) -> web.Response:
        check_verb(request, ("GET", "HEAD"))
        return answer(document)

    async def embedder(_app: web.Application) -> AsyncIterator[None]:
        context.embedder.start()
        yield
        await context.embedder.close()

    async def searcher(_app: web.Application) -> AsyncIterator[None]:
        yield
        await context.searcher.close()

    async def reinforcer(_app: web.Application) -> AsyncIterator[None]:
        context.reinforcer.start()
        yield
        await context.reinforcer.close()

    app.router.add_route("*", "/xrpc/_health", health)
    app.router.add_route("*", "/.well-known/did.json", did)
    app.router.add_route("*", "/xrpc/{method:.*}", routes.handle)
    app.cleanup_ctx.extend([embedder, searcher, reinforcer])
    return app


@web.middleware
async def _outermost(request: web.Request, handler: Handle) -> web.StreamResponse:
    """Give every request an id, and every error its answer; what is unforeseen is logged here and once."""
    request_id = _new_id()
    structlog.contextvars.bind_contextvars(request_id=request_id)
    response: web.StreamResponse
    try:
        response = preflight() if request.method == "OPTIONS" else await handler(request)
    except XrpcError as error:
        response = error_answer(error)
    except web.HTTPException as error:
        response = error_answer(_translate(error))
    except StoreError as error:
        response = error_answer(_unreadable(request.app[_CONTEXT], error))
    except Exception as error:  # noqa: BLE001 - the outermost layer
        _log.error("request failed", path=request.path[:100], request_id=request_id, exc_info=error)
        response = error_answer(InternalServerError())
    response.headers.update(COMMON_HEADERS)
    response.headers.update(headers_of(request))
    response.headers["X-Request-Id"] = request_id
    return response


def _new_id() -> str:
    number = str(next(_NUMBERS)).encode()
    return hashlib.blake2b(number, key=_ID_KEY, digest_size=_ID_BYTES).hexdigest()


def _unreadable(context: Context, error: StoreError) -> XrpcError:
    """Tell the operator what is wrong with the disk, now and then, and the caller only that something is."""
    count = context.faults.due(str(error), context.clock())
    if count is not None:
        _log.error("storage fails", error=str(error), hint=error.hint, count=count)
    return NotEnoughResources("the service cannot reach what it has stored", hint="try again later")


def _translate(error: web.HTTPException) -> XrpcError:
    """Give an error of aiohttp's own its name here: no such address, or its wrong verb."""
    if error.status == 404:
        return NotFound("nothing is here", hint="methods are at /xrpc/<method>")
    return InvalidRequest(error.reason)
