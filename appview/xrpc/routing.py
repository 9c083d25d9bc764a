"""From a request to its handler: method by NSID, verb, body, caller, parameters, a place in the line.

What each request goes through is the same and is here alone; handlers begin with checked parameters.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from appview.access.subjects import Anonymous
from appview.xrpc import callers
from appview.xrpc.bodies import check_size, read_input
from appview.xrpc.context import Call
from appview.xrpc.errors import (
    AuthenticationRequired,
    InvalidRequest,
    MethodNotImplemented,
    NotEnoughResources,
)
from appview.xrpc.handlers import FLEETING, HANDLERS, OPEN
from appview.xrpc.limits import desk_of
from appview.xrpc.parameters import read_parameters
from appview.xrpc.responses import answer
from lexicons import catalog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from aiohttp import web

    from appview.access.subjects import Subject
    from appview.xrpc.admission import Admission
    from appview.xrpc.context import Context
    from appview.xrpc.limits import Desk
    from lexicons.syntax import Nsid

T = TypeVar("T")

VERBS: Final = {"query": ("GET", "HEAD"), "procedure": ("POST",)}  # XRPC spec, HTTP requests


class Routes:
    """Answers `/xrpc/<nsid>`."""

    def __init__(self, context: Context, admission: Admission) -> None:
        self._context = context
        self._admission = admission
        self._catalog = catalog.garden()
        self._methods = {
            str(nsid): (nsid, VERBS[self._catalog.method(nsid).kind], handler)
            for nsid, handler in HANDLERS.items()
        }

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request; raise `XrpcError`."""
        name = request.match_info["method"]
        method = self._methods.get(name)
        if method is None:
            raise MethodNotImplemented(f"no such method: {name[:80]}")
        nsid, verbs, handler = method
        check_verb(request, verbs)
        check_size(request)
        desk = desk_of(request)
        subject = Anonymous() if nsid in OPEN else await self._caller(request, nsid, desk)
        if verbs == VERBS["procedure"]:
            parameters = await read_input(self._catalog, nsid, request)
        else:
            parameters = read_parameters(self._catalog, nsid, request.raw_path)
        call = Call(self._context, nsid, subject, parameters, desk)
        async with self._admission.admit():
            await self._context.access.refresh()
            changes = verbs == VERBS["procedure"] and nsid not in FLEETING
            body = await (to_the_end(handler(call)) if changes else handler(call))
        return answer(body)

    async def ask(
        self, request: web.Request, nsid: Nsid, given: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Answer a query for a page: for somebody without a credential, with what is given or with the
        parameters of the page's own address. Raises `XrpcError`."""
        if given is None:
            parameters = read_parameters(self._catalog, nsid, request.raw_path)
        else:
            parameters = dict(self._catalog.validate_params(nsid, given))
        call = Call(self._context, nsid, Anonymous(), parameters, desk_of(request))
        async with self._admission.admit():
            await self._context.access.refresh()
            return await HANDLERS[nsid](call)

    async def _caller(self, request: web.Request, method: Nsid, desk: Desk) -> Subject:
        try:
            subject = await callers.resolve(self._context.callers, request, method)
        except (AuthenticationRequired, NotEnoughResources):
            desk.count_refusal()
            raise
        desk.count_subject(subject)
        return subject


async def to_the_end(change: Awaitable[T]) -> T:
    """Carry out what was begun, though the caller has gone or its time is up.

    A change is made whole, with all that depends on it, or not at all. A query just ends.
    """
    task = asyncio.ensure_future(change)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def check_verb(request: web.BaseRequest, verbs: tuple[str, ...]) -> None:
    """Refuse a known address called the wrong way; raise `InvalidRequest`."""
    if request.method not in verbs:
        raise InvalidRequest(f"{request.method[:16]} is the wrong verb here", hint=f"use {verbs[0]}")
