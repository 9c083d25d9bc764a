"""`engram-appview` as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND = (sys.executable, "-c", "from appview.cli import main; main()")
START_SECONDS = 120.0  # 1-2 s are usual; a run in the background of a busy machine was seen to take over 30


def environment(data: Path, source: str, plc: str, **more: str) -> dict[str, str]:
    """Give the environment of an appview on loopback, without what the machine may have set for another."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    return kept | {
        "ENGRAM_DATA": str(data),
        "ENGRAM_SOURCE": source,
        "ENGRAM_PLC_URL": plc,
        "ENGRAM_ALLOW_LOOPBACK": "true",
        "ENGRAM_PORT": "0",
        "ENGRAM_LOG_FORMAT": "json",
        "PYTHONPATH": os.pathsep.join(sys.path),
        **more,
    }


class Appview:
    """A running `engram-appview serve`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[dict[str, Any]] = []
        self._url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, variables: Mapping[str, str]) -> Appview:
        """Start one."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "serve", env=dict(variables), stderr=asyncio.subprocess.PIPE
        )
        return cls(process)

    async def url(self, seconds: float = START_SECONDS) -> str:
        """Wait until it listens."""
        async with asyncio.timeout(seconds):
            return await asyncio.shield(self._url)

    async def until_open(self, file: Path) -> None:
        """Wait until it has a file open, where the system tells; elsewhere, until it listens."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        if not folder.is_dir():
            await self.url()
            return

        def is_open() -> bool:
            with suppress(OSError):
                return any(each.resolve() == file.resolve() for each in folder.iterdir())
            return False

        async with asyncio.timeout(START_SECONDS):
            while not is_open():  # noqa: ASYNC110 - another process signals nothing
                await asyncio.sleep(0.002)

    @property
    def listens(self) -> bool:
        """Whether it has said that it listens."""
        return any(entry.get("event") == "listening" for entry in self.log)

    async def kill(self) -> None:
        """End it as a power cut does."""
        if self.process.returncode is None:
            self.process.kill()
        await self._end()

    async def stop(self, number: int = signal.SIGTERM, seconds: float = 30) -> int:
        """Ask it to end; give its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(seconds):
            return await self._end()

    async def _end(self) -> int:
        code = await self.process.wait()
        await self._reader
        self._url.cancel()
        return code

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"event": line.decode(errors="replace")}
            self.log.append(entry)
            if entry.get("event") == "listening" and not self._url.done():
                self._url.set_result(entry["url"])


async def command(variables: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Run another command of `engram-appview` to its end; give exit code and output."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        env=dict(variables),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()
