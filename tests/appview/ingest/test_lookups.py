"""Looks at who an account is, while the directory answers and while it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.appview.ingest.test_clocks import HOUR, Shifted
from tests.appview.ingest.test_faults import several
from tests.network.synthetic import K256

if TYPE_CHECKING:
    from tests.appview.ingest.world import World


async def test_a_key_that_changed_while_the_directory_is_away_is_found_when_it_is_back(world: World) -> None:
    clock = world.clock = Shifted()
    async with world.running():
        await world.until_connected()
        space, (bob,) = await several(world, 1)
        clock.shift = HOUR  # what was asked before is an hour old, and kept
        world.network.plc.fail_with = 503
        asked = world.network.plc.requests[bob.did]
        world.network.rotate_key(bob, K256(), announce=False)
        world.remember(bob, "under a new key")
        await world.until_status(lambda _: world.network.plc.requests[bob.did] > asked)
        await world.until_caught_up()
        assert "bad-signature" not in world.ingest.status()["rejects"]  # nothing is known against it
        world.network.plc.fail_with = None
        clock.shift += HOUR
        await world.until_mirrored(space, bob)
