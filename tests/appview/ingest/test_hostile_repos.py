"""Whole repos that lie, stall or never end: not taken, nobody waits for them, honest ones are taken later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.test_snapshots import signed_tree
from tests.appview.ingest.world import World, memory, rkey
from tests.network.synthetic import Account, Network, tid
from tests.network.synthetic import mst as trees
from tests.network.synthetic.blocks import block_of, car
from tests.simulated_time import seconds_of, simulated, simulated_clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lexicons.spaces import SpaceUri

VALUE, RECORD = block_of(memory("of a false tree"))
KEYS = sorted(
    f"{MEMORY}/{key}" for key in (rkey() for _ in range(400)) if trees.height(f"{MEMORY}/{key}") == 0
)
HIGH = next(key for key in (f"{MEMORY}/{rkey()}" for _ in range(900)) if trees.height(key) == 1)


def tree(account: Account, keys: list[str]) -> bytes:
    root, node = trees.encode_node(keys, [VALUE] * len(keys), [None] * (len(keys) + 1))
    return signed_tree(account, root, [(root, node), (VALUE, RECORD)])


def bomb(account: Account) -> bytes:
    """A chain of nodes that hold nothing but each other."""
    blocks = [trees.encode_node([KEYS[0]], [VALUE], [None, None])]
    for _ in range(5_000):
        blocks.append(trees.encode_node([], [], [blocks[-1][0]]))
    return signed_tree(account, blocks[-1][0], [*blocks, (VALUE, RECORD)])


def cycle(account: Account) -> bytes:
    """A node under a CID that it refers to itself: no hash can be so, so one is false."""
    inner = trees.encode_node([KEYS[0]], [VALUE], [None, None])
    outer = trees.encode_node([HIGH], [VALUE], [inner[0], None])
    looping = trees.encode_node([KEYS[0]], [VALUE], [outer[0], None])
    return signed_tree(account, outer[0], [outer, (inner[0], looping[1]), (VALUE, RECORD)])


def wrong_root(account: Account) -> bytes:
    blocks = account.export_blocks()
    return car([blocks[1][0]], blocks)


HOSTILE: dict[str, Callable[[Account], bytes]] = {
    "truncated": lambda account: account.export()[:-50],
    "without its records": lambda account: car([account.head[0]], account.export_blocks()[:2]),  # type: ignore[index]
    "a wrong root": wrong_root,
    "no root": lambda account: car([], account.export_blocks()),
    "duplicate keys": lambda account: tree(account, [KEYS[0], KEYS[0]]),
    "unsorted keys": lambda account: tree(account, [KEYS[1], KEYS[0]]),
    "a wrong height": lambda account: tree(account, sorted([KEYS[0], HIGH])),
    "a bomb of depth": bomb,
    "a cycle": cycle,
    "a section of 10 GB": lambda account: account.export()[:100] + b"\x80\xc8\xaf\xa0\x25" + bytes(1_000),
}


async def refused(world: World, lie: Callable[[Account], bytes]) -> None:
    """Let an account with a false repo join: nothing of it is shown, others go on, the true one is taken."""
    async with world.running():
        space, (bob,) = await several(world, 1)
        carol = world.network.account()
        world.remember(carol, "hers")
        world.network.pds[0].export[carol.did] = lie(carol)
        await world.join(space, carol)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: Rejected", 0) >= 1)
        world.remember(bob, "goes on")
        await world.until_mirrored(space, bob)
        assert await world.texts(space) == {"before", "goes on"}
        del world.network.pds[0].export[carol.did]
        await world.until_mirrored(space, bob, carol)


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_false_repo_is_not_taken(world: World, name: str) -> None:
    await refused(world, HOSTILE[name])


def named_often(account: Account, record: dict[str, Any], count: int) -> bytes:
    """A repo in which so many keys name one record."""
    value, block = block_of(record)
    items = {f"{MEMORY}/{tid(1_700_000_000_000_000 + number)}": value for number in range(count)}
    root, nodes = trees.build(items)
    account.rev = account.next_rev()
    return signed_tree(account, root, [*nodes.items(), (value, block)])


async def test_a_record_under_many_keys_delays_nobody(world: World) -> None:
    async with world.running():
        space, _ = await several(world, 1)
        carol, mallory = world.network.account(), world.network.account()
        world.remember(carol, "hers")
        endless = memory(
            "\U0001f468\u200d" * 142_000
        )  # 1 MB, one letter as people count: takes 5 ms to judge
        world.network.pds[0].export[mallory.did] = named_often(mallory, endless, 20_000)
        asked = world.network.pds[0].requests["com.atproto.sync.getRepo"]
        await world.join(space, mallory)
        await world.until_status(lambda _: world.network.pds[0].requests["com.atproto.sync.getRepo"] > asked)
        await world.join(space, carol)
        await world.until_mirrored(space, carol)
        await world.until(lambda: skips(world, space, mallory, {"record": 20_000}))


async def skips(world: World, space: SpaceUri, account: Account, reasons: dict[str, int]) -> bool:
    return await world.skipped(space, account.did) == reasons


async def test_what_a_repo_puts_into_spaces_is_bounded(world: World) -> None:
    async with world.running():
        space, _ = await several(world, 1)
        within, beyond = world.network.account(), world.network.account()
        text = "compost " * 1_200
        world.network.pds[0].export[within.did] = named_often(within, memory(text), 300)
        world.network.pds[0].export[beyond.did] = named_often(beyond, memory(text), 600)
        await world.join(space, within)
        await world.join(space, beyond)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: Rejected", 0) >= 1)

        async def is_taken() -> bool:
            return len(await world.facts(space)) == 1 + 300

        await world.until(is_taken)
        row = world.ingest._pipeline.rows[Did(beyond.did)]
        assert row.error is not None and row.error.startswith("too-big: its memories come to more than")
        del world.network.pds[0].export[beyond.did]
        world.remember(beyond, "no more than it should be")
        await world.until_mirrored(space, beyond)


async def test_blocks_that_nobody_names_do_no_harm(world: World) -> None:
    async with world.running():
        space, _ = await several(world, 1)
        carol = world.network.account()
        world.remember(carol, "hers")
        blocks = [*carol.export_blocks(), *(block_of({"stray": number}) for number in range(1_000))]
        world.network.pds[0].export[carol.did] = car([blocks[0][0]], blocks)
        await world.join(space, carol)
        await world.until_mirrored(space, carol)


@simulated
async def test_a_repo_that_trickles_is_given_up_in_ten_minutes_and_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    async with Network(pds=2) as network:
        world = World(network, tmp_path)
        world.clock, loop = simulated_clock(), asyncio.get_running_loop()
        async with world.running():
            space, (bob,) = await several(world, 1)
            carol, dave = network.account(pds=1), network.account(pds=1)
            for author in (carol, dave):
                network.create(author, str(MEMORY), rkey(), memory("x" * 1_000))
            network.pds[1].trickling[carol.did] = 1.0
            await world.join(space, carol)
            start = loop.time()
            await world.join(space, dave)
            assert await seconds_of(world.until_mirrored(space, dave)) < 1, "who has the same host"
            world.remember(bob, "goes on")
            assert await seconds_of(world.until_mirrored(space, bob)) < 1
            await asyncio.sleep(start + 599 - loop.time())
            del network.pds[1].trickling[carol.did]
            assert world.ingest.status()["repos"]["fetches"] == {"fetched": 3}
            assert not await world.mirrors(space, carol)
            assert await seconds_of(world.until_mirrored(space, carol)) < 3
            assert world.ingest.status()["repos"]["fetches"] == {"fetched": 4, "failed: FetchError": 1}


async def test_a_repo_of_10_gb_by_its_headers_is_not_even_begun(world: World) -> None:
    async with world.running():
        space, _ = await several(world, 1)
        carol = world.network.account()
        world.remember(carol, "hers")
        world.network.pds[0].declared_bytes = 10_000_000_000
        await world.join(space, carol)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: ResponseTooLarge", 0) >= 1)
        world.network.pds[0].declared_bytes = None
        await world.until_mirrored(space, carol)
