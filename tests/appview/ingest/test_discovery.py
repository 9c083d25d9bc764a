"""Accounts that no event speaks of any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from appview.ingest.discovery import _dids
from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import World, config, memory, rkey

if TYPE_CHECKING:
    import pytest

    from tests.network.synthetic import Account

BY_COLLECTION, ALL = "com.atproto.sync.listReposByCollection", "com.atproto.sync.listRepos"


def forgotten(world: World, count: int) -> list[Account]:
    """Make accounts with spaces and memories, of which the firehose says nothing any more."""
    accounts = []
    for _ in range(count):
        account, _ = world.authority()
        world.remember(account, "old")
        accounts.append(account)
    pds = world.network.pds[0]
    pds.firehose.skip(1)
    pds.firehose.forget_below(pds.firehose.seq)
    pds.firehose.outdated_below = 0
    return accounts


async def until_found(world: World, accounts: list[Account]) -> None:
    for account in accounts:
        await world.until_mirrored(SpaceUri.public(Did(account.did)), account)


async def test_a_relay_lists_the_accounts_that_declare_spaces(world: World) -> None:
    accounts = forgotten(world, 3)
    world.network.create(world.network.account(), str(MEMORY), rkey(), memory("of nobody's space"))
    async with world.running():
        await until_found(world, accounts)
        assert {row.did for row in await world.control.repos()} == {account.did for account in accounts}
    assert world.network.pds[0].requests[ALL] == 0


async def test_a_pds_lists_its_accounts_and_is_asked_which_declare_spaces(world: World) -> None:
    pds = world.network.pds[0]
    pds.lacking.add(BY_COLLECTION)
    pds.page_size = 2
    accounts = forgotten(world, 5)
    strangers = [world.network.account() for _ in range(3)]
    for stranger in strangers:
        stranger.draft()
    pds.firehose.frames.clear()
    async with world.running():
        await until_found(world, accounts)
        await world.until_status(lambda status: status["repos"]["listed"].get("lists") == 1)
        assert {row.did for row in await world.control.repos()} == {account.did for account in accounts}
        assert world.ingest.status()["repos"]["listed"]["accounts"] == 5
    assert pds.requests[ALL] == 4


async def test_a_member_from_before_is_found_whatever_lists_say(world: World) -> None:
    world.network.pds[0].lacking |= {BY_COLLECTION, ALL}
    bob = world.network.account()
    world.remember(bob, "bob's")
    (alice,) = forgotten(world, 1)
    space = SpaceUri.public(Did(alice.did))
    async with world.running():
        await world.control.admit_space(space, 1, actor="operator")
        await world.join(space, bob)
        await world.until_mirrored(space, alice, bob)


async def test_a_list_goes_on_after_a_restart_where_it_stopped_and_rests_when_it_is_done(
    world: World,
) -> None:
    pds = world.network.pds[0]
    pds.page_size = 2
    accounts = forgotten(world, 6)
    async with world.running(source=()):
        await world.control.lists.put(pds.url, "4", None)
    async with world.running():
        await until_found(world, accounts[4:])
        await world.until_status(lambda status: status["repos"]["listed"].get("lists") == 1)
        assert len(await world.control.repos()) == 2
    asked = pds.requests[BY_COLLECTION]
    world.network.account()
    async with world.running():
        await world.until_caught_up()
    assert pds.requests[BY_COLLECTION] == asked


async def test_with_registration_closed_nobody_is_looked_for(world: World) -> None:
    forgotten(world, 1)
    async with world.running(registration="closed"):
        world.network.create(world.network.account(), str(CONFIG), "self", config())
        await world.until_caught_up()
    assert world.network.pds[0].requests[BY_COLLECTION] == 0


async def test_a_list_that_turns_in_a_circle_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appview.ingest.discovery.MAX_PAGES", 5)
    pds = world.network.pds[0]
    accounts = forgotten(world, 2)
    pages = 0

    def circle(_request: object, _found: list[Account]) -> web.Response:
        nonlocal pages
        pages += 1
        repos = [{"did": account.did, "active": True} for account in accounts]
        return web.json_response({"repos": repos, "cursor": str(pages % 2)})

    monkeypatch.setattr(pds, "_page", circle)
    async with world.running():
        await until_found(world, accounts)
        await world.until_status(lambda status: status["repos"]["listed"].get("lists") == 1)
    assert pages == 5


def test_nonsense_in_a_list_is_left_out() -> None:
    did = "did:plc:" + "a" * 24
    repos = [1, None, {}, {"did": 1}, {"did": "alice"}, {"did": did, "active": False}, {"did": did}]
    assert _dids({"repos": repos}) == [did]
    assert _dids({"repos": "x"}) == _dids({}) == []
