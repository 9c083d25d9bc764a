"""Sources that may have lost events: whose repos are compared, how often, and who waits meanwhile."""

from __future__ import annotations

import random
import time
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING

from appview.ingest import gaps
from appview.ingest.gaps import INTERVAL
from appview.ingest.stream import Gap
from lexicons.ids import CONFIG, MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.test_confirmation import LATEST, member
from tests.appview.ingest.test_foreign_hosts import storm, two_hosts
from tests.appview.ingest.world import config, memory, rkey
from tests.network.synthetic import Write, info_frame

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.appview.ingest.world import World
    from tests.network.synthetic import Account


GAP = Gap("outdated-cursor")


def lose(account: Account, text: str) -> None:
    """Write a memory of which no source tells."""
    account.draft(Write("create", str(MEMORY), rkey(), memory(text)))


def gap(world: World, pds: int) -> None:
    firehose = world.network.pds[pds].firehose
    firehose.push(info_frame("OutdatedCursor", "so it says"), firehose.next_seq())


async def test_a_gap_of_a_host_concerns_its_own_accounts_alone(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as world, world.running():
        alice, space = world.authority()
        bob, carol = await member(world, space), await member(world, space, pds=1)
        lose(bob, "lost, and nobody says so")
        lose(carol, "lost")
        gap(world, 1)
        await world.until_mirrored(space, carol)
        await world.until_status(lambda status: status["repos"]["to compare"] == 0)
        assert not await world.mirrors(space, bob)
        assert world.network.pds[0].requests[LATEST] == 0
        gap(world, 0)
        await world.until_mirrored(space, alice, bob, carol)


async def test_a_gap_of_a_relay_concerns_all_but_those_whose_host_speaks_itself(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as world:
        relay, pds = world.network.pds
        async with world.running(source=(relay.url, f"pds+{pds.url}")):
            _, space = world.authority()
            bob, carol = await member(world, space), await member(world, space, pds=1)
            lose(bob, "lost")
            gap(world, 0)
            await world.until_mirrored(space, bob)
            await world.until_status(lambda status: status["repos"]["to compare"] == 0)
            assert pds.requests[LATEST] == 0
            assert await world.mirrors(space, carol)


async def test_a_storm_of_gaps_has_its_repos_compared_once_a_minute_and_delays_nobody(
    tmp_path: Path,
) -> None:
    async with two_hosts(tmp_path) as world, world.running():
        bob, space = world.authority()
        others = [world.network.account(pds=1) for _ in range(20)]
        for other in others:
            world.network.create(other, str(CONFIG), "self", config())
        await world.until_status(lambda status: status["repos"]["synchronized"] == 21)
        evil = world.network.pds[1]
        async with storm(lambda: gap(world, 1)):
            await world.until_status(lambda status: status["repos"]["fetches"].get("unchanged", 0) >= 20)
            for number in range(5):
                started = time.monotonic()
                world.remember(bob, f"during {number}")
                await world.until_mirrored(space, bob)
                assert time.monotonic() - started < 1.5
        assert evil.requests[LATEST] == 20
        assert world.network.pds[0].requests[LATEST] == 0
        # What came within the minute is owed.
        lose(others[0], "lost")
        for source in world.ingest._gaps._sources.values():
            assert source.owed
            source.quiet_until -= INTERVAL
        await world.until_status(lambda status: status["repos"]["fetches"].get("unchanged", 0) >= 39)
        assert evil.requests[LATEST] == 40


async def test_commits_do_not_wait_while_repos_are_compared(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = await member(world, space)
        world.network.pds[0].fail_with = 503  # the host does not say how far it is
        gap(world, 0)
        await world.until_status(lambda status: status["repos"]["states"].get("desynchronized", 0) == 2)
        world.remember(bob, "goes on")
        await world.until_mirrored(space, bob)
        world.network.pds[0].fail_with = None
        await world.until_status(lambda status: status["repos"]["synchronized"] == 2)


async def test_a_gap_is_not_forgotten_over_a_restart(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = await member(world, space)
        lose(bob, "lost")
        world.network.pds[0].fail_with = 503
        gap(world, 0)
        await world.until_status(lambda status: status["repos"]["states"].get("desynchronized", 0) == 2)
        await world.ingest._committer.flush()
        row = await world.control.repo(Did(bob.did))
        assert row is not None and row.sync_state == "desynchronized"
    world.network.pds[0].fail_with = None
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_what_fell_between_two_sources_is_made_good(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as world:
        first, second = world.network.pds
        async with world.running(source=(first.url,)):
            alice, space = world.authority()
            bob = await member(world, space)
            assert first.requests[LATEST] == 0  # what is new in a new folder needs no comparing
        lose(bob, "neither of them tells of it")
        async with world.running(source=(second.url,)):
            await world.until_mirrored(space, alice, bob)
            await world.until_status(lambda status: status["repos"]["synchronized"] == 2)
        asked = first.requests[LATEST]
        assert asked == 2
        world.network.account(pds=1)  # what it says of that is the first that the second one tells
        async with world.running(source=(second.url,)):
            await world.until_status(lambda status: sum(status["events"].values()) > 0)
        asked = first.requests[LATEST]
        async with world.running(source=(second.url,)):
            await world.until_status(lambda status: all(s["connected"] for s in status["sources"].values()))
            world.network.account(pds=1)
            await world.until_status(lambda status: sum(status["events"].values()) > 0)
            assert world.ingest.status()["repos"]["to compare"] == 0
        assert first.requests[LATEST] == asked


async def test_every_repo_is_compared_once_in_a_round(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "TICK", 0.01)
    monkeypatch.setattr(gaps, "ROUND", 0.2)
    async with world.running():
        alice, space = world.authority()
        bob, carol = await member(world, space), await member(world, space)
        lose(bob, "nobody tells of it")
        await world.until_mirrored(space, alice, bob, carol)
        before = world.network.pds[0].requests[LATEST]

        async def two_rounds() -> bool:
            return world.network.pds[0].requests[LATEST] >= before + 6

        await world.until(two_rounds)
        fetches = world.ingest.status()["repos"]["fetches"]
        assert fetches["unchanged"] >= 3


def test_a_round_takes_a_day_and_goes_round() -> None:
    repos = [Did(f"did:web:{number}.example.com") for number in range(7)]
    pipeline = SimpleNamespace(rows=dict.fromkeys(repos))
    rounds = gaps.Gaps(pipeline, None, Counter(), frozenset(), random=random.Random(1).random)  # type: ignore[arg-type]
    ticks = int(gaps.ROUND / gaps.TICK) * 3 + 1
    chosen = [did for _ in range(ticks) for did in rounds._next_of_round(rounds._due_turns())]
    assert [sorted(chosen[start : start + 7]) for start in (0, 7, 14)] == [sorted(repos)] * 3
    assert len(chosen) == 21


async def test_what_is_on_its_way_is_not_fetched(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        bob = await member(world, space)
        fetched = world.network.pds[0].requests["com.atproto.sync.getRepo"]
        world.network.pds[0].firehose.stall()
        world.remember(bob, "a little late")
        async with world.ingest._pipeline.lock:
            world.ingest._gaps.found("test", None, GAP)
        await world.until_status(lambda status: len(world.ingest._gaps._late) == 1)
        world.network.pds[0].firehose.stall(False)
        await world.until_mirrored(space, bob)
        await world.until_status(lambda status: status["repos"]["synchronized"] == 2)
        assert world.network.pds[0].requests["com.atproto.sync.getRepo"] == fetched
