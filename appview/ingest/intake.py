"""From what a source brings to the engine: message by message, and note of how far that is.

Invariants: a message that cannot be used is counted and stops nothing; a source's position is noted behind
everything that its messages led to; nothing more is taken while the committer has no room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from appview.ingest.claims import ClaimEvent
from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import AccountEvent, CommitEvent, SyncEvent, frame_seq, parse_frame
from appview.ingest.sieve import concerns
from appview.ingest.stream import Letter
from lexicons.ids import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.clock import Clock
    from appview.ingest.committer import Committer
    from appview.ingest.foresight import Foresight
    from appview.ingest.frames import Event
    from appview.ingest.pipeline import Pipeline
    from appview.ingest.stream import Gap, Item
    from lexicons.syntax import Did

BATCH_FRAMES: Final = 32  # frames between two chances for others to run
MAX_SECONDS: Final = 0.02  # and the time after which such a chance comes before the next frame
_OURS: Final = f"{NAMESPACE}.".encode()  # paths of our records begin so

log = structlog.get_logger(__name__)


class Intake:
    """Hands what sources bring to the pipeline. `gap(source, host, gap)` is called where one may be."""

    def __init__(self, pipeline: Pipeline, committer: Committer, clock: Clock, foresight: Foresight) -> None:
        self.taken: dict[str, tuple[int, Item]] = {}  # when a source's last event was taken, and what it was
        self.gap: Callable[[str, str | None, Gap], None] = lambda _source, _host, _gap: None
        self._pipeline = pipeline
        self._committer = committer
        self._clock = clock
        self._foresight = foresight

    async def take(self, source: str, items: list[Item], host: str | None = None) -> None:
        """Take what a source brought, and note how far that is. `host`: the PDS that speaks for itself."""
        waiting = deque(items)
        try:
            while waiting:
                self._foresight.look_ahead(waiting, BATCH_FRAMES)
                async with self._pipeline.lock:
                    await self._take_some(source, waiting, host)
                for _ in range(2):  # the first round sees what has come, the second one hands it on
                    await asyncio.sleep(0)
        finally:
            self._foresight.forget(items)

    async def _take_some(self, source: str, waiting: deque[Item], host: str | None) -> None:
        """Take what comes first, for a while. The lock is held."""
        loop = asyncio.get_running_loop()
        until = loop.time() + MAX_SECONDS
        taken: list[Item] = []
        while waiting and len(taken) < BATCH_FRAMES and (not taken or loop.time() < until):
            item = waiting.popleft()
            taken.append(item)
            match item:
                case bytes():
                    await self._frame(item, host)
                case Letter():
                    await self._letter(item)
                case _:
                    self.gap(source, host, item)
        last = next(((seq, item) for item in reversed(taken) if (seq := _seq(item)) is not None), None)
        if last is not None:
            self._committer.reached(source, last[0])
            self.taken[source] = (self._clock(), last[1])
        await self._committer.room()

    async def _frame(self, frame: bytes, host: str | None) -> None:
        """Take one message. Whatever is wrong with it, the next one comes."""
        try:
            await self._read(frame, host)
        except Exception as error:  # a message that breaks the program must not stop the stream
            self._pipeline.events["broken"] += 1
            log.exception("an event is given up", error=repr(error), bytes=len(frame))
            did = _did_of(frame)
            if did is not None:
                await self._lost(did, "broken", host)

    async def _letter(self, letter: Letter) -> None:
        """Take one message that was read already. Whatever is wrong with it, the next one comes."""
        if letter.problem:
            await self._malformed(letter.did, letter.problem)
        for event in letter.events:
            try:
                await self._event(event, None)
            except Exception as error:  # as above
                self._pipeline.events["broken"] += 1
                log.exception("an event is given up", error=repr(error), bytes=letter.size)
                await self._lost(event.did, "broken")

    async def _read(self, frame: bytes, host: str | None) -> None:
        if not concerns(frame, _OURS, self._pipeline.engine.tracked):
            self._pipeline.events["not ours"] += 1
            return
        try:
            event = parse_frame(frame)
        except MalformedFrame as error:
            await self._malformed(error.did, str(error), host)
            return
        if event is None:
            self._pipeline.events["unknown"] += 1
            return
        self._foresight.meet(frame, event)
        await self._event(event, host)

    async def _event(self, event: Event | ClaimEvent, host: str | None) -> None:
        pipeline = self._pipeline
        pipeline.events[type(event).__name__] += 1
        commands = pipeline.engine.receive(event, self._clock(), host)
        if commands:
            await pipeline.carry_out(commands)
        elif isinstance(event, CommitEvent | SyncEvent | AccountEvent | ClaimEvent):
            pipeline.note(event.did)  # it waits

    async def _malformed(self, did: Did | None, problem: str, host: str | None = None) -> None:
        self._pipeline.reject("malformed-frame", did, problem)
        await self._lost(did, problem, host)

    async def _lost(self, did: Did | None, problem: str, host: str | None = None) -> None:
        commands = self._pipeline.engine.malformed(did, problem, self._clock(), host)
        await self._pipeline.carry_out(commands)


def _seq(item: Item) -> int | None:
    if isinstance(item, bytes):
        return frame_seq(item)
    return item.position if isinstance(item, Letter) else None


def _did_of(frame: bytes) -> Did | None:
    try:
        event = parse_frame(frame)
    except MalformedFrame as error:
        return error.did
    return getattr(event, "did", None)
