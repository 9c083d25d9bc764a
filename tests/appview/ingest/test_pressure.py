"""A disk that takes nothing for a while, end to end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from appview.ingest.intake import BATCH_FRAMES
from appview.ingest.queues import MAX_BYTES, ByteQueue
from appview.memory.store import SpaceStore
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.world import World
from tests.network.synthetic import Network
from tests.simulated_time import simulated, simulated_clock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from appview.memory.values import Applied, Update

OPEN_UPDATES, QUEUED = 40, 20  # small bounds, for there are large ones to fill else


@simulated
async def test_a_disk_that_takes_nothing_stops_reading_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appview.ingest.committer.MAX_OPEN_UPDATES", OPEN_UPDATES)
    monkeypatch.setattr(ByteQueue.__init__, "__defaults__", (QUEUED, MAX_BYTES))
    apply, disk = SpaceStore.apply, asyncio.Event()

    async def apply_when_it_can(store: SpaceStore, updates: Sequence[Update]) -> Applied:
        await disk.wait()
        return await apply(store, updates)

    async with Network() as network:
        world = World(network, tmp_path)
        world.clock = simulated_clock()
        async with world.running():
            space, (bob,) = await several(world, 1)
            await world.until_caught_up()
            before = network.pds[0].firehose.seq
            monkeypatch.setattr(SpaceStore, "apply", apply_when_it_can)
            for number in range(10 * OPEN_UPDATES):
                world.remember(bob, f"memory {number}")
            await asyncio.sleep(60)
            status = world.ingest.status()
            (source,) = status["sources"].values()
            assert OPEN_UPDATES <= status["writing"]["updates"] < OPEN_UPDATES + BATCH_FRAMES
            assert source["queued"] == QUEUED
            assert source["position"] < before + 5 * OPEN_UPDATES, "the rest is not read from the socket"
            assert await positions(world) == [before]
            disk.set()
            await world.until_mirrored(space, bob)
            await world.until_caught_up()


async def positions(world: World) -> list[int]:
    return [position for position, _ in (await world.control.cursors()).values()]
