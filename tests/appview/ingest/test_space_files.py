"""Whatever becomes of a file of a space, or of control.db beside it: soon after the start, or after whoever
meets it first, the space holds again what its authors' repos hold."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pysqlite3
import pytest

from appview.access.rules import Permission
from appview.access.subjects import MEMBER
from appview.errors import StoreError
from appview.memory.scope import Subtree
from appview.memory.store import NEWEST_SCHEMA, SpaceStore
from appview.search.analysis import ANALYSIS
from lexicons.ids import CONFIG, MEMORY
from lexicons.models import ModelKey
from lexicons.syntax import Did
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.test_repairs import until_right
from tests.appview.ingest.world import MODEL, OTHER_MODEL, config

if TYPE_CHECKING:
    from pathlib import Path

    from lexicons.spaces import SpaceUri
    from tests.appview.ingest.world import World
    from tests.network.synthetic import Account

GET_REPO = "com.atproto.sync.getRepo"


def fetches(world: World) -> int:
    return world.network.pds[0].requests[GET_REPO]


def lose(path: Path) -> None:
    """Remove a file with its log."""
    for each in path.parent.glob(path.name + "*"):
        each.unlink()


def restore(copy: Path, path: Path) -> None:
    lose(path)
    shutil.copy(copy, path)


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def set_schema(path: Path, version: int) -> None:
    connection = pysqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def stop_counting(world: World, space: SpaceUri) -> None:
    """Leave the files as a version would that did not count what it wrote."""
    for path, statement in (
        (world.pool.path(space), "DELETE FROM meta WHERE key IN ('made', 'writes')"),
        (world.settings.control_file, "DELETE FROM files"),
    ):
        connection = pysqlite3.connect(path, isolation_level=None)
        connection.execute(statement)
        connection.close()


async def until_asked(world: World, space: SpaceUri, kind: str | None) -> None:
    """Wait until a repair of this kind is noted, or none."""

    async def noted() -> bool:
        return (await world.control.repairs()).get(space, (None, 0))[0] == kind

    await world.until(noted)


async def until_facts(world: World, space: SpaceUri, texts: set[str]) -> None:
    """Wait until the space has these texts; its file may be beyond use till then."""

    async def the_same() -> bool:
        try:
            return await world.texts(space) == texts
        except StoreError:
            return False

    await world.until(the_same)


async def until_filled(world: World, space: SpaceUri) -> None:
    """Wait until every author's repo has filled the space, and nothing is asked for."""

    async def filled() -> bool:
        states = {state for (each, _), state in (await world.control.memberships()).items() if each == space}
        return states == {"synced"} and not await world.control.repairs()

    await world.until(filled)


async def settled(world: World, count: int = 2) -> tuple[SpaceUri, list[Account]]:
    space, members = await several(world, count)
    await until_filled(world, space)
    await world.until_caught_up()
    return space, members


# Lost, empty, older


@pytest.mark.parametrize("how", ["gone", "empty", "without its schema"])
async def test_a_file_without_anything_is_built_anew(world: World, how: str) -> None:
    async with world.running():
        space, members = await settled(world)
    path = world.pool.path(space)
    lose(path)
    if how == "empty":
        path.touch()
    elif how == "without its schema":
        connection = pysqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
    async with world.running():
        await until_right(world, space, *members)
        await until_filled(world, space)
        async with world.pool.use(space) as store:
            assert store.config is not None
        assert len(await world.facts(space)) == 2


@pytest.mark.parametrize("torn", [False, True], ids=["restored", "log lost"])
async def test_an_older_file_is_built_anew(world: World, tmp_path: Path, torn: bool) -> None:
    copy = tmp_path / "copy"
    async with world.running():
        space, (bob, carol) = await settled(world)
        gone = world.remember(bob, "to be deleted")
        await world.until_mirrored(space, bob)
        if torn:
            async with world.pool.use(space) as store:
                await store.database.checkpoint()
            shutil.copy(world.pool.path(space), copy)
    path = world.pool.path(space)
    if not torn:
        shutil.copy(path, copy)
    async with world.running():
        world.network.delete(bob, str(MEMORY), gone)
        world.remember(carol, "later")
        await until_facts(world, space, {"before", "later"})
        await world.until_caught_up()
        async with world.pool.use(space) as store:
            await store.set_path_tag("/a", "room", "kitchen")
    restore(copy, path)
    async with world.running():
        world.remember(bob, "on top")
        await until_facts(world, space, {"before", "later", "on top"})
        await until_right(world, space, bob, carol)
        await until_filled(world, space)
    assert list(path.parent.glob(path.name + ".damaged-*"))
    async with world.running():  # and that was that
        await world.until_connected()
        count = fetches(world)
        world.remember(bob, "after all")
        await until_facts(world, space, {"before", "later", "on top", "after all"})
        assert fetches(world) == count


