"""Manners towards hosts: places, budgets, and who asked to be left alone."""

from __future__ import annotations

import asyncio

import pytest

from appview.http.errors import HttpStatusError
from appview.ingest.hosts import BURST, MAX_HOLD, PER_HOST, PER_SECOND, HostHeld, Hosts

HOST, OTHER = "https://pds.example", "https://other.example"


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        await asyncio.sleep(0)


def hosts(time: Time) -> Hosts:
    return Hosts(monotonic=time, sleep=time.sleep)


async def ask(polite: Hosts, host: str = HOST) -> None:
    async with polite.place(host, "record"):
        pass


async def busy(polite: Hosts, status: int, retry_after: str | None) -> None:
    with pytest.raises(HttpStatusError):
        async with polite.place(HOST, "record"):
            raise HttpStatusError(status, b"", retry_after, HOST)


async def test_a_host_gets_so_many_requests_at_once_and_then_so_many_a_second() -> None:
    time = Time()
    polite = hosts(time)
    for _ in range(int(BURST)):
        await ask(polite)
    assert time.slept == 0
    for _ in range(int(PER_SECOND) * 10):
        await ask(polite)
    slept = time.slept
    assert slept == pytest.approx(10.0, rel=0.02)
    await ask(polite, OTHER)
    assert time.slept == slept


async def test_who_is_in_no_hurry_leaves_a_part_of_the_budget() -> None:
    time = Time()
    polite = hosts(time)
    for _ in range(int(BURST) - 100):
        async with polite.place(HOST, "record", reserve=100.0):
            pass
    assert time.slept == 0
    async with polite.place(HOST, "record", reserve=100.0):
        assert time.slept > 0
    slept = time.slept
    for _ in range(100):
        await ask(polite)
    assert time.slept == slept


async def test_the_budget_comes_back_but_is_not_saved_up() -> None:
    time = Time()
    polite = hosts(time)
    time.now += 1_000_000
    for _ in range(int(BURST)):
        await ask(polite)
    assert time.slept == 0
    await ask(polite)
    assert time.slept > 0


@pytest.mark.parametrize("status", [429, 503])
async def test_a_host_that_asks_to_be_left_alone_is(status: int) -> None:
    time = Time()
    polite = hosts(time)
    await busy(polite, status, "30")
    time.now += 29.5
    with pytest.raises(HostHeld) as caught:
        await ask(polite)
    assert caught.value.retry_after_seconds == pytest.approx(0.5)
    await ask(polite, OTHER)
    time.now += 0.6
    await ask(polite)


@pytest.mark.parametrize(("status", "retry_after"), [(500, "30"), (404, "30"), (429, None), (429, "soon")])
async def test_other_answers_hold_nothing_up(status: int, retry_after: str | None) -> None:
    polite = hosts(Time())
    await busy(polite, status, retry_after)
    await ask(polite)


async def test_nobody_is_left_alone_for_ever() -> None:
    time = Time()
    polite = hosts(time)
    await busy(polite, 429, "9999999")
    time.now += MAX_HOLD + 1
    await ask(polite)


async def test_large_answers_do_not_keep_small_ones_waiting() -> None:
    polite = Hosts()
    end = asyncio.Event()

    async def large() -> None:
        async with polite.place(HOST, "repo"):
            await end.wait()

    tasks = [asyncio.create_task(large()) for _ in range(2 * PER_HOST["repo"])]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await ask(polite)
    end.set()
    await asyncio.gather(*tasks)


async def test_hosts_that_are_not_asked_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appview.ingest.hosts.MAX_HOSTS", 3)
    time = Time()
    polite = hosts(time)
    await busy(polite, 429, "30")
    for number in range(10):
        await ask(polite, f"https://host{number}.example")
    assert len(polite._hosts) <= 4
    with pytest.raises(HostHeld):  # but not what they asked for
        await ask(polite)
