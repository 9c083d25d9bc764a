"""Accounts that go and come back: hidden at once, shown again, purged; in whatever order it happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from appview.access.callers import Callers
from appview.access.errors import CredentialRefused
from appview.access.subjects import Account as Caller
from appview.clock import now
from appview.ingest.accounts import CHANGES
from appview.memory.values import Visibility
from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.access.minting import METHOD, SERVICE, mint
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.world import World, held, memory, rkey
from tests.network.synthetic import K256, Network, Write

if TYPE_CHECKING:
    from pathlib import Path

    from appview.access.subjects import Subject
    from tests.network.synthetic import Account, SigningKey

GONE = ["deactivated", "takendown", "suspended", "desynchronized", "throttled"]


async def hold_fetch(world: World, account: Account) -> asyncio.Event:
    """Make the next fetch of the account's repo read what there is now and stay on its way."""
    pds = world.network.pds[0]
    pds.gate = asyncio.Event()
    asked = pds.requests["com.atproto.sync.getRepo"]

    async def on_its_way() -> bool:
        return pds.requests["com.atproto.sync.getRepo"] > asked

    world.network.announce_sync(account)
    await world.until(on_its_way)
    gate, pds.gate = pds.gate, None
    return gate


@pytest.mark.parametrize("status", GONE)
async def test_an_inactive_account_is_hidden_and_nothing_of_it_is_lost(world: World, status: str) -> None:
    async with world.running():
        space, (bob, carol) = await several(world, 2)
        world.remember(carol, "hers")
        await world.until_shown(space, {"before", "hers"})
        fetches = world.network.pds[0].requests["com.atproto.sync.getRepo"]
        world.network.set_status(carol, status)
        await world.until_shown(space, {"before"})
        assert await world.mirrors(space, carol)
        world.remember(bob, "his")
        await world.until_shown(space, {"before", "his"})
        assert world.network.pds[0].requests["com.atproto.sync.getRepo"] == fetches
    async with world.running():
        world.remember(bob, "after the restart")
        await world.until_shown(space, {"before", "his", "after the restart"})
        world.network.set_status(carol, None)
        await world.until_shown(space, {"before", "his", "after the restart", "hers"})


