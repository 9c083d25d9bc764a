"""Spaces where everyone may write: whoever does is followed, and nobody else."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from appview.access.access import Access
from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.access.subjects import Account as Rights
from appview.control import Control
from appview.ingest import backfill, strangers
from appview.ingest.verification import Verifier
from appview.memory.scope import Subtree
from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.test_whole_repos import Walks
from tests.appview.ingest.world import World, memory, rkey

if TYPE_CHECKING:
    from lexicons.spaces import SpaceUri
    from tests.network.synthetic import Account


def everyone(space: SpaceUri, path: str = "/", *, allow: bool = True) -> Permission:
    return Permission(EVERYONE, space, Subtree(path), "write", allow)


async def opened(world: World, path: str = "/") -> tuple[Account, SpaceUri]:
    """Declare a space and open it to everyone."""
    authority, space = world.authority()
    await world.until_declared(space)
    await world.access.change([everyone(space, path)], actor="test", action="test")
    await world.reconcile()
    return authority, space


def follows(world: World, account: Account) -> bool:
    return Did(account.did) in world.ingest._pipeline.rows


async def until_forgotten(world: World, account: Account) -> None:
    async def gone() -> bool:
        return not follows(world, account) and await world.control.repo(Did(account.did)) is None

    await world.until(gone)


def asked(world: World) -> int:
    return world.network.pds[0].requests["com.atproto.sync.getRepo"]


async def test_who_writes_where_everyone_may_is_followed_and_filled_whole(world: World) -> None:
    async with world.running():
        _, space = await opened(world)
        bob = world.network.account()
        for number in range(5):
            world.remember(bob, f"memory {number}")
        await world.until_shown(space, {f"memory {number}" for number in range(5)})
        late = world.remember(bob, "from now on as any other")
        await world.until_mirrored(space, bob)
        world.network.delete(bob, str(MEMORY), late)
        await world.until_mirrored(space, bob)
    async with world.running():
        world.remember(bob, "after a restart")
        await world.until_mirrored(space, bob)


async def test_what_was_written_before_the_space_was_open_is_found_with_the_next_memory(world: World) -> None:
    async with world.running():
        bob = world.network.account()
        world.remember(bob, "before")
        _, space = await opened(world)
        await world.until_caught_up()
        assert not follows(world, bob)
        world.remember(bob, "after")
        await world.until_shown(space, {"before", "after"})


async def test_who_is_followed_for_another_space_may_write_there_too(world: World) -> None:
    async with world.running():
        _, other = world.authority()
        await world.until_declared(other)
        bob = world.network.account()
        world.remember(bob, "bob's")
        await world.join(other, bob)
        await world.until_shown(other, {"bob's"})
        _, space = await opened(world)
        await world.until_shown(space, {"bob's"})
        world.remember(bob, "more")
        await world.until_mirrored(space, bob)


async def test_nobody_is_followed_where_not_everyone_may_write(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        world.remember(bob, "bob's")
        await world.until_status(lambda s: s["events"].get("not a writer", 0) >= 1)
        assert not follows(world, bob)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (memory("elsewhere", "/private"), "another path"),
        (memory("narrowed", "/open", "space=did:plc:elsewhere"), "another space"),
        (memory(" ", "/open"), "blank"),
        ({"$type": str(MEMORY), "text": "invalid"}, "invalid"),
    ],
)
async def test_what_is_not_for_the_space_leads_to_nothing(
    world: World, value: dict[str, Any], why: str
) -> None:
    async with world.running():
        await opened(world, "/open")
        bob = world.network.account()
        before = asked(world)
        world.network.create(bob, str(MEMORY), rkey(), value)
        await world.until_status(lambda s: s["events"].get("not a writer", 0) >= 1)
        assert (follows(world, bob), asked(world)) == (False, before), why


async def test_what_is_written_after_a_rule_is_noticed_though_the_rule_is_not_followed_yet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appview.ingest.reconcile.POLL_SECONDS", 3600.0)
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        with ThreadPoolExecutor(1) as executor:  # as the command line does it
            control = await Control.open(world.settings.control_file, executor)
            access = await Access.open(control, world.clock)
            await access.change([everyone(space)], actor="test", action="test")
            await control.close()
        bob = world.network.account()
        world.remember(bob, "at once")
        await world.until_status(lambda s: s["events"].get("stranger", 0) >= 1)
        await world.reconcile()
        await world.until_shown(space, {"at once"})


async def test_who_has_written_in_vain_is_looked_at_again_by_other_rules(world: World) -> None:
    async with world.running():
        _, space = await opened(world, "/open")
        bob = world.network.account()
        world.remember(bob, "elsewhere", "/closed")
        other = rkey()
        world.network.create(bob, str(MEMORY), other, memory("not for long", "/open"))
        world.network.delete(bob, str(MEMORY), other)
        await until_forgotten(world, bob)
        await world.access.change([everyone(space, "/closed")], actor="test", action="test")
        world.remember(bob, "there", "/closed")
        await world.until_shown(space, {"elsewhere", "there"})


async def test_who_is_denied_is_not_followed(world: World) -> None:
    async with world.running():
        _, space = await opened(world)
        bob = world.network.account()
        denied = Permission(Rights(Did(bob.did)), space, Subtree("/"), "write", allow=False)
        await world.access.change([denied], actor="test", action="test")
        await world.reconcile()
        world.remember(bob, "bob's")
        await world.until_status(lambda s: s["events"].get("not a writer", 0) >= 1)
        assert not follows(world, bob)


async def test_a_claim_that_the_repo_does_not_bear_out_is_looked_at_once_in_a_while(world: World) -> None:
    async with world.running():
        _, space = await opened(world)
        bob = world.network.account()
        world.network.create(bob, "app.bsky.feed.post", rkey(), {"text": "beside the point"})
        before = asked(world)
        for _ in range(3):  # frames of commits that the repo does not have
            world.network.pds[0].firehose.push(forged(world, bob))
        await world.until_status(lambda _status: asked(world) == before + 1)
        await until_forgotten(world, bob)
        world.network.pds[0].firehose.push(forged(world, bob))
        await world.until_status(lambda s: s["events"].get("not a writer", 0) >= 1)
        await world.until_caught_up()
        assert (follows(world, bob), asked(world)) == (False, before + 1)
        assert await world.shown(space) == set()


async def test_what_a_stranger_writes_while_its_empty_repo_is_looked_at_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = Walks(monkeypatch)
    async with world.running():
        _, space = await opened(world)
        bob = world.network.account()
        world.network.create(bob, "app.bsky.feed.post", rkey(), {"text": "beside the point"})
        ended = walks.stop(bob.did)
        world.network.pds[0].firehose.push(forged(world, bob))
        async with asyncio.timeout(10):
            await ended.wait()
        world.remember(bob, "meanwhile")
        await world.until_caught_up()
        walks.go(bob.did)
        await world.until_shown(space, {"meanwhile"})
        world.remember(bob, "and on")
        await world.until_mirrored(space, bob)


def forged(world: World, account: Account) -> bytes:
    """Make a frame of a commit that is not in the account's repo."""
    from tests.network.synthetic import Account as Repo

    other = Repo(account.handle, key=account.key)
    other.did = account.did
    seq = world.network.pds[0].firehose.next_seq()
    return other.create(str(MEMORY), rkey(), memory("forged")).frame(seq)


