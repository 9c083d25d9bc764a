"""A member who sends the heaviest commits without pause keeps only itself waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.memory.complete import Merge
from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.world import World, memory, rkey
from tests.network.synthetic import Write

if TYPE_CHECKING:
    from tests.network.synthetic import Account

LIGHT = [" ".join(f"w{commit}x{word}" for word in range(1_200))[:9_900] for commit in range(30)]
HEAVY = [("e\u0301" * 9_990) + f" {commit}" for commit in range(6)]


def flood(world: World, account: Account, texts: list[str], operations: int) -> None:
    """Send commits of so many operations that all name one record."""
    for text in texts:
        record = memory(text)
        world.network.commit(
            account, *(Write("create", str(MEMORY), rkey(), record) for _ in range(operations))
        )


@pytest.mark.parametrize(("texts", "operations"), [(LIGHT, 20), (HEAVY, 200)], ids=["light", "heavy"])
async def test_neighbours_of_who_sends_without_pause_go_first(
    world: World, texts: list[str], operations: int
) -> None:
    async with world.running():
        alice, space = world.authority()
        carol, hers = world.authority()
        mallory = world.network.account()
        await world.until_declared(space)
        await world.until_declared(hers)
        await world.join(space, mallory)
        world.remember(alice, "before")
        world.remember(carol, "before")
        await world.until_mirrored(space, alice, mallory)
        await world.until_mirrored(hers, carol)

        flood(world, mallory, texts, operations)
        world.remember(alice, "meanwhile")
        world.remember(carol, "meanwhile")
        await world.until_mirrored(hers, carol)
        await world.until_mirrored(space, alice)
        async with world.pool.use(space) as store:
            there = len(await store.live(Did(mallory.did)))
        assert there < len(texts) * operations * 2 // 3
        # What waits is bounded, and all of it gets there.
        assert world.ingest.status()["writing"]["updates"] < len(texts)
        await world.until(lambda: world.mirrors(space, mallory), seconds=50)
        assert not world.ingest._committer.is_full(Did(mallory.did))


async def test_a_whole_repo_is_written_bit_by_bit_and_others_go_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[int | None] = []
    read = Merge.read

    def reading(merge: Merge, connection: object, most: int | None = None) -> object:
        parts.append(most)
        return read(merge, connection, most)  # type: ignore[arg-type]

    monkeypatch.setattr(Merge, "read", reading)
    async with world.running():
        alice, space = world.authority()
        mallory = world.network.account()
        flood(world, mallory, LIGHT, 8)
        await world.until_declared(space)
        parts.clear()
        await world.join(space, mallory)
        world.remember(alice, "meanwhile")
        await world.until_mirrored(space, alice, mallory)
        assert len(parts) >= 3
        assert None not in parts
        assert await world.control.memberships()