async def test_what_paths_say_is_kept_as_the_older_file_had_it(world: World, tmp_path: Path) -> None:
    async with world.running():
        space, (bob,) = await settled(world, 1)
        async with world.pool.use(space) as store:
            await store.set_path_tag("/a", "room", "kitchen")
    path = world.pool.path(space)
    shutil.copy(path, tmp_path / "copy")
    async with world.running():
        world.remember(bob, "later")
        await world.until_mirrored(space, bob)
    restore(tmp_path / "copy", path)
    async with world.running():
        await until_right(world, space, bob)
        async with world.pool.use(space) as store:
            assert [(path, tag.key) for path, tag in await store.path_tags()] == [("/a", "room")]


async def test_a_file_of_before_it_was_built_anew_is_an_older_one(world: World, tmp_path: Path) -> None:
    async with world.running():
        space, (bob,) = await settled(world, 1)
        for number in range(20):  # more transactions than the new file will have had
            world.remember(bob, f"number {number}")
            await world.until_mirrored(space, bob)
    path = world.pool.path(space)
    shutil.copy(path, tmp_path / "copy")
    lose(path)
    async with world.running():
        await until_right(world, space, bob)
        world.remember(bob, "later")
        await world.until_mirrored(space, bob)
        await world.until_caught_up()
    restore(tmp_path / "copy", path)
    async with world.running():
        await until_right(world, space, bob)


async def test_a_file_of_before_a_change_of_the_model_serves_nothing_of_the_old_one(
    world: World, tmp_path: Path
) -> None:
    async with world.running():
        alice, space = world.authority()
        world.remember(alice, "of the old model")
        await world.until_texts(space, {"of the old model"})
        await until_filled(world, space)
    path = world.pool.path(space)
    shutil.copy(path, tmp_path / "copy")
    async with world.running():
        world.network.update(alice, str(CONFIG), "self", config(OTHER_MODEL))
        await world.until_texts(space, set())
        await world.until_caught_up()
    restore(tmp_path / "copy", path)
    async with world.running():
        await until_facts(world, space, set())
        await until_right(world, space, alice)
        async with world.pool.use(space) as store:
            assert store.active == ModelKey(
                **{
                    "model": OTHER_MODEL["model"],
                    "digest": OTHER_MODEL["modelDigest"],
                    "dims": OTHER_MODEL["dims"],
                }
            )


async def test_a_file_that_is_replaced_while_the_server_runs_is_noticed_when_it_is_opened(
    world: World, tmp_path: Path
) -> None:
    async with world.running():
        space, (bob,) = await settled(world, 1)
    path = world.pool.path(space)
    shutil.copy(path, tmp_path / "copy")
    async with world.running():
        world.remember(bob, "later")
        await world.until_mirrored(space, bob)
        await world.until_caught_up()
        await world.pool.forget()
        restore(tmp_path / "copy", path)
        with pytest.raises(StoreError, match="older"):
            await world.facts(space)  # the first who asks
        await until_facts(world, space, {"before", "later"})


# Damaged, and met by a reader alone


@pytest.mark.parametrize("how", ["truncated", "garbage"])
async def test_damage_that_a_reader_meets_is_repaired(world: World, how: str) -> None:
    async with world.running():
        space, (bob,) = await settled(world, 1)
        world.remember_many(bob, 200)
        await world.until_mirrored(space, bob)
        await world.until_caught_up()
    path = world.pool.path(space)
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[: 4096 * 2] + b"\xff" * (len(content) - 4096 * 2))
    async with world.running():
        await until_right(world, space, bob)
        await until_filled(world, space)
        assert len(await world.facts(space)) == 201


# Set apart: somebody else's, or a newer program's


