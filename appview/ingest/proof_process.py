"""The appview's end of a `proof_worker`: starts it, asks it, hears its answers, ends it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, cast

from appview.ingest import proof_worker
from appview.ingest.proof_worker import HEAD, read_answer, write_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from appview.identity.keys import PublicKey

START_SECONDS: Final = 60.0  # until the first answer: a busy machine takes long to start a program


class ProofProcess(asyncio.SubprocessProtocol):
    """A process that proves. Answers come in the order of the requests; `ended` is set when it is gone."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._transport: asyncio.SubprocessTransport
        self._received = bytearray()
        self._asked: deque[tuple[float, Callable[[list[Any]], None]]] = deque()
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def start(cls) -> Self:
        """Start one and wait until it answers; raise `OSError` (`TimeoutError` is one) where it does not."""
        loop = asyncio.get_running_loop()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        _, process = await loop.subprocess_exec(
            cls, sys.executable, "-m", proof_worker.__name__, stderr=None, env=environment
        )
        ready = asyncio.Event()
        process.ask((), 0, lambda _outcomes: ready.set())
        waits = [asyncio.create_task(event.wait()) for event in (ready, process.ended)]
        try:
            await asyncio.wait(waits, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            if not ready.is_set():
                await process.close()
        if not ready.is_set():
            raise OSError("it does not answer")
        return process

    @property
    def pid(self) -> int:
        """Its number."""
        return self._transport.get_pid()

    @property
    def waiting(self) -> int:
        """How many requests are not answered."""
        return len(self._asked)

    @property
    def silent_seconds(self) -> float:
        """How long the oldest request has waited for its answer."""
        return self._loop.time() - self._asked[0][0] if self._asked else 0.0

    def ask(
        self, jobs: Sequence[tuple[PublicKey, bytes]], now: int, hear: Callable[[list[Any]], None]
    ) -> None:
        """Have messages proven; `hear(outcomes)` is called with an outcome for each, unless it ends first."""
        stdin = self._transport.get_pipe_transport(0)
        if stdin is None or self.ended.is_set():
            return
        self._asked.append((self._loop.time(), hear))
        request = write_request(jobs, now)
        cast("asyncio.WriteTransport", stdin).write(HEAD.pack(len(request)) + request)

    async def close(self) -> None:
        """End it at once: nothing that it does is worth waiting for."""
        with suppress(ProcessLookupError):
            self._transport.kill()
        await self.ended.wait()
        self._transport.close()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the process."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what it wrote."""
        received = self._received
        received += data
        while len(received) >= HEAD.size:
            (size,) = HEAD.unpack_from(received)
            if len(received) < HEAD.size + size:
                return
            outcomes = read_answer(bytes(received[HEAD.size : HEAD.size + size]))
            del received[: HEAD.size + size]
            _, hear = self._asked.popleft()
            hear(outcomes)

    def process_exited(self) -> None:
        """Take note of its end."""
        self._asked.clear()
        self.ended.set()
