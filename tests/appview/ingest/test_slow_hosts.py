"""Hosts that do not answer, over real sockets in simulated time: whoever else is asked hardly notices."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from appview.http.client import HttpClient
from appview.http.errors import FetchError
from appview.http.places import MAX_LAG, MIN_RATE, HostSlow, Place
from appview.ingest.hosts import LONG, PATIENCE, PER_HOST, TOTAL, Hosts, LaneName
from tests.simulated_time import seconds_of, simulated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DOZEN = TOTAL["record"] // PER_HOST["record"]


class Server:
    """Answers every request, or none."""

    def __init__(self) -> None:
        self.url = ""
        self.silent = False
        self.asked = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.asked += 1
                if not self.silent:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(count: int, *, silent: bool = False) -> AsyncIterator[list[Server]]:
    made = [Server() for _ in range(count)]
    sockets = []
    for server in made:
        server.silent = silent
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        sockets.append(listening)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        for listening in sockets:
            listening.close()


class Asking:
    """A client with manners, and what it has asked that is not answered yet."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.hosts = Hosts(monotonic=asyncio.get_running_loop().time)
        self.open: list[asyncio.Task[None]] = []

    async def ask(self, server: Server, lane: LaneName = "record") -> None:
        async with self.hosts.place(server.url, lane):
            await self.client.get(server.url)

    def ask_in_vain(self, servers: list[Server], lane: LaneName = "record") -> None:
        self.open += [
            asyncio.create_task(self.ask(server, lane))
            for server in servers
            for _ in range(2 * PER_HOST[lane])
        ]

    async def delays(self, server: Server, count: int, lane: LaneName = "record") -> list[float]:
        """Ask for one thing after the other and tell how long each took."""
        delays = []
        for _ in range(count):
            delays.append(await seconds_of(self.ask(server, lane)))
        return delays


@asynccontextmanager
async def going_out() -> AsyncIterator[Asking]:
    async with HttpClient(allow_loopback=True) as client:
        made = Asking(client)
        try:
            yield made
        finally:
            for task in made.open:
                task.cancel()
            await asyncio.gather(*made.open, return_exceptions=True)


async def until_asked(servers: list[Server], count: int) -> None:
    async with asyncio.timeout(10):
        while sum(server.asked for server in servers) < count:  # noqa: ASYNC110 - sockets signal nothing
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("lane", ["record", "repo"])
@simulated
async def test_a_dozen_silent_hosts_delay_nobody(lane: LaneName) -> None:
    async with going_out() as asking, serving(DOZEN, silent=True) as silent, serving(1) as (good,):
        await asking.ask(good, lane)
        asking.ask_in_vain(silent, lane)
        await until_asked(silent, TOTAL[lane] * 3 // 4)
        delays = await asking.delays(good, 20, lane)
        assert max(delays) < PATIENCE[lane] / 10, "a quarter of the places is for those that answer"


@simulated
async def test_a_host_of_which_nothing_is_known_waits_for_silent_ones_no_longer_than_they_are_given() -> None:
    async with going_out() as asking, serving(2 * DOZEN, silent=True) as silent, serving(3) as new:
        asking.ask_in_vain(silent)
        await until_asked(silent, TOTAL["record"] * 3 // 4)
        delays = await asyncio.gather(*(asking.delays(server, 5) for server in new))
        assert max(each[0] for each in delays) <= PATIENCE["record"] + 0.1
        assert max(max(each[1:]) for each in delays) < PATIENCE["record"] / 10


@simulated
async def test_hosts_that_were_silent_are_given_up_only_where_others_wait() -> None:
    async with going_out() as asking, serving(DOZEN, silent=True) as silent:
        asking.ask_in_vain(silent)
        await until_asked(silent, TOTAL["record"])
        ended = [task for task in asking.open if task.done()]
        assert not ended, "first there is room for those that take long"
        async with serving(200) as new:
            async with asyncio.timeout(20):
                await asyncio.gather(*(asking.ask(server) for server in new))
        broken = [task.exception() for task in asking.open if task.done()]
        assert all(isinstance(error, HostSlow) and error.temporary for error in broken)
        assert sum(not task.done() for task in asking.open) >= LONG["record"]


@simulated
async def test_a_silent_host_is_asked_again_later_and_then_it_is_like_any_other() -> None:
    async with going_out() as asking, serving(DOZEN, silent=True) as silent:
        asking.ask_in_vain(silent)
        await until_asked(silent, TOTAL["record"])
        for task in asking.open:
            task.cancel()
        await asyncio.gather(*asking.open, return_exceptions=True)
        for server in silent:
            server.silent = False
        for server in silent:
            assert max(await asking.delays(server, 3)) < PATIENCE["record"] / 10


async def test_who_runs_many_hosts_has_half_of_the_places() -> None:
    hosts, inside, end = Hosts(), 0, asyncio.Event()

    async def ask(name: str) -> None:
        nonlocal inside
        async with hosts.place(name, "record"):
            inside += 1
            await end.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(ask(f"https://host{number}.one.example"))
        await asyncio.sleep(0.05)
        assert inside == TOTAL["record"] // 2
        group.create_task(ask("https://two.example"))
        await asyncio.sleep(0.05)
        assert inside == TOTAL["record"] // 2 + 1
        end.set()


async def test_an_end_of_time_of_the_callers_own_is_not_the_hosts() -> None:
    hosts = Hosts(patience={"repo": 0.01, "record": 0.01})
    with pytest.raises(TimeoutError):
        async with hosts.place("https://one.example", "record"):
            raise TimeoutError
    with pytest.raises(FetchError, match="my own"):
        async with hosts.place("https://one.example", "record"):
            raise FetchError("my own")


@pytest.mark.parametrize(
    ("share", "arrived", "slow"), [(0.99, False, True), (1.01, False, False), (0.0, True, False)]
)
def test_a_large_answer_is_slow_below_a_rate(share: float, arrived: bool, slow: bool) -> None:
    now = 100.0
    place = Place(now, lambda: now)
    now += 10
    place.bytes = int(share * MIN_RATE * 10)
    if arrived:
        place.arrived()
    assert place.is_slow() is slow


async def test_a_program_that_was_slow_itself_blames_no_host() -> None:
    hosts = Hosts(patience={"repo": 0.02, "record": 0.02})
    async with hosts.place("https://one.example", "record"):
        time.sleep(0.02 + 2 * MAX_LAG)  # noqa: ASYNC251 - nothing else can run meanwhile
        await asyncio.sleep(0)
        assert hosts._places["record"].lane.out == (1, 0)
        async with asyncio.timeout(5):
            while hosts._places["record"].lane.out != (0, 1):  # noqa: ASYNC110 - a timer signals nothing
                await asyncio.sleep(0.005)
        assert hosts._places["record"].lane.manner("https://one.example") == "slow", "once it had its time"
