"""kill -9 of a running appview, again and again while its network goes on."""

from __future__ import annotations

import asyncio
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from appview.access.access import Access
from appview.clock import now
from appview.control import Control
from appview.folder import CONTROL_FILE
from lexicons.syntax import Did
from tests.appview.process import Appview

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lexicons.spaces import SpaceUri
    from tests.network.synthetic import Account

KILLS = int(os.environ.get("ENGRAM_TEST_KILLS", "12"))
SEED = int(os.environ.get("ENGRAM_TEST_SEED", "20261130"))


class Happening(Protocol):
    """What goes on in a network, step by step from a seed."""

    random: random.Random
    spaces: Sequence[SpaceUri]
    authors: Sequence[Account]

    def step(self) -> None:
        """Let one thing happen."""


async def admit(data: Path, history: Happening) -> None:
    """Make every author a member of every space, before an appview begins on the folder."""
    with ThreadPoolExecutor(1) as executor:
        control = await Control.open(data / "control.db", executor)
        access = await Access.open(control, now)
        for space in history.spaces:
            for account in history.authors:
                await access.add_member(space, Did(account.did), "test")
        await control.close()


async def kill_again_and_again(
    variables: Mapping[str, str], history: Happening, runs: int, *, steps: int, pause: float, longest: float
) -> None:
    """Start and kill an appview while up to `steps` things happen at once every `pause` seconds: each third
    time while it starts, else after up to `longest` seconds of listening."""

    async def go_on() -> None:
        while True:
            for _ in range(history.random.randint(1, steps)):
                history.step()
            await asyncio.sleep(pause)

    timing, loop = random.Random(SEED + 1), asyncio.get_running_loop()
    control = Path(variables["ENGRAM_DATA"]) / CONTROL_FILE
    took, early = 0.0, 0  # seconds from a file to a port, last time; kills before there was one
    for run in range(runs):
        appview = await Appview.start(variables)
        living = asyncio.create_task(go_on())
        try:
            await appview.until_open(control)  # before that, it starts to be a Python
            began = loop.time()
            if run % 3 == 2:
                await asyncio.sleep(timing.uniform(0.0, took) if early else 0.0)
            else:
                await appview.url()
                took = loop.time() - began
                await asyncio.sleep(timing.uniform(0.0, longest))
            await appview.kill()
            early += not appview.listens
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
    assert early or runs < 12 or not Path("/proc").is_dir(), "none was killed while it started"
