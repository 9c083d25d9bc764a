"""Accounts that go and come again and again: the last word counts, and nobody else waits for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from appview.ingest.accounts import CHANGES, CHANGES_INTERVAL
from appview.ingest.commands import AccountStatus, Purge, Resync
from appview.ingest.refreshes import SECOND
from lexicons.ids import CONFIG
from tests.appview.ingest.test_engine import Desk, applied, only, reasons
from tests.appview.ingest.test_foreign_hosts import OWN, say_of, storm, two_hosts
from tests.appview.ingest.world import config

if TYPE_CHECKING:
    from pathlib import Path

    from appview.ingest.commands import Command
    from tests.appview.ingest.world import World


def say(desk: Desk, status: str | None) -> list[Command]:
    desk.account.active, desk.account.status = status is None, status
    return desk.receive(desk.account.account_frame(1), OWN)


def test_an_account_comes_back_so_often_in_a_minute_and_then_when_it_is_over() -> None:
    desk = Desk()
    for _ in range(CHANGES):
        assert not only(say(desk, "deactivated"), AccountStatus).active
        status, resync = say(desk, None)
        assert isinstance(status, AccountStatus) and status.active
        desk.resynced(resync)
    assert not only(say(desk, "deactivated"), AccountStatus).active  # is hidden at once all the same
    for _ in range(1_000):
        assert say(desk, None) == []
        assert say(desk, "takendown") == []
    assert say(desk, None) == []
    assert desk.engine.tick(desk.now + CHANGES_INTERVAL - 1) == []
    desk.now += CHANGES_INTERVAL
    status, resync = desk.engine.tick(desk.now)
    assert isinstance(status, AccountStatus) and status.active
    assert desk.resynced(resync) == []
    assert applied(desk.receive(desk.draft(), OWN)) == ["r4"]
    assert desk.engine.tick(desk.now + 2 * CHANGES_INTERVAL) == []


def test_one_that_is_said_to_be_as_it_is_does_not_come_back_later() -> None:
    desk = Desk()
    for _ in range(CHANGES):
        say(desk, "deactivated")
        desk.resynced(say(desk, None)[1])
    say(desk, "deactivated")
    assert say(desk, None) == []
    assert say(desk, "deactivated") == []
    assert desk.engine.tick(desk.now + 2 * CHANGES_INTERVAL) == []


def test_an_account_is_ended_once_however_often_that_is_said() -> None:
    desk = Desk()
    commands = []
    for number in range(200):
        commands += say(desk, ("deleted", "takendown")[number % 2])
    assert sum(isinstance(command, Purge) for command in commands) == 1
    assert len(commands) <= 2 + CHANGES


def test_a_hidden_account_ends_at_once_whatever_was_said_before() -> None:
    desk = Desk()
    for number in range(50):
        say(desk, ("takendown", "deactivated")[number % 2])
    assert reasons(say(desk, "deleted")) == [("AccountStatus", None), ("Purge", None)]


def test_turns_of_a_time_when_the_clock_was_ahead_do_not_count() -> None:
    desk = Desk()
    desk.now += 1_000 * CHANGES_INTERVAL
    for _ in range(CHANGES):
        say(desk, "deactivated")
        desk.resynced(say(desk, None)[1])
    say(desk, "deactivated")
    assert say(desk, None) == []
    desk.now -= 1_000 * CHANGES_INTERVAL
    status, resync = desk.engine.tick(desk.now + SECOND)
    assert isinstance(status, AccountStatus) and status.active
    assert isinstance(resync, Resync)


async def test_a_storm_of_deletions_and_returns_delays_nobody_else(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as world, world.running():
        bob, space = world.authority()
        evil = [world.network.account(pds=1) for _ in range(10)]
        for each in evil:
            world.network.create(each, str(CONFIG), "self", config())
        await world.until_status(lambda status: status["repos"]["synchronized"] == 11)
        count = 0

        def turn() -> None:
            nonlocal count
            count += 1
            gone = {"active": False, "status": "deleted"} if count // 10 % 2 else {"active": True}
            say_of(world, evil[count % 10], "#account", 1, **gone)

        async with storm(turn):
            await world.until_status(lambda status: status["events"].get("AccountEvent", 0) > 200)
            for number in range(10):
                started = time.monotonic()
                world.remember(bob, f"during {number}")
                await world.until_mirrored(space, bob)
                assert time.monotonic() - started < 1.5
        ended = world.ingest.status()["events"].get("account deleted", 0)
        assert 10 <= ended <= 10 * (CHANGES + 2)  # a first one may be made sure of


async def test_the_config_of_an_account_that_was_deleted_goes_and_comes_back_with_it(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        await world.until_declared(space)
        say_of(world, alice, "#account", 0, active=False, status="deleted")
        world.network.pds[0].accounts.pop(alice.did)

        async def gone() -> bool:
            row = await world.control.space(space)
            return row is not None and row.config is None

        await world.until(gone)
        world.network.pds[0].accounts[alice.did] = alice
        say_of(world, alice, "#account", 0, active=True)
        await world.until_declared(space)
