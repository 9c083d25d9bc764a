"""A firehose (`com.atproto.sync.subscribeRepos`) as an endless stream of frames, whatever the network does.

Invariants:
- Frames are handed on in the order and number in which they arrive; one that arrives twice is handed on
  twice.
- Nothing is read from the socket while the receiver of the last frame is not done: a slow disk slows
  reading.
- Where events may be missing (an outdated cursor, a relay that was reset, a frame too large to be read) a
  `Gap` is handed on at that place, and the receiver compares what it has with the repos themselves.
- The stream goes on: no frame, error or silence ends it, and no frame is asked for for ever.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import aiohttp
import structlog
from aiohttp import WSMsgType
from yarl import URL

from appview.errors import ConfigurationError
from appview.http.errors import FetchError, ForbiddenUrl
from appview.ingest.backoff import Backoff
from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import ErrorEvent, InfoEvent, frame_seq, parse_frame

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from appview.http.client import HttpClient
    from appview.ingest.backoff import Random

MAX_MESSAGE_BYTES: Final = (
    16_000_000  # ours; the spec allows 5 MB, and what is between is refused by decoding
)
IDLE_SECONDS: Final = 30.0  # without a byte: ask whether the other side is there
PONG_SECONDS: Final = 20.0  # no answer to that: it is not
RECONNECT: Final = Backoff(base=0.5, cap=60.0)
MAX_RETRY_AFTER: Final = 600.0  # seconds; a server that asks for more is tried again anyway
OLDEST: Final = 0  # the cursor that asks for all that is kept
_COMMIT: Final = b"#commit"  # a frame that has it in its header is no word about the stream itself
_HEADER_BYTES: Final = 20
_METHOD: Final = "/xrpc/com.atproto.sync.subscribeRepos"
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gap:
    """Events may be missing here."""

    reason: Literal["outdated-cursor", "future-cursor", "oversized-frame"]


Item = bytes | Gap


class Firehose:
    """One firehose. `run` never returns; `emit` is awaited for each item before the next is read.

    `position` is the stored cursor, None where there is none: then everything that is kept is asked for.
    """

    def __init__(
        self,
        url: str,
        client: HttpClient,
        emit: Callable[[Item], Awaitable[None]],
        position: int | None,
        *,
        random: Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        idle_seconds: float = IDLE_SECONDS,
        pong_seconds: float = PONG_SECONDS,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self.url = endpoint(url)
        self.connected = False
        self.reconnects = 0
        self.heard_at: float | None = None  # by the event loop's clock
        self._client = client
        self._emit = emit
        self._position = OLDEST if position is None else position
        self._last: bytes | None = None
        self._random = random
        self._sleep = sleep
        self._idle_seconds = idle_seconds
        self._pong_seconds = pong_seconds
        self._max_message_bytes = max_message_bytes
        self._skip = 0  # how far the last frame too large was jumped over
        self._live = False  # go on at the live tail, whatever its seq is
        self._heard = False  # anything on this connection

    @property
    def position(self) -> int:
        """The seq of the last frame that was handed on."""
        if self._last is not None:
            seq = frame_seq(self._last)
            self._position = self._position if seq is None else seq
            self._last = None
        return self._position

    async def run(self) -> None:
        """Follow the firehose until cancelled."""
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
                log.error("source forbidden", source=self.url, reason=why, retry_in=round(wait, 1))
            else:
                log.info("source disconnected", source=self.url, reason=why, retry_in=round(wait, 1))
            await self._sleep(wait)
            self.reconnects += 1

    async def _follow(self) -> str:
        """Read one connection to its end and say why it ended."""
        position = None if self._live else self.position
        url = self.url if position is None else str(URL(self.url).with_query(cursor=str(position)))
        socket = await self._client.websocket(url, max_message_bytes=self._max_message_bytes)
        self.connected = True
        log.info("source connected", source=self.url, cursor=position)
        if self._live:
            await self._emit(Gap("oversized-frame"))
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
            if message.type is WSMsgType.BINARY:
                self._heard = True
                self.heard_at = watch.now
                end = await self._take(message.data)
                if end is not None:
                    return end
            elif message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
                return "silent" if watch.gave_up else f"closed ({socket.close_code})"
            elif message.type is WSMsgType.ERROR:
                return await self._broken(message.data)

    async def _take(self, frame: bytes) -> str | None:
        """Hand a frame on; give the reason where it ends the connection."""
        if _COMMIT not in frame[:_HEADER_BYTES]:
            try:
                event = parse_frame(frame)
            except MalformedFrame:
                event = None  # counted where frames are decoded
            match event:
                case ErrorEvent(error="FutureCursor") if self._skip:
                    self._live = True  # jumped over the newest frame, and too far
                    return "FutureCursor"
                case ErrorEvent(error="FutureCursor"):
                    # The relay lost its history. Its new one is read from the start.
                    self._position, self._last = OLDEST, None
                    await self._emit(Gap("future-cursor"))
                    return "FutureCursor"
                case ErrorEvent(error=name):
                    return name or "an error frame without a name"
                case InfoEvent(name="OutdatedCursor"):
                    await self._emit(Gap("outdated-cursor"))
                    return None
        await self._emit(frame)
        self._last = frame
        self._skip = 0
        self._live = False
        return None

    async def _broken(self, error: object) -> str:
        if isinstance(error, aiohttp.WebSocketError) and error.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            # Asked for again it would come again. Its seq is unknown, and seqs have gaps: jump, each time
            # further.
            self._skip = self._skip * 2 or 1
            self._position = self.position + self._skip
            await self._emit(Gap("oversized-frame"))
            return f"a message above {self._max_message_bytes} bytes"
        return f"broken: {type(error).__name__}"


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


def endpoint(source: str) -> str:
    """Make the subscription's URL of a source as configured: a host's base URL, or the whole URL.

    Raises `ConfigurationError`.
    """
    try:
        url = URL(source)
    except ValueError:
        raise ConfigurationError(f"not a URL: {source[:200]}") from None
    scheme = _SCHEMES.get(url.scheme)
    if scheme is None or not url.host:
        raise ConfigurationError(
            f"not a firehose: {source[:200]}", hint="a source is wss://relay.example or https://pds.example"
        )
    path = _METHOD if url.path in ("", "/") else url.path
    return str(url.with_scheme(scheme).with_path(path).with_query(None).with_fragment(None))
