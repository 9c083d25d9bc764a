"""Space files that are damaged, lost or wrong inside: each is put right while everything else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.errors import StoreError
from lexicons.syntax import Did
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.world import held

if TYPE_CHECKING:
    from lexicons.spaces import SpaceUri
    from tests.appview.ingest.world import World
    from tests.network.synthetic import Account


def ruin(world: World, space: SpaceUri, *, lose: bool = False) -> None:
    """Overwrite or remove the file of a space that is closed."""
    path = world.pool.path(space)
    for each in path.parent.glob(path.name + "*"):
        each.unlink() if lose else each.write_bytes(b"not a database" * 1000)


async def until_right(world: World, space: SpaceUri, *accounts: Account) -> None:
    """Wait until the space holds what repos hold and its file is in order. It may be beyond use till then."""

    async def right() -> bool:
        try:
            async with world.pool.use(space) as store:
                return all([await store.live(Did(each.did)) == held(each) for each in accounts]) and not (
                    await store.check()
                )
        except StoreError:
            return False

    await world.until(right)


@pytest.mark.parametrize("lose", [False, True], ids=["damaged", "lost"])
async def test_a_space_whose_file_is_beyond_use_is_built_anew(world: World, lose: bool) -> None:
    async with world.running():
        garden, members = await several(world, 3)
        alice, shed = world.authority()
        world.remember(alice, "in the other space")
        await world.until_texts(shed, {"in the other space"})
        world.network.set_status(members[2], "takendown")
        await world.until_shown(garden, {"before"})
    ruin(world, garden, lose=lose)
    async with world.running():
        world.remember(members[0], "into the damaged one")
        await until_right(world, garden, *members[:2])
        await world.until_shown(garden, {"before", "into the damaged one"})
        await world.until_mirrored(shed, alice)

        async def nothing_is_asked_for() -> bool:
            return not await world.control.repairs()

        await world.until(nothing_is_asked_for)
        world.network.set_status(members[2], None)
        await until_right(world, garden, *members)
        assert len(await world.facts(garden)) == 4
    path = world.pool.path(garden)
    assert lose or list(path.parent.glob(path.name + ".damaged-*"))


async def test_damage_that_no_write_touches_is_repaired_on_request(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        world.remember_many(bob, 200)
        await world.until_mirrored(space, bob)
        async with world.pool.use(space) as store:
            await store.database.checkpoint()
            path = world.pool.path(space)
            with path.open("r+b") as file:
                for start in range(4096 * 12, path.stat().st_size - 4096, 4096):
                    file.seek(start)
                    file.write(b"\xff" * 64)
        await world.control.ask_repair(space, "mend", 1)
        await world.reconcile()
        await until_right(world, space, bob)


async def test_an_author_can_leave_a_damaged_space(world: World) -> None:
    async with world.running():
        space, (bob, carol) = await several(world, 2)
    ruin(world, space)
    async with world.running():
        await world.leave(space, bob)
        await until_right(world, space, carol)
        await world.until_texts_of(space, bob, set())


async def test_what_was_asked_for_is_done_by_the_next_start(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
        async with world.pool.use(space) as store:
            await store.database.write(lambda c: c.execute("DELETE FROM facts_fts WHERE rowid = 1"))
            assert await store.check() != []
        await world.control.ask_repair(space, "mend", 1)
    async with world.running():
        fetches = world.network.pds[0].requests["com.atproto.sync.getRepo"]
        await until_right(world, space, bob)
        assert world.network.pds[0].requests["com.atproto.sync.getRepo"] == fetches


async def test_what_cannot_be_mended_is_built_anew(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
        async with world.pool.use(space) as store:
            await store.database.write(lambda c: c.execute("DROP TABLE facts_vec_1"))
        await world.control.ask_repair(space, "mend", 1)
    async with world.running():
        await until_right(world, space, bob)


async def test_a_request_to_rebuild_is_not_made_less_by_one_to_mend(world: World) -> None:
    async with world.running():
        space, _ = await several(world, 1)
        await world.control.ask_repair(space, "mend", 1)
        await world.control.ask_repair(space, "rebuild", 2)
        await world.control.ask_repair(space, "mend", 3)
        assert await world.control.repairs() == {space: ("rebuild", 2)}
        await world.control.end_repair(space)
        assert await world.control.repairs() == {}
        assert await world.control.compare_repo(Did("did:plc:nobody"), 1) is False
