"""A disk that takes nothing for a while, end to end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from appview.ingest.hosts import PER_HOST
from appview.ingest.intake import BATCH_FRAMES
from appview.ingest.queues import MAX_BYTES, ByteQueue
from appview.memory.store import SpaceStore
from lexicons.syntax import Did
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.world import World
from tests.network.synthetic import Network
from tests.simulated_time import simulated, simulated_clock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from appview.memory.values import Applied, Update

OPEN_UPDATES, QUEUED, UNWRITTEN = 40, 20, 4  # small bounds, or there is much to do until they hold
GET_REPO = "com.atproto.sync.getRepo"


class Disk:
    """What spaces are written to, once it takes something. It holds up what is asked for from `stop` on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._open = asyncio.Event()

    def stop(self) -> None:
        """Take nothing."""
        apply = SpaceStore.apply

        async def apply_when_it_can(store: SpaceStore, updates: Sequence[Update]) -> Applied:
            await self._open.wait()
            return await apply(store, updates)

        self._monkeypatch.setattr(SpaceStore, "apply", apply_when_it_can)

    def go_on(self) -> None:
        """Take everything."""
        self._open.set()


@simulated
async def test_a_disk_that_takes_nothing_stops_reading_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appview.ingest.committer.MAX_OPEN_UPDATES", OPEN_UPDATES)
    monkeypatch.setattr(ByteQueue.__init__, "__defaults__", (QUEUED, MAX_BYTES))
    async with Network() as network:
        world, disk = World(network, tmp_path), Disk(monkeypatch)
        world.clock = simulated_clock()
        async with world.running():
            space, (bob,) = await several(world, 1)
            await world.until_caught_up()
            before = network.pds[0].firehose.seq
            disk.stop()
            for number in range(10 * OPEN_UPDATES):
                world.remember(bob, f"memory {number}")
            await asyncio.sleep(60)
            status = world.ingest.status()
            (source,) = status["sources"].values()
            assert OPEN_UPDATES <= status["writing"]["updates"] < OPEN_UPDATES + BATCH_FRAMES
            assert source["queued"] == QUEUED
            assert source["position"] < before + 5 * OPEN_UPDATES, "the rest is not read from the socket"
            assert await positions(world) == [before]
            disk.go_on()
            await world.until_mirrored(space, bob)
            await world.until_caught_up()


@simulated
async def test_no_more_repos_are_fetched_than_wait_for_a_disk_and_two_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appview.ingest.backfill.MAX_UNWRITTEN", UNWRITTEN)
    async with Network() as network:
        world, disk = World(network, tmp_path), Disk(monkeypatch)
        world.clock = simulated_clock()
        async with world.running():
            space, _ = await several(world, 1)
            await world.until_caught_up()
            members = [network.account() for _ in range(4 * UNWRITTEN)]
            for member in members:
                world.remember(member, "his")
                await world.access.add_member(space, Did(member.did), "test")
            before = network.pds[0].requests[GET_REPO]
            disk.stop()
            await world.reconcile()
            await asyncio.sleep(60)
            assert network.pds[0].requests[GET_REPO] - before == UNWRITTEN + PER_HOST["repo"]
            disk.go_on()
            await world.until_mirrored(space, *members)


async def positions(world: World) -> list[int]:
    return [position for position, _ in (await world.control.cursors()).values()]
