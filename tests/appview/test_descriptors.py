"""File descriptors: as many as there may be, and some of them for everything."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from appview.descriptors import MAX_CONNECTIONS, MIN_CONNECTIONS, OF_A_SPACE, OTHERS, connections_for
from tests.appview.ingest.world import World
from tests.appview.process import Appview, environment
from tests.network.synthetic import Network

LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); "
TOLD = "from appview.descriptors import raise_limit; print(raise_limit())"
SERVE = "from appview.cli import main; main()"


def test_the_limit_is_raised_as_far_as_it_may_be() -> None:
    program = LIMITED.format(soft=256, hard=512) + TOLD
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "512"


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def connect(port: int) -> socket.socket:
    """Open a connection of which no use will be made."""
    opened = socket.socket()
    opened.setblocking(False)
    await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
    return opened


@pytest.mark.parametrize(
    ("limit", "spaces", "connections"),
    [
        (65_536, 64, MAX_CONNECTIONS),
        (OTHERS + 64 * OF_A_SPACE + MAX_CONNECTIONS, 64, MAX_CONNECTIONS),
        (OTHERS + 64 * OF_A_SPACE + MAX_CONNECTIONS - 1, 64, MAX_CONNECTIONS - 1),
        (1_024, 16, 512),
        (1_024, 64, MIN_CONNECTIONS),
        (0, 64, MIN_CONNECTIONS),
    ],
)
def test_connections_get_what_is_left(limit: int, spaces: int, connections: int) -> None:
    assert connections_for(limit, spaces) == connections


async def test_idle_connections_of_one_caller_stop_nothing(tmp_path: Path) -> None:
    async with Network() as network:
        world = World(network, tmp_path / "unused")
        variables = environment(tmp_path / "data", network.pds[0].url, network.plc.url)
        variables["ENGRAM_MAX_OPEN_SPACES"] = "4"
        program = LIMITED.format(soft=512, hard=512) + SERVE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, "serve", env=variables, stderr=asyncio.subprocess.PIPE
        )
        server = Appview(process)
        url = await server.url()
        port = int(url.rsplit(":", 1)[1])
        idle = await asyncio.gather(*(connect(port) for _ in range(600)))
        try:
            await asyncio.sleep(1)  # what is one too many is closed when it was accepted
            assert open_files(process.pid) < OTHERS
            alice, space = world.authority()
            for number in range(3):
                world.remember(alice, f"number {number}")
            async with aiohttp.ClientSession() as session, asyncio.timeout(60):
                found: list[object] = []
                while len(found) < 3:
                    query = {"space": str(space)}
                    async with session.get(
                        f"{url}/xrpc/garden.engram.listMemories", params=query
                    ) as response:
                        found = (await response.json()).get("memories", [])
        finally:
            for each in idle:
                each.close()
            await server.stop()
        assert not [entry for entry in server.log if entry.get("level") == "error"]
