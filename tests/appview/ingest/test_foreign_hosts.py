"""Hosts that speak of accounts which are not theirs, or not known to be: they move, delay and cost nothing.

The engine alone first, its shell played by hand; then hosts that storm, over real sockets.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from appview.http.errors import FetchError
from appview.ingest.commands import AccountStatus, ConfirmStatus, Drop, FetchIdentity, Purge, Resync
from appview.ingest.engine import Engine
from appview.ingest.pace import SECOND
from appview.ingest.refreshes import MAX_IDENTITY_RETRY, REFRESH_INTERVAL
from appview.ingest.waiting import MAX_ASIDE_BYTES, MAX_ASIDE_EVENTS
from lexicons.syntax import Did
from tests.appview.ingest.test_engine import Desk, applied, only, reasons
from tests.appview.ingest.world import World
from tests.network.synthetic import CORRUPTIONS, K256, Network, frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.network.synthetic import Account

OWN, OTHER = "https://pds.example.com", "https://other.example.com"
AWAY = FetchError("the directory is away")
DAY = 24 * 3600 * SECOND


def restarted(desk: Desk) -> None:
    """Start anew from what was noted: the host is known, the key is not."""
    state = desk.engine.state(desk.did)
    desk.engine = Engine()
    desk.engine.track(desk.did, state)


def looks(desk: Desk, seconds: int, send: Callable[[], bytes], host: str | None) -> int:
    """Send something ten times a second, with an honest commit each second; count the looks."""
    count = 0
    for second in range(seconds):
        for _ in range(10):
            commands = [*desk.receive(send(), host), *desk.engine.tick(desk.now)]
            count += sum(isinstance(command, FetchIdentity) for command in commands)
            desk.now += SECOND // 10
        honest = [each for each in desk.receive(desk.draft(), OWN) if not isinstance(each, FetchIdentity)]
        assert applied(honest), f"after {second} s, with a look that is not answered"
        desk.resolve()
    return count


def test_what_waited_while_its_account_moved_is_not_applied_for_its_former_host() -> None:
    desk = Desk()
    desk.receive(desk.account.identity_frame(1), OWN)
    assert desk.receive(desk.draft(), OWN) == []
    desk.account.pds = OTHER
    commands = desk.resolve()
    assert ("Drop", "wrong-host") in reasons(commands)
    assert "Apply" not in [name for name, _ in reasons(commands)]


def test_a_storm_of_identities_from_another_host_delays_nothing() -> None:
    desk = Desk()
    assert looks(desk, 150, lambda: desk.account.identity_frame(1), OTHER) == 3


def test_a_host_that_is_known_from_the_repo_that_it_gave_needs_no_document() -> None:
    desk = Desk()
    desk.engine.untrack(desk.did)
    resync = only(desk.engine.track(desk.did), Resync)
    rev, data = desk.account.rev, desk.account.data
    assert rev is not None
    assert data is not None
    assert desk.engine.resynced(desk.did, rev, data, desk.now, resync.attempt, OWN) == []
    assert only(desk.receive(desk.account.identity_frame(1), OTHER), FetchIdentity).force
    desk.resolve()
    desk.receive(desk.account.identity_frame(1), OTHER)
    assert applied(desk.receive(desk.draft(), OWN)) == ["r4"]
    state = desk.engine.state(desk.did)
    assert state is not None and not state.undecided


def test_a_storm_of_account_events_from_another_host_delays_nothing() -> None:
    desk = Desk()
    assert looks(desk, 150, lambda: desk.account.account_frame(1), OTHER) == 3


def test_a_storm_of_commits_from_another_host_delays_nothing() -> None:
    desk = Desk()
    late = desk.account.draft().frame(1)
    desk.resynced(desk.engine.desynchronize(desk.did)[0])

    def forged() -> bytes:
        draft = desk.account.draft()
        CORRUPTIONS["wrong-key"](draft)
        desk.resynced(desk.engine.desynchronize(desk.did)[0])
        return draft.frame(1)

    assert only(desk.receive(late, OWN), Drop).reason == "old-rev"
    assert looks(desk, 150, forged, OTHER) <= 3


def test_a_forged_commit_does_not_hold_up_true_ones_while_the_directory_is_away() -> None:
    desk = Desk()
    fork = desk.account.draft()
    CORRUPTIONS["wrong-key"](fork)
    desk.resynced(desk.engine.desynchronize(desk.did)[0])
    forged = desk.account.draft()
    CORRUPTIONS["wrong-key"](forged)
    assert isinstance(only(desk.receive(forged), FetchIdentity), FetchIdentity)
    desk.resynced(desk.engine.desynchronize(desk.did)[0])
    assert desk.engine.identity_resolved(desk.did, AWAY, desk.now) == []
    assert applied(desk.receive(desk.draft())) == ["r4"]
    assert only(desk.resolve(), Drop).reason == "bad-signature"


def test_unreadable_messages_of_another_host_have_nothing_fetched() -> None:
    desk = Desk()
    drop, look = desk.engine.malformed(desk.did, "?", desk.now, OTHER)
    assert isinstance(drop, Drop) and drop.reason == "wrong-host"
    assert isinstance(look, FetchIdentity)
    assert reasons(desk.engine.malformed(desk.did, "?", desk.now, OTHER)) == [("Drop", "wrong-host")]
    assert desk.resolve() == []
    assert desk.sync == "synchronized"
    assert reasons(desk.engine.malformed(desk.did, "?", desk.now, OWN))[1] == ("Resync", "malformed-frame")


def test_what_another_host_sends_while_a_repo_is_fetched_takes_no_room_from_its_own() -> None:
    desk = Desk()
    resync = desk.engine.desynchronize(desk.did)[0]
    first = desk.account.draft().frame(1)
    for _ in range(5_000):
        desk.receive(first, OTHER)
    assert desk.engine.waiting == (0, 0)
    repo = desk.engine._repos[desk.did]
    assert len(repo.aside) == MAX_ASIDE_EVENTS
    assert repo.aside_bytes <= MAX_ASIDE_BYTES
    assert desk.resynced(resync) == []
    assert set(reasons(desk.resolve())) == {("Drop", "wrong-host")}
    assert repo.aside_bytes == 0


def test_what_a_new_host_sends_before_that_is_known_is_made_good() -> None:
    desk = Desk()
    desk.receive(desk.account.identity_frame(1), OTHER)
    desk.resolve()
    desk.account.pds = OTHER
    assert only(desk.receive(desk.draft(), OTHER), Drop).reason == "wrong-host"  # looked at within the minute
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided
    desk.now += REFRESH_INTERVAL
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    resync = only(desk.resolve(), Resync)
    assert resync.reason == "moved"
    assert desk.resynced(resync) == []
    assert applied(desk.receive(desk.draft(), OTHER)) == ["r5"]
    state = desk.engine.state(desk.did)
    assert state is not None and not state.undecided


def test_commits_under_a_new_key_are_applied_in_order_once_it_is_known() -> None:
    desk = Desk()
    desk.account.key = K256()
    assert only(desk.receive(desk.draft()), FetchIdentity).force
    assert desk.receive(desk.draft()) == []
    assert desk.receive(desk.draft()) == []
    assert applied(desk.resolve()) == ["r4", "r5", "r6"]


def test_the_host_of_before_a_restart_hides_at_once_while_the_directory_is_away() -> None:
    desk = Desk()
    restarted(desk)
    desk.account.active, desk.account.status = False, "deactivated"
    status, fetch = desk.receive(desk.account.account_frame(1), OWN)
    assert isinstance(status, AccountStatus) and not status.active
    assert isinstance(fetch, FetchIdentity)
    assert desk.engine.identity_resolved(desk.did, AWAY, desk.now) == []
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided and not state.active
    assert desk.resolve() == []
    state = desk.engine.state(desk.did)
    assert state is not None and not state.undecided and not state.active


def test_the_host_of_before_a_restart_ends_nothing_before_it_is_known_to_be_the_accounts() -> None:
    desk = Desk()
    restarted(desk)
    desk.account.active, desk.account.status = False, "deleted"
    commands = desk.receive(desk.account.account_frame(1), OWN)
    assert not any(isinstance(command, Purge) for command in commands)
    assert any(isinstance(command, Purge) for command in desk.resolve())


def test_a_host_that_hid_an_account_which_had_moved_away_has_its_new_host_asked() -> None:
    desk = Desk()
    restarted(desk)
    desk.account.active, desk.account.status = False, "deactivated"
    desk.receive(desk.account.account_frame(1), OWN)
    desk.account.pds = OTHER
    assert ConfirmStatus(desk.did) in desk.resolve()


@pytest.mark.parametrize("host", [OWN, OTHER])
def test_a_word_of_a_host_that_cannot_be_judged_yet_is_kept(host: str) -> None:
    desk = Desk()
    desk.engine.untrack(desk.did)
    desk.engine.track(desk.did)  # nothing is known of its host
    desk.account.active, desk.account.status, desk.account.pds = False, "takendown", host
    assert not only(desk.receive(desk.account.account_frame(1), host), FetchIdentity).force
    desk.receive(Desk().account.account_frame(1), OWN)
    for _ in range(5):
        assert desk.engine.identity_resolved(desk.did, AWAY, desk.now) == []
        desk.now += MAX_IDENTITY_RETRY
        assert only(desk.engine.tick(desk.now), FetchIdentity).force
    assert only(desk.resolve(), AccountStatus).status == "takendown"


def test_the_last_word_of_each_host_counts_until_it_is_known_whose_it_is() -> None:
    desk = Desk()
    desk.engine.untrack(desk.did)
    desk.engine.track(desk.did)
    desk.account.active, desk.account.status = False, "takendown"
    desk.receive(desk.account.account_frame(1), OWN)
    desk.account.active, desk.account.status = True, None
    desk.receive(desk.account.account_frame(2), OTHER)
    assert reasons(desk.resolve()) == [("AccountStatus", None), ("Drop", "wrong-host")]


@pytest.mark.parametrize("ahead", [DAY, 400 * DAY])
def test_a_look_while_the_clock_was_ahead_holds_up_no_later_one(ahead: int) -> None:
    desk = Desk()
    desk.now += ahead
    forged = desk.account.draft()
    CORRUPTIONS["wrong-key"](forged)
    desk.receive(forged)  # looked at
    desk.resolve()
    desk.receive(desk.account.identity_frame(1))  # and another look is owed
    desk.now -= ahead
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    desk.resolve()
    desk.resynced(desk.engine.desynchronize(desk.did)[0])
    desk.account.key = K256()
    desk.now += REFRESH_INTERVAL
    assert only(desk.receive(desk.draft()), FetchIdentity).force
    assert applied(desk.resolve()) == ["r4"]


# Over sockets


@asynccontextmanager
async def two_hosts(folder: Path) -> AsyncIterator[World]:
    async with Network(pds=2) as network:
        world = World(network, folder)
        world.settings = world.settings.__class__(
            **{name: getattr(world.settings, name) for name in world.settings.__dataclass_fields__}
            | {"source": tuple(f"pds+{pds.url}" for pds in network.pds)}
        )
        yield world


@asynccontextmanager
async def storm(send: Callable[[], object]) -> AsyncIterator[None]:
    """Send something again and again, a thousand times a second, meanwhile."""
    stop = asyncio.Event()

    async def blow() -> None:
        while not stop.is_set():
            for _ in range(5):
                send()
            await asyncio.sleep(0.005)

    task = asyncio.create_task(blow())
    try:
        yield
    finally:
        stop.set()
        await task


def say_of(world: World, account: Account, kind: str, pds: int, **more: object) -> None:
    """Have a host say something of any account."""
    firehose = world.network.pds[pds].firehose
    seq = firehose.next_seq()
    body = {"seq": seq, "did": account.did, "time": "2026-11-30T09:15:00.000Z", **more}
    firehose.push(frame(kind, body))


@pytest.mark.parametrize("kind", ["#identity", "#account"])
async def test_a_storm_about_an_account_of_another_host_freezes_nothing(tmp_path: Path, kind: str) -> None:
    async with two_hosts(tmp_path) as world, world.running():
        bob, space = world.authority()
        world.remember(bob, "before")
        await world.until_mirrored(space, bob)
        asked = world.network.plc.requests[bob.did]
        world.network.plc.delay = 0.2
        more = {"active": True} if kind == "#account" else {"handle": "x.test"}
        async with storm(lambda: say_of(world, bob, kind, 1, **more)):
            await world.until_status(
                lambda status: (
                    status["events"].get("IdentityEvent", 0) > 50
                    or status["events"].get("AccountEvent", 0) > 50
                )
            )
            for number in range(5):
                started = time.monotonic()
                world.remember(bob, f"during {number}")
                await world.until_mirrored(space, bob)
                assert time.monotonic() - started < 2
        assert world.network.plc.requests[bob.did] - asked <= 1


async def test_a_deactivation_while_the_directory_is_away_is_heard(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as world:
        async with world.running():
            bob, space = world.authority()
            world.remember(bob, "before")
            await world.until_mirrored(space, bob)
            await world.until_caught_up()
        world.network.plc.fail_with = 503
        async with world.running():
            world.network.set_status(bob, "deactivated")
            await world.until_shown(space, set())
            await world.until_status(lambda status: status["repos"]["accounts"] == {"deactivated": 1})
            row = world.ingest._pipeline.rows[Did(bob.did)]
            assert row.sync_state != "synchronized"  # a crash does not forget that it was not judged
            world.network.plc.fail_with = None
            await world.until_caught_up()
        async with world.running():
            assert await world.shown(space) == set()
            world.network.set_status(bob, None)
            await world.until_shown(space, {"before"})
