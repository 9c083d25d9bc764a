"""Jetstream: the events of our collections, and of every account, as JSON without proofs.

Its cursor is a time, that of the last message handed on. A connection begins a little before it, for messages
of one moment may have been cut apart, and another instance may have seen them in another order; what comes
again is no news. A Jetstream keeps a few days and does not say what it has forgotten: after a longer absence
a `Gap` is handed on first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from yarl import URL

from appview.ingest.errors import MalformedFrame
from appview.ingest.json_events import glance, jetstream_events, jetstream_position, read_message
from appview.ingest.stream import Gap, Item, Letter, Stream, is_too_big
from lexicons.ids import CONFIG, MEMORY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import aiohttp

    from appview.clock import Clock
    from appview.http.client import HttpClient
    from appview.source_lines import SourceLine

_SECOND: Final = 1_000_000  # microseconds
REWIND: Final = 5 * _SECOND  # ours: Jetstream's own advice is "a few seconds"
FIRST: Final = 72 * 3600 * _SECOND  # how far back a first connection asks; the server gives what it has
MEMORY_OF_SERVER: Final = 20 * 3600 * _SECOND  # what any instance keeps, a day by default, and a margin
MAX_MESSAGE_BYTES: Final = 8_000_000  # a record of 1 MB, as JSON with escapes


class Jetstream(Stream):
    """One Jetstream. `position` is the stored cursor, microseconds since 1970, or None."""

    def __init__(
        self,
        line: SourceLine,
        client: HttpClient,
        emit: Callable[[Item], Awaitable[None]],
        position: int | None,
        clock: Clock,
        **options: Any,
    ) -> None:
        super().__init__(line.name, client, emit, **{"max_message_bytes": MAX_MESSAGE_BYTES} | options)
        self._line = line
        self._position = position
        self._clock = clock

    @property
    def position(self) -> int | None:
        """The time of the last message that was handed on."""
        return self._position

    def _target(self) -> str:
        start = self._clock() - FIRST if self._position is None else self._position - REWIND
        query = [
            ("wantedCollections", str(MEMORY)),
            ("wantedCollections", str(CONFIG)),
            ("cursor", str(max(0, start))),
        ]
        return str(URL(self._line.url).with_query(query))

    async def _opened(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        if self._position is not None and self._clock() - self._position > MEMORY_OF_SERVER:
            await self._emit(Gap("outdated-cursor"))

    async def _take(self, message: bytes) -> str | None:
        try:
            body = read_message(message)
        except MalformedFrame as error:
            await self._emit(Letter((), len(message), glance(message), str(error), error.did))
            return None
        position = jetstream_position(body)
        try:
            events = jetstream_events(body, trusted=not self._line.proof)
            letter = Letter(events, len(message), position)
        except MalformedFrame as error:
            letter = Letter((), len(message), position, str(error), error.did)
        await self._emit(letter)
        # A rewind, and a clock of the server that was put back, do not take the cursor back.
        if position is not None:
            self._position = max(self._position or 0, position)
        return None

    async def _broken(self, error: object) -> str:
        if is_too_big(error):
            self._position = (self._position or self._clock()) + REWIND + 1
            await self._emit(Gap("oversized-frame"))
        return await super()._broken(error)
