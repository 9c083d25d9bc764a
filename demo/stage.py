"""The processes of the demo: the network, the appview, and one publisher an agent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import httpx

from demo import programs, show

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.network.devnet import Account, Devnet

ROOT: Final = Path(__file__).resolve().parent.parent
READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0


class DemoFailed(RuntimeError):
    """A step did not do what it should; the message holds what the program said."""


@dataclass(frozen=True, slots=True)
class Appview:
    """The appview's process and where it answers."""

    process: asyncio.subprocess.Process
    url: str
    environment: Mapping[str, str]

    async def ask(self, method: str, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Call a query as any XRPC client would; answer the body and the milliseconds it took."""
        async with httpx.AsyncClient(base_url=self.url, timeout=30) as client:
            await client.get("/xrpc/_health")  # the connection is not what is measured
            start = monotonic()
            answer = await client.get(f"/xrpc/garden.engram.{method}", params=parameters)
            took = (monotonic() - start) * 1000
        if answer.status_code != 200:
            raise DemoFailed(f"{method}: {answer.status_code} {answer.text}")
        return answer.json(), took

    async def run(self, *arguments: str) -> str:
        """Run `engram-appview` beside the serving process, as its operator would."""
        show.command(f"engram-appview {' '.join(arguments)}")
        return await _run("engram-appview", arguments, self.environment)


@asynccontextmanager
async def appview(net: Devnet, data: Path, port: int) -> AsyncIterator[Appview]:
    """Start `engram-appview serve` on the PDS's firehose and end it gracefully."""
    environment = {
        "ENGRAM_SOURCE": net.pds_url,
        "ENGRAM_PLC_URL": net.plc_url,
        "ENGRAM_DATA": str(data),
        "ENGRAM_PORT": str(port),
        "ENGRAM_ALLOW_LOOPBACK": "true",
        "ENGRAM_LOG_FORMAT": "json",
    }
    log = data.parent / "appview.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            programs.PROGRAMS["engram-appview"],  # this checkout's, whether or not it is installed
            "serve",
            cwd=ROOT,
            env=os.environ | environment,
            stdout=output,
            stderr=output,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        await _until_healthy(process, url, log)
        yield Appview(process, url, environment)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()


@dataclass(frozen=True, slots=True)
class Agent:
    """One account with a publisher of its own: its session is kept in a folder of its own."""

    account: Account
    environment: Mapping[str, str]

    async def publisher(self, *arguments: str, stdin: str = "", quiet: bool = False) -> str:
        """Run `engram-publisher` as this agent."""
        if not quiet:
            show.command(f"engram-publisher {' '.join(arguments)}")
        return await _run("engram-publisher", arguments, self.environment, stdin)


def agent(account: Account, net: Devnet, home: Path, embedder: str, space: str) -> Agent:
    """Prepare an agent's settings."""
    home.mkdir(parents=True, exist_ok=True)
    return Agent(
        account,
        {
            "ENGRAM_SESSION": str(home / "session.json"),
            "ENGRAM_PLC_URL": net.plc_url,
            "ENGRAM_EMBEDDER": embedder,
            "ENGRAM_SPACE": space,
            "ENGRAM_PDS": account.pds,
        },
    )


async def _run(
    program: str, arguments: tuple[str, ...], environment: Mapping[str, str], stdin: str = ""
) -> str:
    code, out, err = await programs.run(program, arguments, environment, stdin)
    if code != 0:
        raise DemoFailed(f"{program} {arguments[0]}: exit {code}\n{err}")
    return out


async def _until_healthy(process: asyncio.subprocess.Process, url: str, log: Path) -> None:
    deadline = monotonic() + READY_SECONDS
    async with httpx.AsyncClient() as client:
        while monotonic() < deadline:
            if process.returncode is not None:
                break
            try:
                if (await client.get(f"{url}/xrpc/_health")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)
    raise DemoFailed(f"the appview did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")


def load_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
