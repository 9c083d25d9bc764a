"""A relay in a process of its own, so that what a benchmark measures does not send to itself.

It prints its URL. It then reads frames from its standard input, each as seq and length (two 64-bit numbers,
big-endian) and bytes, and holds them. A frame of no bytes says that these are all, and is answered by a
line; the byte after it lets them go. The end of the input ends it.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

from tests.network.synthetic.pds import Pds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

HEAD: Final = struct.Struct(">QQ")  # seq, bytes
BUFFER: Final = 64 * 1024 * 1024


class Relay:
    """The other end of the process. `url` is where it serves."""

    def __init__(self, url: str, process: asyncio.subprocess.Process) -> None:
        self.url = url
        self._process = process

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        """Run one."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stdin is not None
        try:
            relay = cls("", process)
            relay.url = await relay._line()
            yield relay
        finally:
            process.stdin.close()
            await process.wait()

    async def hold(self, frames: Iterable[tuple[int, bytes]]) -> None:
        """Give it frames to keep until `release`."""
        stdin = self._process.stdin
        assert stdin is not None
        for seq, frame in frames:
            stdin.write(HEAD.pack(seq, len(frame)) + frame)
        stdin.write(HEAD.pack(0, 0))
        await stdin.drain()
        await self._line()

    async def release(self) -> None:
        """Let it send what it holds."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(b"\n")
        await stdin.drain()

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the relay has ended")
        return line.decode().strip()


async def serve() -> None:
    """Be the process."""
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader(limit=BUFFER)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with Pds() as relay:
        _say(relay.url)
        held: list[tuple[int, bytes]] = []
        while True:
            try:
                seq, size = HEAD.unpack(await stdin.readexactly(HEAD.size))
                if size:
                    held.append((seq, await stdin.readexactly(size)))
                    continue
                _say(str(len(held)))
                await stdin.readexactly(1)
            except asyncio.IncompleteReadError:
                return
            for seq, frame in held:
                relay.firehose.push(frame, seq)
            held.clear()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve())
