"""Sources as they run: each reads into a bounded queue of its own, from which the pipeline takes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from yarl import URL

from appview.errors import ConfigurationError
from appview.http.addresses import is_loopback
from appview.http.client import HttpClient
from appview.ingest.jetstream import Jetstream
from appview.ingest.queues import ByteQueue
from appview.ingest.source import Firehose
from appview.ingest.stream import Gap, Item, Letter
from appview.ingest.tap import Tap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from appview.clock import Clock
    from appview.control import Control
    from appview.ingest.backoff import Random
    from appview.ingest.committer import Committer
    from appview.ingest.intake import Intake
    from appview.ingest.pipeline import Pipeline
    from appview.ingest.stream import Stream
    from appview.source_lines import SourceLine

TAKE: Final = 1_024  # items taken from a queue at once
TAKE_BYTES: Final = 8 * 1024 * 1024  # and about so many bytes
TAP_USER: Final = "admin"  # Tap's own choice
MAX_PASSWORD_BYTES: Final = 4_096


class Feed:
    """One source. `run` follows it until cancelled."""

    def __init__(
        self,
        line: SourceLine,
        client: HttpClient,
        control: Control,
        pipeline: Pipeline,
        intake: Intake,
        committer: Committer,
        clock: Clock,
        *,
        random: Random,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.line = line
        self._client = client
        self._control = control
        self._pipeline = pipeline
        self._intake = intake
        self._committer = committer
        self._clock = clock
        self._random = random
        self._sleep = sleep
        self._queue: ByteQueue[Item] = ByteQueue()
        self._stream: Stream | None = None

    async def run(self) -> None:
        """Read, and hand on what was read."""
        async with AsyncExitStack() as stack:
            stream = self._stream = await self._open(stack)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            group.create_task(stream.run(), name=f"read {self.line.name}")
            while True:
                items = await self._queue.get_some(TAKE, TAKE_BYTES)
                await self._intake.take(self.line.name, items, self.line.host)
                if isinstance(stream, Tap):
                    await self._committer.flush()
                    await stream.acknowledge(sum(isinstance(item, Letter) for item in items))

    def status(self) -> dict[str, Any]:
        """Tell how it goes."""
        stream = self._stream
        if stream is None:
            return {"connected": False}
        silent = None
        if stream.heard_at is not None:
            silent = round(asyncio.get_running_loop().time() - stream.heard_at, 1)
        return {
            "connected": stream.connected,
            "reconnects": stream.reconnects,
            "position": stream.position,
            "silent seconds": silent,
            "queued": len(self._queue),
            "queued_bytes": self._queue.bytes,
        }

    async def _open(self, stack: AsyncExitStack) -> Stream:
        line, options = self.line, {"random": self._random, "sleep": self._sleep}
        match line.kind:
            case "firehose" | "pds":
                position = await self._position()
                return Firehose(line.url, self._client, self._put, position, **options)
            case "jetstream":
                position = await self._position()
                return Jetstream(line, self._client, self._put, position, self._clock, **options)
            case "tap":
                client = await stack.enter_async_context(tap_client(line))
                return Tap(line, client, self._put, self._pipeline.rows.keys, **options)

    async def _position(self) -> int | None:
        """Read the stored cursor. A new source may begin behind what another one has brought."""
        position = await self._control.cursor(self.line.name)
        if position is None:
            await self._put(Gap("new-source"))
        return position

    async def _put(self, item: Item) -> None:
        match item:
            case bytes():
                size = len(item)
            case Letter():
                size = item.size
            case _:
                size = 0
        await self._queue.put(item, size)


def tap_client(line: SourceLine) -> HttpClient:
    """Make the client for one Tap, which the operator runs: it may be on this machine, and has a password.

    Raises `ConfigurationError`.
    """
    password = None
    if line.password_file is not None:
        password = (line.url, TAP_USER, _read_password(Path(line.password_file)))
    return HttpClient(allow_loopback=is_loopback(URL(line.url).host or ""), password=password)


def _read_password(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PASSWORD_BYTES + 1)
        password = content.decode().strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read the password file {path}: {error}") from None
    if not password or len(content) > MAX_PASSWORD_BYTES:
        raise ConfigurationError(f"the password file {path} is empty or too long")
    return password
