"""Answers of hosts that come too late, or tell of too long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lexicons.ids import MEMORY
from tests.appview.ingest.test_accounts import hold_fetch
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.world import memory, rkey
from tests.network.synthetic import Write

if TYPE_CHECKING:
    from tests.appview.ingest.world import World


async def test_a_new_space_is_not_filled_from_before_what_went_by(world: World) -> None:
    async with world.running():
        garden, (bob,) = await several(world, 1)
        _, shed = world.authority()
        await world.until_declared(shed)
        old = bob.export()
        world.remember(bob, "went by")
        await world.until_mirrored(garden, bob)
        world.network.pds[0].export[bob.did] = old
        await world.join(shed, bob)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: RepoBehind", 0) >= 2)
        assert await world.texts(shed) == set()
        del world.network.pds[0].export[bob.did]
        await world.until_mirrored(shed, bob)


async def test_that_an_account_was_inactive_before_it_came_back_is_no_news(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        bob.draft(Write("create", str(MEMORY), rkey(), memory("unheard")))
        bob.active, bob.status = False, "deactivated"
        gate = await hold_fetch(world, bob)
        world.network.announce_account(bob)
        await world.until_shown(space, set())
        world.network.set_status(bob, None)
        await world.until_status(lambda s: s["events"].get("account active") == 1)
        gate.set()
        await world.until_shown(space, {"before", "unheard"})
        assert world.ingest.status()["events"]["account deactivated"] == 1
