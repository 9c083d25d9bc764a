"""The ordinary life of spaces, authors and memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import OTHER_MODEL, World, config, memory, rkey
from tests.network.synthetic import K256, P256, Network

if TYPE_CHECKING:
    from pathlib import Path


async def test_an_authoritys_memories_are_indexed(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        world.remember(alice, "one")
        world.remember(alice, "two")
        await world.until_mirrored(space, alice)
        assert await world.texts(space) == {"one", "two"}


async def test_memories_that_came_before_their_config_are_found(world: World) -> None:
    async with world.running():
        alice = world.network.account()
        world.remember(alice, "early")
        await world.until_caught_up()
        world.network.create(alice, str(CONFIG), "self", config())
        space = SpaceUri.public(Did(alice.did))
        world.remember(alice, "late")
        await world.until_texts(space, {"early", "late"})


async def test_memories_of_one_who_becomes_a_member_later_are_found(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = world.network.account()
        world.remember(bob, "before")
        await world.until_declared(space)
        assert await world.texts(space) == set()
        await world.join(space, bob)
        world.remember(bob, "after")
        await world.until_texts(space, {"before", "after"})


async def test_a_member_who_leaves_takes_the_memories_along(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        bob = world.network.account()
        await world.until_declared(space)
        await world.join(space, bob)
        world.remember(alice, "alice's")
        world.remember(bob, "bob's")
        await world.until_texts(space, {"alice's", "bob's"})
        await world.leave(space, bob)
        await world.until_texts(space, {"alice's"})
        world.remember(bob, "too late")
        world.remember(alice, "still here")
        await world.until_texts(space, {"alice's", "still here"})
        await world.join(space, bob)
        await world.until_texts(space, {"alice's", "still here", "bob's", "too late"})


async def test_updates_and_deletes_are_followed(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        first, second = world.remember(alice, "first"), world.remember(alice, "second")
        await world.until_texts(space, {"first", "second"})
        world.network.update(alice, str(MEMORY), first, memory("changed"))
        world.network.delete(alice, str(MEMORY), second)
        await world.until_texts(space, {"changed"})
        await world.until_mirrored(space, alice)


async def test_an_update_that_names_another_space_moves_the_memory(world: World) -> None:
    async with world.running():
        alice, garden = world.authority()
        bob, shed = world.authority()
        await world.until_declared(garden)
        await world.until_declared(shed)
        await world.join(shed, alice)
        key = world.remember(alice, "everywhere")
        await world.until_texts(garden, {"everywhere"})
        await world.until_texts(shed, {"everywhere"})
        world.network.update(alice, str(MEMORY), key, memory("in the shed", f"space={bob.did}"))
        await world.until_texts(garden, set())
        await world.until_texts(shed, {"in the shed"})


async def test_a_config_in_a_members_repo_makes_only_that_members_space(world: World) -> None:
    async with world.running():
        _, garden = world.authority()
        bob = world.network.account()
        await world.until_declared(garden)
        await world.join(garden, bob)
        world.remember(bob, "bob's")
        await world.until_texts(garden, {"bob's"})
        world.network.create(bob, str(CONFIG), "self", config(OTHER_MODEL))
        own = SpaceUri.public(Did(bob.did))
        await world.until_declared(own)
        row = await world.control.space(garden)
        assert row is not None and row.config is not None
        assert row.config.model.model == "hashing-4"
        assert await world.texts(garden) == {"bob's"}
        assert await world.skipped(own, bob.did) == {"model": 1}


async def test_a_config_that_is_not_valid_changes_nothing_and_is_counted(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        world.remember(alice, "here")
        await world.until_texts(space, {"here"})
        world.network.update(alice, str(CONFIG), "self", config({"model": "m", "modelDigest": "", "dims": 0}))
        world.remember(alice, "there")
        await world.until_texts(space, {"here", "there"})
        assert world.ingest.status()["configs"]["refused: not valid"] == 1


async def test_a_changed_config_judges_again_and_a_deleted_one_leaves_a_space_without(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        world.remember(alice, "mine")
        await world.until_texts(space, {"mine"})
        world.network.update(alice, str(CONFIG), "self", config(OTHER_MODEL))
        await world.until_texts(space, set())
        assert await world.skipped(space, alice.did) == {"model": 1}
        world.network.update(alice, str(CONFIG), "self", config())
        await world.until_texts(space, {"mine"})
        world.network.delete(alice, str(CONFIG), "self")
        await world.until_texts(space, set())
        assert await world.skipped(space, alice.did) == {"no-config": 1}

        async def withdrawn() -> bool:
            row = await world.control.space(space)
            return row is not None and row.config is None

        await world.until(withdrawn)


async def test_with_registration_closed_only_admitted_spaces_are_made(world: World) -> None:
    async with world.running(registration="closed"):
        alice, garden = world.authority()
        bob, shed = world.authority()
        world.remember(alice, "admitted")
        world.remember(bob, "not admitted")
        await world.control.admit_space(garden, 1, actor="operator")
        await world.reconcile()
        await world.until_texts(garden, {"admitted"})
        assert await world.control.space(shed) is None
        assert not world.pool.exists(shed)


async def test_an_account_that_declares_no_space_is_not_followed_for_long(world: World) -> None:
    async with world.running():
        alice = world.network.account()
        world.network.create(alice, str(CONFIG), "self", config({"model": "m", "modelDigest": "", "dims": 0}))
        await world.until_status(lambda status: status["repos"]["fetches"].get("fetched") == 1)
        await world.until_status(lambda status: status["repos"]["followed"] == 0)
        assert await world.control.repos() == []


@pytest.mark.parametrize("keys", [(K256, K256), (K256, P256), (P256, K256)])
@pytest.mark.parametrize("announce", [True, False])
async def test_a_rotated_key_is_looked_up(world: World, keys: tuple[type, type], announce: bool) -> None:
    async with world.running():
        await world.until_connected()
        alice = world.network.account(key=keys[0]())
        world.network.create(alice, str(CONFIG), "self", config())
        space = SpaceUri.public(Did(alice.did))
        world.remember(alice, "old key")
        await world.until_texts(space, {"old key"})
        world.network.rotate_key(alice, keys[1](), announce=announce)
        world.remember(alice, "new key")
        await world.until_texts(space, {"old key", "new key"})


async def test_commits_to_other_collections_cost_no_fetch(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        world.remember(alice, "one")
        await world.until_texts(space, {"one"})
        fetches = world.network.pds[0].requests["com.atproto.sync.getRepo"]
        for _ in range(5):
            world.network.create(alice, "app.bsky.feed.post", rkey(), {"text": "hello"})
        world.remember(alice, "two")
        await world.until_texts(space, {"one", "two"})
        assert world.network.pds[0].requests["com.atproto.sync.getRepo"] == fetches


async def test_several_sources_are_followed_at_once(tmp_path: Path) -> None:
    async with Network(pds=2) as network:
        world = World(network, tmp_path)
        async with world.running(source=tuple(pds.url for pds in network.pds)):
            alice = network.account(pds=0)
            network.create(alice, str(CONFIG), "self", config())
            space = SpaceUri.public(Did(alice.did))
            bob = network.account(pds=1)
            await world.until_declared(space)
            await world.join(space, bob)
            for number in range(10):
                world.remember(alice, f"alice {number}")
                world.remember(bob, f"bob {number}")
            await world.until_mirrored(space, alice, bob)

            async def both() -> bool:
                positions = {source: at for source, (at, _) in (await world.control.cursors()).items()}
                return sorted(positions.values()) == sorted(pds.firehose.seq for pds in network.pds)

            await world.until(both)


async def test_a_space_that_was_removed_is_left_alone_and_filled_when_it_is_admitted_again(
    world: World,
) -> None:
    async with world.running():
        alice, space = world.authority()
        world.remember(alice, "before")
        await world.until_texts(space, {"before"})
        await world.until_declared(space)
        await world.control.remove_space(space, 1, actor="operator")
        await world.reconcile()
        world.remember(alice, "meanwhile")
        world.network.update(alice, str(CONFIG), "self", config(createdAt="2026-12-01T00:00:00.000Z"))
        await world.until_caught_up()
        assert await world.control.space(space) is None
        assert await world.texts(space) == {"before"}
        await world.control.admit_space(space, 2, actor="operator")
        await world.reconcile()
        await world.until_texts(space, {"before", "meanwhile"})


async def test_a_claim_in_the_name_of_an_account_that_does_not_exist_is_given_up(world: World) -> None:
    async with world.running():
        alice = world.network.account()
        world.network.plc.gone.add(alice.did)
        world.network.create(alice, str(CONFIG), "self", config())
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: UnknownDid", 0) >= 1)
        await world.until_status(lambda status: status["repos"]["followed"] == 0)


async def test_only_so_many_claims_are_looked_into_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appview.ingest.pipeline.MAX_CANDIDATES", 2)
    async with world.running():
        world.network.pds[0].fail_with = 503
        for _ in range(4):
            world.authority()
        await world.until_status(lambda s: s["rejects"].get("too many candidates") == 2)
        assert world.ingest.status()["repos"]["followed"] == 2
