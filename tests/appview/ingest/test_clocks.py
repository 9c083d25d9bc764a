"""Time: clocks that jump, a host away for an hour, a source that goes backwards, revs far ahead."""

from __future__ import annotations

import asyncio
import copy
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from yarl import URL

from appview.clock import now
from appview.ingest import backfill
from appview.ingest.commands import Drop, Resync
from appview.ingest.commits import MAX_FUTURE
from appview.ingest.engine import EARLY_INTERVAL
from appview.ingest.refreshes import SECOND
from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.test_engine import Desk, only
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.world import World, memory, rkey
from tests.network.synthetic import CORRUPTIONS, K256, Network, Write, tid
from tests.simulated_time import seconds_of, simulated, simulated_clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from appview.ingest.commands import Command
    from lexicons.spaces import SpaceUri
    from tests.network.synthetic import Account

HOUR = 3_600_000_000  # microseconds


class Shifted:
    """The system's clock, put forward or back."""

    def __init__(self) -> None:
        self.shift = 0

    def __call__(self) -> int:
        return now() + self.shift


@pytest.fixture
def clock(world: World, monkeypatch: pytest.MonkeyPatch) -> Shifted:
    monkeypatch.setattr("appview.ingest.backfill.MAX_SLEEP", 0.05)
    world.clock = Shifted()
    return world.clock


@pytest.mark.parametrize("shift", [HOUR, -HOUR, 24 * 365 * HOUR, -24 * 365 * HOUR])
async def test_a_clock_that_jumps_and_jumps_back_loses_nothing(
    world: World, clock: Shifted, shift: int
) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        clock.shift = shift
        world.remember(bob, "meanwhile")
        await world.until_caught_up()
        clock.shift = 0
        await world.until_mirrored(space, bob)
        world.remember(bob, "after")
        await world.until_mirrored(space, bob)


async def test_a_rev_far_ahead_freezes_nothing_and_shows_nothing(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        fork = fork_of(bob)
        ahead = fork.draft(_write("from tomorrow"), rev=tid(now() + 24 * HOUR))
        firehose = world.network.pds[0].firehose
        firehose.push(ahead.frame(firehose.next_seq()))
        world.remember(bob, "today")
        await world.until_mirrored(space, bob)
        assert await world.texts(space) == {"before", "today"}
        assert world.ingest.status()["rejects"]["future-rev"] == 1


async def test_what_came_while_the_clock_was_behind_is_not_lost_by_a_restart(
    world: World, clock: Shifted
) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        clock.shift = -5 * HOUR
        world.remember(bob, "refused as of tomorrow")
        await world.until_caught_up()
        assert not await world.mirrors(space, bob)
    clock.shift = 0
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_a_rev_that_its_host_knows_nothing_of_is_forgotten_with_the_next_fetch(
    world: World, clock: Shifted
) -> None:
    async with world.running():
        _, (bob,) = await several(world, 1)
        firehose = world.network.pds[0].firehose
        lie = fork_of(bob).draft(_write("from tomorrow"), rev=tid(now() + 24 * HOUR))
        firehose.push(lie.frame(firehose.next_seq()))
        await world.until_status(lambda status: status["rejects"].get("future-rev", 0) == 1)
        engine = world.ingest._pipeline.engine
        state = engine.state(Did(bob.did))
        assert state is not None and state.undecided
        async with world.ingest._pipeline.lock:
            await world.ingest._reconciler._compare(Did(bob.did))
        await world.until_status(lambda status: status["repos"]["synchronized"] == 2)
        state = engine.state(Did(bob.did))
        assert state is not None and not state.undecided


def test_revs_ahead_of_the_time_have_a_repo_looked_at_once_in_a_while() -> None:
    desk = Desk()
    rev, data = desk.account.rev, desk.account.data
    assert rev is not None and data is not None

    def soon() -> list[Command]:
        """Receive a commit whose rev is right in a second, and let that go by."""
        ahead = fork_of(desk.account).draft(_write("ahead"), rev=tid(desk.now + MAX_FUTURE + SECOND))
        assert only(desk.receive(ahead), Drop).reason == "future-rev"
        assert desk.engine.tick(desk.now) == []
        desk.now += SECOND
        return desk.engine.tick(desk.now)

    (look,) = soon()
    if isinstance(look, Resync):
        desk.engine.resynced(desk.did, rev, data, desk.now, look.attempt)
    looked_at = desk.now
    assert soon() == []
    desk.now = looked_at + EARLY_INTERVAL - 1
    assert desk.engine.tick(desk.now) == []
    desk.now += 1
    assert len(desk.engine.tick(desk.now)) == 1


@simulated
async def test_a_host_that_is_away_for_an_hour_is_asked_as_often_as_is_right_and_taken_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "appview.ingest.reconcile.POLL_SECONDS", 10.0
    )  # or nearly all of this is looks at rules
    async with Network(pds=2) as network:
        world = World(network, tmp_path)
        world.clock, world.sleep, world.retry = simulated_clock(), asyncio.sleep, backfill.RETRY
        loop = asyncio.get_running_loop()
        async with world.running():
            space, (bob,) = await several(world, 1)
            carol = network.account(pds=1)
            network.create(carol, str(MEMORY), rkey(), memory("hers"))
            await network.pds[1].stop()
            tried: dict[float, None] = {}  # a connection that is closed at once is made twice
            async with turning_away(network.pds[1].url, lambda: tried.setdefault(loop.time())):
                await world.join(space, carol)
                start = loop.time()
                await asyncio.sleep(1800)
                world.remember(bob, "meanwhile")
                assert await seconds_of(world.until_mirrored(space, bob)) < 1
                await asyncio.sleep(1800)
                row = world.ingest._pipeline.rows[Did(carol.did)]
                assert row.error is not None and row.attempts == len(tried)
            await network.pds[1].start()
            # 2 s, twice as long each time, up to an hour; in the middle of its spread: 1.5 s, 3 s, 6 s, ...
            waits = [0.75 * min(2**attempt, 3600) for attempt in range(1, 13)]
            due = [*accumulate(waits, initial=start)]
            assert list(tried) == pytest.approx(due[:12], abs=1)
            assert due[11] < start + 3600 < due[12]
            await asyncio.sleep(due[12] - 1 - loop.time())
            assert network.pds[1].requests["com.atproto.sync.getRepo"] == 0
            assert await seconds_of(world.until_mirrored(space, carol)) < 2
            assert network.pds[1].requests["com.atproto.sync.getRepo"] == 1