async def test_an_active_account_with_a_status_is_shown_and_followed_after_a_restart(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        bob.status = "throttled"  # active all the same
        world.network.announce_account(bob)
        await world.until_caught_up()
    async with world.running():
        world.remember(bob, "goes on")
        await world.until_shown(space, {"before", "goes on"})


async def test_one_who_joins_while_hidden_is_hidden_there_too(world: World) -> None:
    async with world.running():
        garden, (bob,) = await several(world, 1)
        _, shed = world.authority()
        await world.until_declared(shed)
        gate = await _hold_join(world, shed, bob)
        world.network.set_status(bob, "takendown")
        await world.until_shown(garden, set())
        gate.set()
        await world.until_status(lambda s: s["repos"]["fetches"].get("overtaken", 0) == 1)
        assert await world.shown(shed) == set()
        world.network.set_status(bob, None)
        await world.until_shown(garden, {"before"})
        await world.until_shown(shed, {"before"})


async def _hold_join(world: World, space: object, account: Account) -> asyncio.Event:
    pds = world.network.pds[0]
    gate = pds.gate = asyncio.Event()
    asked = pds.requests["com.atproto.sync.getRepo"]
    await world.join(space, account)  # type: ignore[arg-type]

    async def on_its_way() -> bool:
        return pds.requests["com.atproto.sync.getRepo"] > asked

    await world.until(on_its_way)
    pds.gate = None
    return gate


async def test_one_who_left_while_hidden_is_shown_on_coming_back(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        world.network.set_status(bob, "deactivated")
        await world.until_shown(space, set())
        await world.leave(space, bob)
        world.network.set_status(bob, None)
        await world.until_caught_up()
        await world.join(space, bob)
        await world.until_shown(space, {"before"})


async def test_a_repo_that_was_fetched_before_its_account_went_is_not_taken(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        bob.draft(Write("create", str(MEMORY), rkey(), memory("unheard")))
        gate = await hold_fetch(world, bob)
        world.network.set_status(bob, "deactivated")
        await world.until_shown(space, set())
        gate.set()
        await world.until_status(lambda s: s["repos"]["fetches"].get("overtaken", 0) == 1)
        await world.ingest._committer.flush()
        row = await world.control.repo(Did(bob.did))
        assert row is not None and row.status == "deactivated"
        assert await world.shown(space) == set()
        world.network.set_status(bob, None)
        await world.until_shown(space, {"before", "unheard"})


async def test_deleted_created_again_and_reactivated_while_its_old_repo_is_on_its_way(world: World) -> None:
    async with world.running():
        space, (bob, carol) = await several(world, 2)
        bob.draft(Write("create", str(MEMORY), rkey(), memory("of the old account")))
        gate = await hold_fetch(world, bob)
        world.network.set_status(bob, "deleted")
        await world.until_texts_of(space, bob, set())
        keys = list(held(bob))
        bob.draft(*(Write("delete", str(MEMORY), key) for key in keys))
        world.network.set_status(bob, None)  # the same DID, a new repo
        world.remember(bob, "of the new account")
        world.network.set_status(bob, "deactivated")
        world.network.set_status(bob, None)
        gate.set()
        await world.until_mirrored(space, bob, carol)
        await world.until_shown(space, {"before", "of the new account"})
        await world.until_caught_up()
        assert await world.shown(space) == {"before", "of the new account"}


async def test_a_deleted_accounts_old_repo_brings_nothing_back(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        gate = await hold_fetch_of_equal(world, bob)
        world.network.set_status(bob, "deleted")
        await world.until_texts_of(space, bob, set())
        gate.set()
        await world.until_status(lambda s: s["repos"]["fetches"].get("overtaken", 0) == 1)
        await world.ingest._committer.flush()
        assert await world.texts(space) == set()


async def hold_fetch_of_equal(world: World, account: Account) -> asyncio.Event:
    """The same, where there is no news in the repo but that it was signed again."""
    account.draft(Write("create", "app.bsky.feed.post", rkey(), {"text": "beside the point"}))
    return await hold_fetch(world, account)


async def test_one_whose_return_was_not_heard_is_asked_for_after_a_gap(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        world.network.set_status(bob, "suspended")
        await world.until_shown(space, set())
        await world.until_caught_up()
    bob.active, bob.status = True, None  # and the event is lost with the relay
    world.network.pds[0].firehose.reset()
    async with world.running():
        await world.until_shown(space, {"before"})


@pytest.mark.parametrize("back", [True, False], ids=["back", "gone again"])
async def test_a_word_that_could_not_be_judged_yet_is_not_lost_by_a_restart(
    tmp_path: Path, back: bool
) -> None:
    async with Network() as network:
        world = World(network, tmp_path)
        host = (f"pds+{network.pds[0].url}",)
        async with world.running(source=host):
            space, (bob,) = await several(world, 1)
            network.set_status(bob, "deactivated")
            await world.until_shown(space, set())
        async with world.running(source=host):  # its host is asked, and then not for hours
            rows = world.ingest._pipeline.rows

            async def asked_again_in_hours() -> bool:
                row = rows.get(Did(bob.did))
                return row is not None and (row.retry_at or 0) > now() + 3_600_000_000

            await world.until(asked_again_in_hours)
        await network.plc.stop()
        network.set_status(bob, None)
        if not back:
            network.set_status(bob, "deactivated")
        async with world.running(source=host):
            await world.until_caught_up()
        await network.plc.start()
        async with world.running(source=host):
            await world.until_shown(space, {"before"} if back else set())
            world.network.set_status(bob, None)
            await world.until_shown(space, {"before"})


async def test_a_word_that_waits_for_its_turn_is_not_lost_by_a_restart(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        for _ in range(CHANGES + 1):
            for status in ("deactivated", None):
                world.network.set_status(bob, status)
        await world.until_caught_up()
        assert await world.shown(space) == set()
    async with world.running():
        await world.until_shown(space, {"before"})


async def test_one_who_was_shown_when_the_program_was_killed_is_hidden_again(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        world.network.set_status(bob, "deactivated")
        await world.until_shown(space, set())
    async with world.running():
        # Killed after a space's file was told of a return, and before control.db was.
        async with world.pool.use(space) as store:
            await store.apply([Visibility(Did(bob.did), False)])
        assert await world.shown(space) == {"before"}
    async with world.running():
        await world.until_shown(space, set())


async def test_a_key_that_a_followed_account_has_changed_is_nobodys_with_its_next_event(world: World) -> None:
    async with world.running():
        await world.until_connected()
        account, space = world.authority()
        await world.until_declared(space)
        callers = Callers(SERVICE, world.ingest.resolver, world.control, now)

        async def who(key: SigningKey) -> Subject:
            token = mint(key, issuer=account.did, now=now() // 1_000_000)
            return await callers.resolve([f"Bearer {token}"], METHOD)

        stolen = account.key
        assert await who(stolen) == Caller(Did(account.did))
        world.network.rotate_key(account, K256(), announce=False)
        assert await who(stolen) == Caller(Did(account.did))  # nobody has said anything
        world.network.announce_identity(account)
        await world.until_caught_up()
        with pytest.raises(CredentialRefused) as caught:
            await who(stolen)
        assert caught.value.fault == "BadJwtSignature"
        assert await who(account.key) == Caller(Did(account.did))
