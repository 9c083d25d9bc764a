"""How far a source's position may go: behind what its messages led to, and what of them waits is noted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from appview.ingest import committer
from appview.ingest.engine import Engine
from appview.ingest.intake import BATCH_FRAMES
from lexicons.ids import CONFIG, MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.test_clocks import fork_of
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.world import config, memory, rkey
from tests.network.synthetic import K256, Write

if TYPE_CHECKING:
    import pytest

    from appview.ingest.commands import Command
    from lexicons.spaces import SpaceUri
    from tests.appview.ingest.world import World
    from tests.network.synthetic import Account


async def member(world: World) -> tuple[SpaceUri, Account]:
    """Make a space with one member whose commits are judged as they come: its key is known."""
    space, (bob,) = await several(world, 1)
    world.remember(bob, "known")
    await world.until_mirrored(space, bob)
    await world.until_caught_up()
    return space, bob


async def test_a_disk_that_is_slow_slows_reading(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    room, commits = 20, 200
    monkeypatch.setattr(committer, "MAX_OPEN_UPDATES", room)
    async with world.running():
        space, bob = await member(world)
        before = world.ingest.status()["events"]["CommitEvent"]
        async with world.disk_held(space):
            for number in range(commits):
                world.remember(bob, f"memory {number}")
            await world.until_status(lambda s: s["writing"]["updates"] >= room)
            await asyncio.sleep(0.2)
            taken = world.ingest.status()["events"]["CommitEvent"] - before
            assert room <= taken <= room + BATCH_FRAMES
        await world.until_mirrored(space, bob)


async def test_a_position_is_not_noted_before_the_work_that_it_stands_for(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        await world.until_declared(space)
        world.remember(alice, "so that her key is known")
        await world.until_mirrored(space, alice)
        await world.until_caught_up()
        (before,) = (position for position, _ in (await world.control.cursors()).values())
        commits = world.ingest.status()["events"]["CommitEvent"]
        async with world.disk_held(space):
            changed = config(createdAt="2026-12-01T00:00:00.000Z")
            seq = world.network.update(alice, str(CONFIG), "self", changed)
            await world.until_status(lambda s: s["events"]["CommitEvent"] == commits + 1)
            await world.ingest._committer.flush()
            assert [position for position, _ in (await world.control.cursors()).values()] == [before]
        await world.until_caught_up()
        assert world.network.pds[0].firehose.seq == seq


async def noted(world: World, bob: Account) -> str:
    """Give what is noted of a repo, once the position behind all that was sent is on disk."""
    await world.until_caught_up()
    row = await world.control.repo(Did(bob.did))
    assert row is not None
    return row.sync_state


async def test_what_waits_for_a_document_is_fetched_whole_after_a_crash(world: World) -> None:
    async with world.running():
        await world.until_connected()
        space, bob = await member(world)
        world.network.plc.fail_with = 503
        world.network.announce_identity(bob)
        await world.until_status(lambda s: s["events"].get("IdentityEvent", 0) >= 3)
        assert await noted(world, bob) == "synchronized"
        world.remember(bob, "waits")
        await world.until_status(lambda s: s["repos"]["waiting events"] == 1)
        assert await noted(world, bob) == "desynchronized"
    world.network.plc.fail_with = None
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_what_was_refused_and_may_be_true_is_fetched_whole_after_a_crash(world: World) -> None:
    async with world.running():
        await world.until_connected()
        space, bob = await member(world)
        forged = fork_of(bob).draft(Write("create", str(MEMORY), rkey(), memory("forged")))
        world.network.publish(forged, corrupt="wrong-key")
        await world.until_status(lambda s: s["rejects"].get("bad-signature") == 1)
        assert await noted(world, bob) == "synchronized"
        world.network.rotate_key(bob, K256(), announce=False)
        world.remember(bob, "under a new key")  # a second look is not due within the minute
        await world.until_status(lambda s: s["rejects"].get("bad-signature") == 2)
        assert await noted(world, bob) == "desynchronized"
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_a_message_that_breaks_the_program_has_its_repo_fetched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[object] = []
    real = Engine.receive

    def receive(engine: Engine, event: object, *more: object) -> list[Command]:
        if getattr(event, "did", None) == bob.did and not broken:
            broken.append(event)
            raise ZeroDivisionError
        return real(engine, event, *more)  # type: ignore[arg-type]

    async with world.running():
        space, bob = await member(world)
        monkeypatch.setattr(Engine, "receive", receive)
        world.remember(bob, "breaks it")
        await world.until_mirrored(space, bob)
        assert world.ingest.status()["events"]["broken"] == len(broken) == 1