async def test_a_stranger_whose_host_is_nowhere_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "CANDIDATE_ATTEMPTS", 3)
    async with world.running():
        await opened(world)
        bob = world.network.account()
        world.network.pds[0].export[bob.did] = b"nothing that could be read"
        world.remember(bob, "bob's")
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: Rejected", 0) >= 3)
        await until_forgotten(world, bob)
        memberships = await world.control.memberships()
        assert all(did != bob.did for _, did in memberships)


async def test_a_right_of_everyone_that_is_taken_away_removes_what_came_by_it(world: World) -> None:
    async with world.running():
        authority, space = await opened(world)
        bob, carol = world.network.account(), world.network.account()
        for account in (authority, bob, carol):
            world.remember(account, account.did)
        await world.until_shown(space, {authority.did, bob.did, carol.did})
        await world.join(space, carol)
        await world.access.change(remove=[everyone(space)], actor="test", action="test")
        await world.until_shown(space, {authority.did, carol.did})
        await until_forgotten(world, bob)
        assert follows(world, carol)


async def test_so_many_strangers_are_followed_and_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "MAX_STRANGERS", 2)
    async with world.running():
        _, space = await opened(world)
        accounts = [world.network.account() for _ in range(4)]
        for account in accounts:
            world.remember(account, account.did)
        await world.until_shown(space, {account.did for account in accounts[:2]})
        assert world.ingest._reconciler.strangers.refused == 2


async def test_a_crash_between_the_event_and_the_look_loses_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appview.ingest.reconcile.POLL_SECONDS", 3600.0)
    async with world.running():
        _, space = await opened(world)
        bob = world.network.account()
        world.remember(bob, "bob's")
        await world.until_caught_up()
        assert not follows(world, bob)
    async with world.running():
        await world.until_shown(space, {"bob's"})


async def test_what_strangers_wrote_is_verified_as_that_of_members(world: World) -> None:
    async with world.running():
        _, space = await opened(world)
        bob = world.network.account()
        world.remember(bob, "bob's")
        await world.until_mirrored(space, bob)
        verifier = Verifier(
            world.control,
            world.access,
            world.pool,
            world.ingest._backfill._fetcher,
            world.clock,
            serving=True,
        )
        (report,) = await verifier.verify(await world.control.spaces())
        assert {author.did: author.state for author in report.authors}[Did(bob.did)] == "equal"
        assert not report.differs
