"""Tap: the events of the accounts that it was told to follow, verified by it, each to be acknowledged.

Invariants: a message is acknowledged when all that it led to is on disk, and not before; of a connection that
has ended nothing is acknowledged any more, for its messages come again; Tap is told of every account that is
followed here, again after each new connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import structlog

from appview.http.errors import FetchError
from appview.ingest.backoff import Backoff
from appview.ingest.errors import MalformedFrame
from appview.ingest.json_events import glance, read_message, tap_events, tap_id
from appview.ingest.stream import Item, Letter, Stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from appview.http.client import HttpClient
    from appview.source_lines import SourceLine
    from lexicons.syntax import Did

MAX_MESSAGE_BYTES: Final = 8_000_000  # a record of 1 MB, as JSON with escapes
POLL_SECONDS: Final = 0.5  # how soon Tap hears of a new account
ADD_AT_ONCE: Final = 500  # accounts in one request
RETRY: Final = Backoff(base=1.0, cap=60.0)

log = structlog.get_logger(__name__)


class Tap(Stream):
    """One Tap. `followed` gives the accounts that are followed at the moment."""

    def __init__(
        self,
        line: SourceLine,
        client: HttpClient,
        emit: Callable[[Item], Awaitable[None]],
        followed: Callable[[], Collection[Did]],
        **options: Any,
    ) -> None:
        super().__init__(line.name, client, emit, **{"max_message_bytes": MAX_MESSAGE_BYTES} | options)
        self._line = line
        self._followed = followed
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._unacknowledged: deque[tuple[aiohttp.ClientWebSocketResponse, int | None]] = deque()
        self._added: set[Did] = set()
        self.acknowledged = 0

    @property
    def position(self) -> int | None:
        """Nothing: Tap keeps count itself."""
        return None

    async def run(self) -> None:
        """Follow, and tell Tap whom to follow, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name=f"read {self.name}")
            group.create_task(self._keep_added(), name=f"accounts of {self.name}")

    async def acknowledge(self, count: int) -> None:
        """Acknowledge the oldest `count` messages that were handed on: all they led to is on disk."""
        for _ in range(count):
            socket, number = self._unacknowledged.popleft()
            if number is None or socket is not self._socket or socket.closed:
                continue
            with suppress(ConnectionError, aiohttp.ClientError):
                await socket.send_json({"type": "ack", "id": number})
                self.acknowledged += 1

    def _target(self) -> str:
        return self._line.url

    async def _opened(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._added.clear()  # it may be another Tap, or one that lost its disk

    async def _take(self, message: bytes) -> str | None:
        number = glance(message)
        try:
            body = read_message(message)
            number = tap_id(body)
            letter = Letter(tap_events(body, trusted=not self._line.proof), len(message))
        except MalformedFrame as error:
            letter = Letter((), len(message), problem=str(error), did=error.did)
        if self._socket is None:
            raise AssertionError("a message without a connection")
        self._unacknowledged.append((self._socket, number))
        await self._emit(letter)
        return None

    async def _keep_added(self) -> None:
        failures = 0
        while True:
            await asyncio.sleep(POLL_SECONDS)
            missing = list(islice((did for did in self._followed() if did not in self._added), ADD_AT_ONCE))
            if not missing or not self.connected:
                continue
            try:
                await self._client.post(f"{self._line.origin}/repos/add", {"dids": missing})
            except FetchError as error:
                failures += 1
                wait = RETRY.seconds(failures, self._random)
                log.warning("tap cannot be told of accounts", source=self.name, error=str(error))
                await asyncio.sleep(max(wait, min(error.retry_after_seconds or 0.0, RETRY.cap)))
            else:
                failures = 0
                self._added.update(missing)
                log.info("tap follows more accounts", source=self.name, accounts=len(missing))