@pytest.mark.parametrize("how", ["swapped", "newer schema"])
@pytest.mark.parametrize("live", [False, True], ids=["while stopped", "while running"])
async def test_what_passes_a_file_that_is_set_apart_is_there_when_it_is_right_again(
    world: World, how: str, live: bool
) -> None:
    def turn(*, back: bool = False) -> None:
        if how == "swapped":
            swap(garden_file, shed_file)
        else:
            schema = NEWEST_SCHEMA
            for path in (garden_file, shed_file):
                set_schema(path, schema if back else 999)

    async with world.running():
        garden, (bob, carol) = await settled(world)
        alice, shed = world.authority()
        world.remember(alice, "in the shed")
        await world.until_texts(shed, {"in the shed"})
        await until_filled(world, shed)
    garden_file, shed_file = world.pool.path(garden), world.pool.path(shed)
    turn()
    async with world.running():
        await world.until_connected()
        count = fetches(world)
        key = world.remember(bob, "while apart")
        world.network.delete(
            carol, str(MEMORY), next(path for path in carol.records if str(MEMORY) in path).split("/")[1]
        )
        world.remember(alice, "apart too")
        await world.until_caught_up()
        await until_asked(world, garden, "refill")
        assert fetches(world) == count  # into what should they go?
        if live:
            turn(back=True)
            await until_facts(world, garden, {"before", "while apart"})
            await until_facts(world, shed, {"in the shed", "apart too"})
            await until_filled(world, garden)
    if not live:
        turn(back=True)
    async with world.running():
        await until_right(world, garden, bob, carol)
        await until_right(world, shed, alice)
        assert await world.texts(garden) == {"before", "while apart"}
        await until_filled(world, garden)
        await until_filled(world, shed)
        assert key in await live_keys(world, garden, bob)


async def live_keys(world: World, space: SpaceUri, account: Account) -> set[str]:
    async with world.pool.use(space) as store:
        return set(await store.live(Did(account.did)))


async def test_rules_configs_and_accounts_that_change_meanwhile_hold_when_the_file_is_right_again(
    world: World,
) -> None:
    async with world.running():
        alice, garden = world.authority()
        bob, carol, dave = (world.network.account() for _ in range(3))
        for account in (bob, carol, dave):
            world.remember(account, f"of {account.did}", "/a/b")
        await world.until_declared(garden)
        for account in (bob, carol, dave):
            await world.join(garden, account)
        await world.until_mirrored(garden, bob, carol, dave)
        _, shed = world.authority()
        await world.until_declared(shed)
        await until_filled(world, garden)
    set_schema(world.pool.path(garden), 999)
    async with world.running():
        await world.until_connected()
        await world.leave(garden, bob)
        world.network.set_status(carol, "deleted")
        world.network.update(alice, str(CONFIG), "self", config(MODEL, next=OTHER_MODEL))
        await world.until_caught_up()
        world.remember(dave, "in both")
        await world.join(shed, dave)  # other spaces are followed as ever
        await world.until_mirrored(shed, dave)
        row = await world.control.space(garden)
        assert row is not None and row.config is not None and row.config.next is not None
    set_schema(world.pool.path(garden), NEWEST_SCHEMA)
    async with world.running():
        await until_facts(world, garden, {f"of {dave.did}", "in both"})
        async with world.pool.use(garden) as store:
            assert store.config == row.config
            assert await store.live(Did(bob.did)) == {}
            assert await store.live(Did(carol.did)) == {}


# control.db lost, or older than the files


async def test_whoever_may_not_write_by_an_older_control_db_is_not_served(
    world: World, tmp_path: Path
) -> None:
    async with world.running():
        garden, (bob,) = await settled(world, 1)
        carol = world.network.account()
        world.remember(carol, "of carol")
        await world.until_caught_up()
    control = world.settings.control_file
    shutil.copy(control, tmp_path / "copy")
    async with world.running():
        await world.join(garden, carol)
        await world.until_mirrored(garden, carol)
    restore(tmp_path / "copy", control)
    async with world.running():
        await until_facts(world, garden, {"before"})
        await until_right(world, garden, bob)


async def test_whoever_may_write_by_an_older_control_db_is_served(world: World, tmp_path: Path) -> None:
    async with world.running():
        garden, (bob, carol) = await settled(world)
    control = world.settings.control_file
    shutil.copy(control, tmp_path / "copy")
    async with world.running():
        await world.leave(garden, carol)
        await world.until_texts_of(garden, carol, set())
    restore(tmp_path / "copy", control)
    async with world.running():
        await until_right(world, garden, bob, carol)
        assert len(await world.facts(garden)) == 2


