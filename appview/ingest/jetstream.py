"""Jetstream: the events of our collections, and of every account, as JSON without proofs.

Its cursor is a time, that of the last message handed on. A connection begins a little before it, for messages
of one moment may have been cut apart, and another instance may have seen them in another order; what comes
again is no news. A Jetstream keeps a few days and does not say what it has forgotten: after a longer absence
a `Gap` is handed on first.

Invariant: a time ahead of the clock is never a cursor, whatever a message says: all that comes until then
would be passed over. A cursor that is ahead all the same, for the clock was, is given up: everything that the
server has is asked for, behind a `Gap`.
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
MAX_AHEAD: Final = 300 * _SECOND  # ours: as far as a rev may be ahead of the time
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
        self._lost_track = False  # its cursor was of no use

    @property
    def position(self) -> int | None:
        """The time of the last message that was handed on."""
        return self._position

    def _target(self) -> str:
        if self._position is not None and self._is_ahead(self._position):
            self._position, self._lost_track = None, True
        start = self._clock() - FIRST if self._position is None else self._position - REWIND
        query = [
            ("wantedCollections", str(MEMORY)),
            ("wantedCollections", str(CONFIG)),
            ("cursor", str(max(0, start))),
        ]
        return str(URL(self._line.url).with_query(query))

    async def _opened(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        if self._lost_track:
            await self._emit(Gap("future-cursor"))
            self._lost_track = False
        elif self._position is not None and self._clock() - self._position > MEMORY_OF_SERVER:
            await self._emit(Gap("outdated-cursor"))

    async def _take(self, message: bytes) -> str | None:
        try:
            body = read_message(message)
        except MalformedFrame as error:
            await self._emit(Letter((), len(message), glance(message), str(error), error.did))
            return None
        position = jetstream_position(body)
        if position is None or self._is_ahead(position):
            position = self._position
        else:  # a rewind, and a clock of the server that was put back, do not take the cursor back
            position = max(self._position or 0, position)
        try:
            events = jetstream_events(body, trusted=not self._line.proof)
            letter = Letter(events, len(message), position)
        except MalformedFrame as error:
            letter = Letter((), len(message), position, str(error), error.did)
        await self._emit(letter)
        self._position = position
        return None

    def _is_ahead(self, position: int) -> bool:
        return position > self._clock() + MAX_AHEAD

    async def _broken(self, error: object) -> str:
        if is_too_big(error):
            now = self._clock()
            self._position = min((self._position or now) + REWIND + 1, now + REWIND)
            await self._emit(Gap("oversized-frame"))
        return await super()._broken(error)
