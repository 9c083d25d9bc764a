"""What becomes of accounts: who may say what of them, and what is made sure of before anything is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.clock import now
from lexicons.syntax import Did
from tests.appview.ingest.world import World
from tests.network.synthetic import Network

if TYPE_CHECKING:
    from pathlib import Path

    from lexicons.spaces import SpaceUri
    from tests.network.synthetic import Account

GET_REPO, GET_STATUS = "com.atproto.sync.getRepo", "com.atproto.sync.getRepoStatus"
LATEST = "com.atproto.sync.getLatestCommit"


async def member(world: World, space: SpaceUri, pds: int = 0) -> Account:
    """Make a member whose one memory is served."""
    bob = world.network.account(pds=pds)
    world.remember(bob, "bob's")
    await world.until_declared(space)
    await world.join(space, bob)
    await world.until_mirrored(space, bob)
    return bob


def claim(world: World, account: Account, status: str | None, pds: int = 0) -> None:
    """Let a host say something of an account that its own host does not say."""
    truth = account.active, account.status
    account.active, account.status = status is None, status
    firehose = world.network.pds[pds].firehose
    firehose.push(account.account_frame(firehose.next_seq()))
    account.active, account.status = truth


async def status_of(world: World, account: Account) -> str | None:
    row = await world.control.repo(Did(account.did))
    return None if row is None else row.status


async def test_a_relay_that_lies_of_a_deletion_costs_no_data(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = await member(world, space)
        claim(world, bob, "deleted")
        await world.until_status(lambda status: status["events"].get("account deleted") == 1)
        await world.until_status(lambda status: status["events"].get("account active") == 1)
        assert await world.texts(space) == {"bob's"}
        world.remember(bob, "still here")
        await world.until_mirrored(space, bob)


async def test_a_deletion_is_made_sure_of_before_anything_is_purged(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = await member(world, space)
        pds = world.network.pds[0]
        pds.fail_with = 503
        claim(world, bob, "deleted")
        await world.until_status(
            lambda status: status["repos"]["fetches"].get("failed: HttpStatusError", 0) > 1
        )
        assert await world.texts(space) == {"bob's"}

        async def hidden() -> bool:
            return await status_of(world, bob) == "deleted"

        await world.until(hidden)
    async with world.running():  # it is not forgotten over a restart
        del pds.accounts[bob.did]
        pds.fail_with = None
        await world.until_texts(space, set())
        assert await status_of(world, bob) == "deleted"


async def test_a_did_that_is_no_more_is_a_deletion_that_is_sure(world: World) -> None:
    async with world.running():
        await world.until_connected()
        _, space = world.authority()
        bob = await member(world, space)
        world.network.plc.gone.add(bob.did)
        world.network.announce_identity(bob)
        claim(world, bob, "deleted")
        await world.until_texts(space, set())


async def test_a_host_that_lost_an_account_of_which_nobody_says_so_costs_no_data(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = await member(world, space)
        world.network.set_status(bob, "deactivated")
        del world.network.pds[0].accounts[bob.did]
        await world.until_status(lambda status: status["events"].get("account deactivated") == 1)
    async with world.running():
        asked = world.network.pds[0].requests[GET_STATUS]
        async with world.ingest._pipeline.lock:
            world.ingest._pipeline.note(Did(bob.did), retry_at=None)
            world.ingest._backfill.want(Did(bob.did))
        await world.until_status(lambda _: world.network.pds[0].requests[GET_STATUS] > asked)
        await world.until_status(lambda status: status["repos"]["fetches"].get("failed: RepoInactive") == 1)
        await world.ingest._committer.flush()
        assert await world.texts(space) == {"bob's"}
        assert await status_of(world, bob) == "deactivated"


async def test_a_return_that_was_missed_is_seen_at_the_next_start(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = await member(world, space)
        world.network.set_status(bob, "takendown")
        await world.until_status(lambda status: status["events"].get("account takendown") == 1)
        await world.until_caught_up()
    bob.active, bob.status = True, None
    async with world.running():

        async def back() -> bool:
            return await status_of(world, bob) == "active"

        await world.until(back)
        world.remember(bob, "back")
        await world.until_mirrored(space, bob)


@pytest.mark.parametrize("status", ["deactivated", "takendown", "deleted"])
async def test_a_pds_says_nothing_of_accounts_that_it_does_not_have(tmp_path: Path, status: str) -> None:
    async with Network(pds=2) as network:
        world = World(network, tmp_path)
        async with world.running(source=tuple(f"pds+{pds.url}" for pds in network.pds)):
            _, space = world.authority()
            bob = await member(world, space)
            claim(world, bob, status, pds=1)
            await world.until_status(lambda each: each["rejects"].get("wrong-host", 0) >= 1)
            assert await world.texts(space) == {"bob's"}
            assert await status_of(world, bob) == "active"


async def test_late_commits_of_a_former_host_are_dropped(tmp_path: Path) -> None:
    async with Network(pds=2) as network:
        world = World(network, tmp_path)
        async with world.running(source=tuple(f"pds+{pds.url}" for pds in network.pds)):
            _, space = world.authority()
            bob = await member(world, space)
            network.move(bob, 1)
            world.remember(bob, "at the new one")
            await world.until_mirrored(space, bob)
            draft = bob.draft()
            firehose = network.pds[0].firehose
            firehose.push(draft.frame(firehose.next_seq()))
            await world.until_status(lambda each: each["rejects"].get("wrong-host", 0) >= 1)
            world.remember(bob, "after")  # the chain has a hole where the late one was
            await world.until_mirrored(space, bob)


async def test_after_a_gap_repos_that_are_where_they_were_are_not_fetched(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob, carol = await member(world, space), await member(world, space)
        await world.until_caught_up()
    pds = world.network.pds[0]
    world.remember(carol, "while away")
    pds.firehose.skip(10)
    pds.firehose.forget_below(pds.firehose.seq)
    fetched = pds.requests[GET_REPO]
    async with world.running():
        await world.until_mirrored(space, bob, carol)
        await world.until_status(lambda status: status["repos"]["fetches"].get("unchanged") == 2)
        await world.until_status(lambda status: status["repos"]["synchronized"] == 3)
    assert pds.requests[GET_REPO] == fetched + 1
    assert pds.requests[LATEST] == 3


async def test_a_host_that_does_not_tell_its_rev_is_asked_for_the_repo(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = await member(world, space)
        await world.until_caught_up()
    pds = world.network.pds[0]
    pds.lacking.add(LATEST)
    world.remember(bob, "while away")
    pds.firehose.skip(10)
    pds.firehose.forget_below(pds.firehose.seq)
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_a_handle_is_noted_when_it_is_verified_and_follows_a_change(world: World) -> None:
    later = 0
    world.clock = lambda: now() + later
    async with world.running():
        await world.until_connected()
        alice, space = world.authority()
        await world.until_declared(space)

        async def handle() -> str | None:
            row = await world.control.repo(Did(alice.did))
            return None if row is None else row.handle

        async def noted() -> bool:
            return await handle() == alice.handle

        await world.until(noted)
        alice.handle = "another-name.test"
        world.network.announce_identity(alice)
        await world.until(noted)
        claimed = alice.document() | {"alsoKnownAs": ["at://somebody-else.test"]}
        world.network.plc.override[alice.did] = claimed
        world.network.announce_identity(alice)
        later = 61_000_000  # documents are looked at once a minute

        async def none() -> bool:
            return await handle() is None

        await world.until(none)
