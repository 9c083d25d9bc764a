"""`repos list --watch` stays, beside whoever fetches, until every repo is fetched."""

from __future__ import annotations

import asyncio
import io
import sys
from typing import TYPE_CHECKING

import pytest

from appview.cli import run
from tests.appview.ingest.world import World
from tests.network.synthetic import Network

if TYPE_CHECKING:
    from pathlib import Path


class Terminal(io.StringIO):
    """Where people look."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [Terminal(), io.StringIO()], ids=["terminal", "file"])
async def test_it_stays_until_everything_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO
) -> None:
    async with Network() as network:
        world = World(network, tmp_path)
        async with world.running():
            alice, space = world.authority()
            await world.until_declared(space)
            network.pds[0].gate = asyncio.Event()
            bob = network.account()
            world.remember(bob, "his")
            await world.join(space, bob)
            capsys.readouterr()
            monkeypatch.setattr(sys, "stderr", terminal)
            arguments = ["repos", "list", "--watch", "--data", str(tmp_path)]
            watching = asyncio.create_task(asyncio.to_thread(run, arguments))
            async with asyncio.timeout(20):
                while "fetching repos" not in terminal.getvalue():  # noqa: ASYNC110 - it tells nobody else
                    await asyncio.sleep(0.01)
            if terminal.isatty():
                assert "50%" in terminal.getvalue()
            assert not watching.done()
            network.pds[0].gate.set()
            async with asyncio.timeout(20):
                assert await watching == 0
    assert ("100%" in terminal.getvalue()) is terminal.isatty()
    out = capsys.readouterr().out
    assert "2 of 2 fetched into their spaces" in out
    assert alice.did in out and bob.did in out


async def test_there_is_nothing_to_wait_for_where_all_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Network() as network:
        world = World(network, tmp_path)
        async with world.running():
            _, space = world.authority()
            await world.until_declared(space)
            async with asyncio.timeout(20):
                assert (
                    await asyncio.to_thread(run, ["repos", "list", "--watch", "--data", str(tmp_path)]) == 0
                )
    assert "1 of 1 fetched into their spaces" in capsys.readouterr().out