@asynccontextmanager
async def turning_away(url: str, tell: Callable[[], None]) -> AsyncIterator[None]:
    """Be in the place of a server: close each connection as it comes, and tell of it."""

    def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tell()
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", URL(url).port, reuse_address=True)
    async with server:
        yield


async def failed_while_ahead(world: World, clock: Shifted) -> tuple[SpaceUri, Account]:
    """Have the fetch of a repo fail, by a host that is down, while the clock is a month ahead."""
    space, (bob,) = await several(world, 1)
    clock.shift = 30 * 24 * HOUR
    world.network.pds[0].fail_with = 500
    bob.draft(_write("lost"))
    world.remember(bob, "shows it")
    await world.until_status(lambda s: s["repos"]["fetches"].get("failed: HttpStatusError", 0) >= 1)
    return space, bob


async def test_a_fetch_that_failed_while_the_clock_was_ahead_is_tried_again_when_its_wait_is_over(
    world: World, clock: Shifted
) -> None:
    async with world.running():
        space, bob = await failed_while_ahead(world, clock)
        clock.shift = 0
        world.network.pds[0].fail_with = None
        await world.until_mirrored(space, bob)


async def test_a_wait_that_was_noted_while_the_clock_was_ahead_is_a_day_at_most(
    world: World, clock: Shifted
) -> None:
    async with world.running():
        space, bob = await failed_while_ahead(world, clock)
        await world.until_caught_up()
    clock.shift = 0
    world.network.pds[0].fail_with = None
    async with world.running():
        await world.until_status(lambda s: s["repos"]["to fetch"] == 1)
        assert not await world.mirrors(space, bob)  # what a host asked for is honoured
        clock.shift = 24 * HOUR
        await world.until_mirrored(space, bob)


async def test_a_key_that_was_rotated_unannounced_is_found_after_the_clock_was_ahead(
    world: World, clock: Shifted
) -> None:
    async with world.running():
        await world.until_connected()
        space, (bob,) = await several(world, 1)
        clock.shift = 24 * HOUR
        forged = fork_of(bob).draft(_write("forged"))
        CORRUPTIONS["wrong-key"](forged)
        world.network.publish(forged)
        await world.until_status(lambda s: s["rejects"].get("bad-signature", 0) == 1)
        clock.shift = 0
        world.network.rotate_key(bob, K256(), announce=False)
        world.remember(bob, "under a new key")
        await world.until_mirrored(space, bob)


async def test_a_source_that_goes_backwards_is_followed(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
        firehose = world.network.pds[0].firehose
        firehose.push(bob.draft(_write("seq 1")).frame(1), 1)
        await world.until_mirrored(space, bob)

        async def followed() -> bool:
            return [at for at, _ in (await world.control.cursors()).values()] == [1]

        await world.until(followed)
    async with world.running():
        world.remember(bob, "and on")
        await world.until_mirrored(space, bob)


async def test_one_commit_that_creates_and_deletes_the_same_record(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        key = rkey()
        delete = Write("delete", str(MEMORY), key)
        world.network.commit(bob, Write("create", str(MEMORY), key, memory("hardly there")), delete)
        other = rkey()
        world.network.commit(
            bob,
            _write("stays"),
            Write("create", str(MEMORY), other, memory("x")),
            Write("delete", str(MEMORY), other),
        )
        await world.until_mirrored(space, bob)
        assert await world.texts(space) == {"before", "stays"}


async def test_an_account_that_moved_is_not_followed_at_its_old_host(tmp_path: Path) -> None:
    async with Network(pds=2) as network:
        world = World(network, tmp_path)
        async with world.running(source=tuple(pds.url for pds in network.pds)):
            await world.until_connected()
            space, (bob,) = await several(world, 1)
            old = fork_of(bob)
            network.move(bob, 1)
            network.rotate_key(bob, K256())
            network.create(bob, str(MEMORY), rkey(), memory("at the new host"))
            await world.until_mirrored(space, bob)
            firehose = network.pds[0].firehose
            for text in ("late", "later"):
                firehose.push(old.draft(_write(text)).frame(firehose.next_seq()))
            network.create(bob, str(MEMORY), rkey(), memory("and on"))
            await world.until_mirrored(space, bob)
            assert await world.texts(space) == {"before", "at the new host", "and on"}


def fork_of(account: Account) -> Account:
    """Make a second history of an account, from here on."""
    fork = copy.copy(account)
    fork.tree = copy.deepcopy(account.tree)
    fork.records, fork.record_blocks = dict(account.records), dict(account.record_blocks)
    return fork


def _write(text: str) -> Write:
    return Write("create", str(MEMORY), rkey(), memory(text))
