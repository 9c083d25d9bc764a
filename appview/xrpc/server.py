"""The listening socket: limits on what a connection may send, how slowly, and how many there are.

aiohttp's own defaults refuse vectors of more than about 3,050 dimensions and put the refused URL, a question
and a vector, into the log. Here every limit is named, what breaks one is answered as JSON, and nothing of the
request is repeated.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.http_exceptions import LineTooLong

from appview.descriptors import MAX_CONNECTIONS
from appview.xrpc.connections import Connections
from appview.xrpc.errors import InternalServerError, InvalidRequest, PayloadTooLarge, XrpcError
from appview.xrpc.limits import address_of
from appview.xrpc.responses import COMMON_HEADERS, error_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from appview.setting_kinds import Network

# The longest query there is: a vector of 16,000 dimensions (42,667 characters), q (4,000 bytes, three
# characters each when escaped: 12,000), 16 tags of 128 bytes (6,240), model and digest (1,536), and the names
# of space and author: 67 kB. Rounded up to whole pages.
MAX_REQUEST_LINE_BYTES: Final = 80 * 1024
MAX_HEADER_BYTES: Final = 16 * 1024  # ours: one header; a service-auth token is under 2 kB
MAX_HEADERS: Final = 64  # ours
KEEPALIVE_SECONDS: Final = 30.0  # ours: how long a connection may take to send a whole request head
STALL_SECONDS: Final = 30.0  # ours: how long a client may leave an answer unread
LINGER_SECONDS: Final = 2.0  # ours: how long a body that nobody reads is drained
SHUTDOWN_SECONDS: Final = 15.0  # ours: more than the deadline of a query
BACKLOG: Final = 128

_log = structlog.get_logger("appview.xrpc")


class AccessLog(AbstractAccessLogger):
    """One line a request. Query strings stay out: they hold questions and vectors."""

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        """Write the line of a finished request; `time` is in seconds."""
        _log.info(
            "request",
            method=request.method,
            path=request.path[:100],
            status=response.status,
            ms=round(time * 1000, 1),
            bytes=response.body_length,
            remote=address_of(request) or request.remote,
            request_id=response.headers.get("X-Request-Id"),
        )

    @property
    def enabled(self) -> bool:
        """Whether anything would be written."""
        return True


class Connection(web.RequestHandler):
    """One client's connection."""

    __slots__ = ("_stalled", "peer")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stalled: asyncio.TimerHandle | None = None
        self.peer: str | None = None  # the address of the other side

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request."""
        return self._current_request is None

    def pause_writing(self) -> None:
        """Begin to watch whether the client reads on."""
        super().pause_writing()
        self._watch(None)

    def resume_writing(self) -> None:
        """The client has read nearly everything: stop watching."""
        super().resume_writing()
        self._stop_watch()

    def _watch(self, unread_before: int | None) -> None:
        """End the connection when nothing of the answer was read since the last look."""
        if self.transport is None:
            return
        unread = self.transport.get_write_buffer_size()
        if unread_before is not None and unread >= unread_before:
            self.transport.abort()
            return
        self._stalled = asyncio.get_running_loop().call_later(STALL_SECONDS, self._watch, unread)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the watch with the connection."""
        self._stop_watch()
        super().connection_lost(exc)

    def _stop_watch(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is not HTTP, or too long, without repeating it; the connection ends."""
        error: XrpcError
        if isinstance(exc, LineTooLong):
            error = PayloadTooLarge(
                f"the URL takes at most {MAX_REQUEST_LINE_BYTES} bytes, a header {MAX_HEADER_BYTES}"
            )
        elif status == 400:
            error = InvalidRequest("not a valid HTTP request")
        else:
            error = InternalServerError()
            _log.error("request failed outside its handler", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer had begun")
        response = error_answer(error)
        response.headers.update(COMMON_HEADERS)
        response.force_close()
        return response


class _Server(web.Server):
    """Makes connections of our kind, and not too many."""

    def __init__(
        self, server: web.Server, options: dict[str, Any], connections: Connections[Connection]
    ) -> None:
        super().__init__(
            server.request_handler,
            request_factory=server.request_factory,
            handler_cancellation=True,
            **options,
        )
        self._options = options
        self._open = connections

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=asyncio.get_running_loop(), **self._options)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        connection, peer = cast("Connection", handler), transport.get_extra_info("peername")
        connection.peer = peer[0] if isinstance(peer, tuple) else None
        one_too_many = self._open.add(connection, connection.peer)
        if one_too_many is not None and one_too_many.transport is not None:
            one_too_many.transport.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        connection = cast("Connection", handler)
        self._open.remove(connection, connection.peer)


class _Runner(web.AppRunner):
    def __init__(
        self, app: web.Application, options: dict[str, Any], connections: Connections[Connection]
    ) -> None:
        super().__init__(app, shutdown_timeout=SHUTDOWN_SECONDS)
        self._options = options
        self._connections = connections

    async def _make_server(self) -> web.Server:
        return _Server(await super()._make_server(), self._options, self._connections)


@asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    *,
    keepalive: float = KEEPALIVE_SECONDS,
    max_connections: int = MAX_CONNECTIONS,
    trusted: tuple[Network, ...] = (),
) -> AsyncIterator[int]:
    """Serve `app` for the time of the block and give the port (chosen by the system where `port` is 0).

    Of more than `max_connections` one of whoever has the most is closed; `trusted` proxies keep theirs.

    At the end no connection is accepted any more and what is being answered gets `SHUTDOWN_SECONDS` to end.
    """
    options = {
        "keepalive_timeout": keepalive,
        "max_line_size": MAX_REQUEST_LINE_BYTES,
        "max_field_size": MAX_HEADER_BYTES,
        "max_headers": MAX_HEADERS,
        "lingering_time": LINGER_SECONDS,
        "access_log_class": AccessLog,
    }
    connections: Connections[Connection] = Connections(max_connections, lambda each: each.is_idle, trusted)
    runner = _Runner(app, options, connections)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=BACKLOG)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
