"""A firehose (`com.atproto.sync.subscribeRepos`) as an endless stream of frames.

Where events may be missing (an outdated cursor, a relay that was reset, a frame too large to be read) a `Gap`
is handed on at that place, and the receiver compares what it has with the repos themselves. No frame is asked
for for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from yarl import URL

from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import MAX_SEQ, ErrorEvent, InfoEvent, frame_seq, parse_frame
from appview.ingest.stream import Gap, Item, Stream, is_too_big
from appview.source_lines import parse_source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import aiohttp

    from appview.http.client import HttpClient

OLDEST: Final = 0  # the cursor that asks for all that is kept
_COMMIT: Final = b"#commit"  # a frame that has it in its header is no word about the stream itself
_HEADER_BYTES: Final = 20


class Firehose(Stream):
    """One firehose.

    `position` is the stored cursor, None where there is none: then everything that is kept is asked for.
    """

    def __init__(
        self,
        url: str,
        client: HttpClient,
        emit: Callable[[Item], Awaitable[None]],
        position: int | None,
        **options: Any,
    ) -> None:
        self.url = parse_source(url).url
        super().__init__(self.url, client, emit, **options)
        self._position = OLDEST if position is None else position
        self._last: bytes | None = None
        self._skip = 0  # how far the last frame too large was jumped over
        self._live = False  # go on at the live tail, whatever its seq is
        self._asked: int | None = None  # the cursor of this connection, until the first frame behind it

    @property
    def position(self) -> int:
        """The seq of the last frame that was handed on."""
        if self._last is not None:
            seq = frame_seq(self._last)
            self._position = self._position if seq is None else seq
            self._last = None
        return self._position

    def _target(self) -> str:
        self._asked = None if self._live else self.position
        if self._live:
            return self.url
        return str(URL(self.url).with_query(cursor=str(self.position)))

    async def _opened(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        if self._live:
            await self._emit(Gap("oversized-frame"))

    async def _take(self, frame: bytes) -> str | None:
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
        if self._asked is not None:
            seq = frame_seq(frame)
            if seq is not None and seq < self._asked:  # it began anew, and told nobody
                await self._emit(Gap("future-cursor"))
            self._asked = None
        await self._emit(frame)
        self._last = frame
        self._skip = 0
        self._live = False
        return None

    async def _broken(self, error: object) -> str:
        if is_too_big(error):
            # Asked for again it would come again. Its seq is unknown, and seqs have gaps: jump, each time
            # further.
            self._skip = self._skip * 2 or 1
            self._position = min(self.position + self._skip, MAX_SEQ)
            await self._emit(Gap("oversized-frame"))
        return await super()._broken(error)
