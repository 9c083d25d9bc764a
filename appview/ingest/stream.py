"""One WebSocket as an endless stream of messages, whatever the network does.

Invariants:
- Messages are handed on in the order and number in which they arrive; one that arrives twice is handed on
  twice.
- Nothing is read from the socket while the receiver of the last message is not done: a slow disk slows
  reading.
- The stream goes on: no message, error or silence ends it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import aiohttp
import structlog
from aiohttp import WSMsgType

from appview.http.errors import FetchError, ForbiddenUrl
from appview.ingest.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from appview.http.client import HttpClient
    from appview.ingest.backoff import Random
    from appview.ingest.claims import ClaimEvent
    from appview.ingest.frames import AccountEvent, IdentityEvent
    from lexicons.syntax import Did

MAX_MESSAGE_BYTES: Final = (
    16_000_000  # ours; the spec allows 5 MB, and what is between is refused by decoding
)
IDLE_SECONDS: Final = 30.0  # without a byte: ask whether the other side is there
PONG_SECONDS: Final = 20.0  # no answer to that: it is not
RECONNECT: Final = Backoff(base=0.5, cap=60.0)
MAX_RETRY_AFTER: Final = 600.0  # seconds; a server that asks for more is tried again anyway

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gap:
    """Events may be missing here."""

    reason: Literal["new-source", "outdated-cursor", "future-cursor", "oversized-frame"]


@dataclass(frozen=True, slots=True)
class Letter:
    """A message of a source that speaks JSON, read. `position`: how far the source is with it, None where it
    keeps count itself. `problem`: why it could not be read; `did` is then whose it is, where that much could
    be."""

    events: tuple[ClaimEvent | IdentityEvent | AccountEvent, ...]
    size: int
    position: int | None = None
    problem: str = ""
    did: Did | None = None


Item = bytes | Letter | Gap


class Stream:
    """A WebSocket that is followed. `run` never returns; `emit` is awaited for each item before the next is
    read. What a kind of source adds is `_target`, `_opened`, `_take` and `_broken`."""

    def __init__(
        self,
        name: str,
        client: HttpClient,
        emit: Callable[[Item], Awaitable[None]],
        *,
        random: Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        idle_seconds: float = IDLE_SECONDS,
        pong_seconds: float = PONG_SECONDS,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self.name = name
        self.connected = False
        self.reconnects = 0
        self.heard_at: float | None = None  # by the event loop's clock
        self._client = client
        self._emit = emit
        self._random = random
        self._sleep = sleep
        self._idle_seconds = idle_seconds
        self._pong_seconds = pong_seconds
        self._max_message_bytes = max_message_bytes
        self._heard = False  # anything on this connection

    @property
    def position(self) -> int | None:
        """How far the source has been handed on."""
        raise NotImplementedError

    async def run(self) -> None:
        """Follow until cancelled."""
        failures = 0
        while True:
            self._heard = False
            why, asked, forbidden = "closed", 0.0, False
            try:
                why = await self._follow()
            except FetchError as error:
                why, forbidden = str(error), isinstance(error, ForbiddenUrl)
                asked = min(error.retry_after_seconds or 0.0, MAX_RETRY_AFTER)
            finally:
                self.connected = False
            failures = 1 if self._heard else failures + 1
            wait = max(RECONNECT.seconds(failures, self._random), asked)
            if forbidden:
                log.error("source forbidden", source=self.name, reason=why, retry_in=round(wait, 1))
            else:
                log.info("source disconnected", source=self.name, reason=why, retry_in=round(wait, 1))
            await self._sleep(wait)
            self.reconnects += 1

    def _target(self) -> str:
        """Give the URL to connect to."""
        raise NotImplementedError

    async def _opened(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Do what a new connection begins with."""

    async def _take(self, message: bytes) -> str | None:
        """Hand a message on; give the reason where it ends the connection."""
        raise NotImplementedError

    async def _broken(self, error: object) -> str:
        """Take note of a connection that broke, and say why."""
        if is_too_big(error):
            return f"a message above {self._max_message_bytes} bytes"
        return f"broken: {type(error).__name__}"

    async def _follow(self) -> str:
        """Read one connection to its end and say why it ended."""
        socket = await self._client.websocket(self._target(), max_message_bytes=self._max_message_bytes)
        self.connected = True
        log.info("source connected", source=self.name, position=self.position)
        await self._opened(socket)
        watch = _Watch(socket, self._idle_seconds, self._pong_seconds)
        try:
            return await self._read(socket, watch)
        finally:
            watch.stop()
            with suppress(Exception):
                await asyncio.wait_for(socket.close(), 2)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, watch: _Watch) -> str:
        while True:
            watch.waiting()
            message = await socket.receive()
            watch.heard()
            if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                self._heard = True
                self.heard_at = watch.now
                data = message.data
                end = await self._take(data if isinstance(data, bytes) else data.encode())
                if end is not None:
                    return end
            elif message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
                return "silent" if watch.gave_up else f"closed ({socket.close_code})"
            elif message.type is WSMsgType.ERROR:
                return await self._broken(message.data)


def is_too_big(error: object) -> bool:
    """Tell whether a connection broke because a message was above the limit."""
    return isinstance(error, aiohttp.WebSocketError) and error.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG


class _Watch:
    """Notices that a connection is dead: nothing heard for a while, and no pong either.

    The time counts only while the reader waits; one that is busy with the last frame is not silence.
    """

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, idle_seconds: float, pong_seconds: float
    ) -> None:
        self.gave_up = False
        self._socket = socket
        self._pong_seconds = pong_seconds
        self._idle_seconds = idle_seconds
        self._since: float | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    def waiting(self) -> None:
        """Start to count."""
        self._since = self._loop.time()

    def heard(self) -> None:
        """Stop counting."""
        self._since = None

    @property
    def now(self) -> float:
        """The event loop's time, in seconds."""
        return self._loop.time()

    def stop(self) -> None:
        """End the watch."""
        self._task.cancel()

    async def _run(self) -> None:
        step = min(self._idle_seconds, self._pong_seconds) / 4
        asked = False
        while True:
            await asyncio.sleep(step)
            silent = 0.0 if self._since is None else self._loop.time() - self._since
            if silent < self._idle_seconds:
                asked = False
            elif not asked:
                asked = True
                with suppress(ConnectionError, aiohttp.ClientError):
                    await self._socket.ping()
            elif silent >= self._idle_seconds + self._pong_seconds:
                self.gave_up = True
                await self._socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)
                return