@pytest.mark.parametrize("narrower", [True, False], ids=["narrowed since", "widened since"])
async def test_rights_of_an_older_control_db_decide_what_is_served(
    world: World, tmp_path: Path, narrower: bool
) -> None:
    """The file was filled by other rights than those that are in force again."""

    async def forbid(*, again: bool) -> None:
        add, remove = ([denied], []) if again else ([], [denied])
        await world.access.change(add, remove, actor="test", action="test")
        await world.reconcile()
        await until_facts(world, garden, {"before"} if again else {"before", "dear diary"})
        await until_filled(world, garden)

    async with world.running():
        garden, (bob,) = await settled(world, 1)
        denied = Permission(MEMBER, garden, Subtree("/diary"), "write", allow=False)
        world.remember(bob, "dear diary", "/diary")
        await until_facts(world, garden, {"before", "dear diary"})
        await world.until_caught_up()
        if not narrower:
            await forbid(again=True)
    control = world.settings.control_file
    shutil.copy(control, tmp_path / "copy")
    async with world.running():
        await forbid(again=narrower)
    restore(tmp_path / "copy", control)
    async with world.running():
        await until_facts(world, garden, {"before", "dear diary"} if narrower else {"before"})
        await until_filled(world, garden)


async def test_files_outlive_a_lost_control_db_as_far_as_rules_allow(world: World) -> None:
    async with world.running():
        alice, garden = world.authority()
        world.remember(alice, "of alice")
        await world.until_texts(garden, {"of alice"})
        bob = world.network.account()
        world.remember(bob, "of bob")
        await world.join(garden, bob)
        await world.until_mirrored(garden, bob)
        await until_filled(world, garden)
    lose(world.settings.control_file)
    async with world.running(source=(f"pds+{world.network.pds[0].url}",)):
        await until_facts(world, garden, {"of alice"})


# What is ordinary


async def test_nothing_is_fetched_at_an_ordinary_start(world: World) -> None:
    async with world.running():
        garden, (bob, _) = await settled(world)
        async with world.pool.use(garden) as store:
            await store.set_path_tag(
                "/a", "room", "kitchen"
            )  # the last thing that is written: ahead of control.db
    for round_ in range(2):
        async with world.running():
            count = fetches(world)
            world.remember(bob, f"round {round_}")
            await world.until_mirrored(garden, bob)
            await world.until_caught_up()
            assert fetches(world) == count
            assert await world.control.repairs() == {}
    assert not list(world.pool.path(garden).parent.glob("*.damaged-*"))


async def test_a_crash_before_control_db_was_written_fetches_nothing(world: World, tmp_path: Path) -> None:
    async with world.running():
        garden, (bob, carol) = await settled(world)
    control = world.settings.control_file
    shutil.copy(control, tmp_path / "copy")
    async with world.running():
        world.remember(bob, "not known to control.db")
        await world.until_mirrored(garden, bob)
    restore(tmp_path / "copy", control)
    async with world.running():
        count = fetches(world)
        world.remember(carol, "after the crash")
        await world.until_mirrored(garden, bob, carol)
        await world.until_caught_up()
        assert fetches(world) == count
    assert not list(world.pool.path(garden).parent.glob("*.damaged-*"))


async def test_a_file_that_was_made_without_its_config_is_given_it(world: World) -> None:
    """As versions that did not count made one where it was lost, and went on with it."""
    async with world.running():
        garden, (bob, carol) = await settled(world)
    lose(world.pool.path(garden))
    with ThreadPoolExecutor(1) as executor:
        store = await SpaceStore.open(world.pool.path(garden), garden, executor, lambda: 0, analyser=ANALYSIS)
        await store.close()
    stop_counting(world, garden)
    async with world.running():
        await until_right(world, garden, bob, carol)
        assert await world.texts(garden) == {"before"}


async def test_files_of_a_version_that_did_not_count_are_taken_as_they_are(world: World) -> None:
    async with world.running():
        garden, (bob, carol) = await settled(world)
    stop_counting(world, garden)
    for round_ in range(2):
        async with world.running():
            count = fetches(world)
            world.remember(bob, f"round {round_}")
            await world.until_mirrored(garden, bob, carol)
            await world.until_caught_up()
            assert fetches(world) == count
            assert (await world.control.files.get(garden)) is not None
