"""Following a firehose over a real socket, whatever happens to it."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from appview.errors import ConfigurationError
from appview.http.client import HttpClient
from appview.http.errors import FORBIDDEN_SECONDS
from appview.ingest.frames import frame_seq
from appview.ingest.source import Firehose
from appview.ingest.stream import Gap
from appview.source_lines import parse_source
from tests.network.synthetic import Account, Network, frame
from tests.simulated_time import seconds_of, simulated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from appview.ingest.stream import Item


class Collector:
    """What a firehose handed on."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.offered = 0  # with those that wait for `open`
        self.open = asyncio.Event()
        self.open.set()
        self._news = asyncio.Event()

    async def emit(self, item: Item) -> None:
        self.offered += 1
        self._news.set()
        await self.open.wait()
        self.items.append(item)
        self._news.set()

    @property
    def seqs(self) -> list[int | None]:
        return [frame_seq(item) for item in self.items if isinstance(item, bytes)]

    @property
    def gaps(self) -> list[str]:
        return [item.reason for item in self.items if isinstance(item, Gap)]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._news.clear()
                await self._news.wait()


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def following(
    network: Network, position: int | None = None, **options: Any
) -> AsyncIterator[tuple[Firehose, Collector]]:
    collector = Collector()
    async with HttpClient(allow_loopback=True) as client:
        firehose = Firehose(
            network.pds[0].url,
            client,
            collector.emit,
            position,
            random=lambda: 0.5,
            **{"sleep": no_sleep} | options,
        )
        task = asyncio.create_task(firehose.run())
        try:
            yield firehose, collector
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    async with Network() as network:
        yield network


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("wss://relay.example", "wss://relay.example/xrpc/com.atproto.sync.subscribeRepos"),
        ("https://pds.example/", "wss://pds.example/xrpc/com.atproto.sync.subscribeRepos"),
        ("http://127.0.0.1:2583", "ws://127.0.0.1:2583/xrpc/com.atproto.sync.subscribeRepos"),
        (
            "ws://localhost:1/xrpc/com.atproto.sync.subscribeRepos?cursor=5",
            "ws://localhost:1/xrpc/com.atproto.sync.subscribeRepos",
        ),
    ],
)
def test_a_source_is_a_base_url_or_the_whole_url(source: str, expected: str) -> None:
    assert parse_source(source).url == expected


@pytest.mark.parametrize("source", ["relay.example", "ftp://relay.example", "", "wss://"])
def test_anything_else_is_no_source(source: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_source(source)


async def test_without_a_cursor_everything_kept_is_asked_for(network: Network) -> None:
    network.account()
    async with following(network) as (firehose, collector):
        await collector.until(lambda: len(collector.items) == 2)
        network.account()
        await collector.until(lambda: len(collector.items) == 4)
        assert firehose.position == 4
    assert network.pds[0].firehose.connections == [0]
    assert collector.seqs == [1, 2, 3, 4]


async def test_a_stored_cursor_is_gone_on_from(network: Network) -> None:
    network.account()
    async with following(network, position=1) as (_, collector):
        await collector.until(lambda: len(collector.items) == 1)
    assert network.pds[0].firehose.connections == [1]
    assert collector.seqs == [2]


async def test_a_closed_connection_is_made_again_where_it_ended(network: Network) -> None:
    network.pds[0].firehose.send_rate_limit = 3
    for _ in range(5):
        network.account()
    async with following(network) as (firehose, collector):
        await collector.until(lambda: len(collector.items) == 10)
        assert firehose.reconnects >= 3
    assert collector.seqs == list(range(1, 11))
    assert network.pds[0].firehose.connections[:4] == [0, 3, 6, 9]


async def test_a_refused_connection_is_tried_again(network: Network) -> None:
    network.pds[0].firehose.refusing = True
    async with following(network) as (firehose, collector):
        async with asyncio.timeout(10):
            while firehose.reconnects < 3:  # noqa: ASYNC110 - the condition is not ours to signal
                await asyncio.sleep(0.005)
        network.pds[0].firehose.refusing = False
        network.account()
        await collector.until(lambda: len(collector.items) == 2)


async def test_a_server_that_is_away_is_tried_again(network: Network) -> None:
    async with following(network) as (_, collector):
        network.account()
        await collector.until(lambda: len(collector.items) == 2)
        await network.pds[0].stop()
        await network.pds[0].start()
        network.account()
        await collector.until(lambda: len(collector.items) == 4)
    assert collector.seqs == [1, 2, 3, 4]


@simulated
async def test_silence_with_pongs_is_no_reason_to_leave() -> None:
    async with Network() as network, following(network) as (firehose, collector):
        await network.pds[0].firehose.until_subscribers(1)
        await asyncio.sleep(3600)
        network.account()
        await collector.until(lambda: len(collector.items) == 2)
        assert firehose.reconnects == 0


@simulated
async def test_a_busy_receiver_is_no_silence() -> None:
    async with Network() as network, following(network) as (firehose, collector):
        collector.open.clear()
        network.account()
        await asyncio.sleep(3600)
        collector.open.set()
        await collector.until(lambda: len(collector.items) == 2)
        assert firehose.reconnects == 0


@simulated
async def test_a_source_that_is_away_for_an_hour_is_tried_at_least_every_minute() -> None:
    async with Network() as network, following(network, sleep=asyncio.sleep) as (firehose, collector):
        network.account()
        await collector.until(lambda: len(collector.items) == 2)
        await network.pds[0].stop()
        await asyncio.sleep(3600)
        waits = accumulate(0.75 * min(0.5 * 2**attempt, 60) for attempt in range(1000))
        assert firehose.reconnects == sum(after < 3600 for after in waits)
        await network.pds[0].start()
        network.account()
        assert await seconds_of(collector.until(lambda: len(collector.items) == 4)) < 60
    assert collector.seqs == [1, 2, 3, 4]


async def test_a_slow_receiver_slows_reading(network: Network) -> None:
    async with following(network) as (_, collector):
        await network.pds[0].firehose.until_subscribers(1)
        collector.open.clear()
        for _ in range(20):
            network.account()
        await asyncio.sleep(0.05)
        assert collector.items == []
        collector.open.set()
        await collector.until(lambda: len(collector.items) == 40)
    assert collector.seqs == list(range(1, 41))


async def test_what_the_receiver_has_not_taken_yet_is_not_passed_by(network: Network) -> None:
    network.account()
    async with following(network) as (firehose, collector):
        await collector.until(lambda: len(collector.items) == 2)
        collector.open.clear()
        network.account()
        await collector.until(lambda: collector.offered == 3)
        assert firehose.position == 2
        collector.open.set()
        await collector.until(lambda: len(collector.items) == 4)
        assert firehose.position == 4


async def test_a_future_cursor_starts_over_and_says_so(network: Network) -> None:
    network.account()
    async with following(network, position=1000) as (firehose, collector):
        await collector.until(lambda: len(collector.items) == 3)
        assert firehose.position == 2
    assert network.pds[0].firehose.connections == [1000, 0]
    assert (collector.gaps, collector.seqs) == (["future-cursor"], [1, 2])


async def test_a_relay_that_began_anew_and_does_not_say_so_has_a_gap(network: Network) -> None:
    network.account()
    firehose = network.pds[0].firehose
    firehose.seq = 2_000  # it takes any cursor, and sends what it has
    frames, firehose.frames = firehose.frames, []
    async with following(network, position=1_000) as (source, collector):
        await firehose.until_subscribers(1)
        for seq, each in frames:
            firehose.frames.append((3_000 + seq, each))
        firehose._wake()
        await collector.until(lambda: len(collector.items) == 3)
        assert (collector.gaps, collector.seqs) == (["future-cursor"], [1, 2])
        assert source.position == 2


async def test_a_seq_far_ahead_is_no_cursor_for_ever(network: Network) -> None:
    network.account()
    firehose = network.pds[0].firehose
    async with following(network) as (source, collector):
        await collector.until(lambda: len(collector.items) == 2)
        firehose.frames.append((3, frame("#identity", {"seq": 2**62, "did": "did:plc:x", "time": ""})))
        firehose._wake()
        await collector.until(lambda: len(collector.items) == 3)
        assert source.position == 2**62
        firehose.seq = 3
        await firehose.close_connections()
        network.account()
        await collector.until(lambda: collector.seqs[-1] == 5)
    assert firehose.connections == [0, 2**62, 0]
    assert collector.gaps == ["future-cursor"]


async def test_an_outdated_cursor_goes_on_and_says_so(network: Network) -> None:
    for _ in range(3):
        network.account()
    network.pds[0].firehose.forget_below(5)
    async with following(network, position=1) as (_, collector):
        await collector.until(lambda: len(collector.items) == 3)
    assert (collector.gaps, collector.seqs) == (["outdated-cursor"], [5, 6])


async def test_consumer_too_slow_reconnects_at_the_same_place(network: Network) -> None:
    network.account()
    async with following(network) as (_, collector):
        await collector.until(lambda: len(collector.items) == 2)
        await network.pds[0].firehose.fail_connections("ConsumerTooSlow")
        network.account()
        await collector.until(lambda: len(collector.items) == 4)
    assert (collector.gaps, collector.seqs) == ([], [1, 2, 3, 4])


async def test_malformed_frames_are_handed_on_and_stop_nothing(network: Network) -> None:
    firehose = network.pds[0].firehose
    async with following(network) as (_, collector):
        network.account()
        firehose.push(b"\xff\x00garbage", firehose.next_seq())
        firehose.push(b"", firehose.next_seq())
        network.account()
        await collector.until(lambda: len(collector.items) == 6)
    assert collector.seqs == [1, 2, None, None, 5, 6]


async def test_a_message_below_the_cap_is_handed_on(network: Network) -> None:
    firehose = network.pds[0].firehose
    async with following(network, max_message_bytes=100_000) as (_, collector):
        firehose.push(b"\x00" * 99_999, firehose.next_seq())
        network.account()
        await collector.until(lambda: len(collector.items) == 3)
    assert collector.gaps == []


@pytest.mark.parametrize("hole", [0, 1, 5])
async def test_a_message_above_the_cap_is_jumped_over(network: Network, hole: int) -> None:
    firehose = network.pds[0].firehose
    network.account()
    firehose.skip(hole)
    firehose.push(b"\x00" * 100_001, firehose.next_seq())
    firehose.skip(10)
    async with following(network, max_message_bytes=100_000) as (_, collector):
        network.account()
        await collector.until(lambda: len(collector.seqs) == 4)
    assert collector.seqs == [1, 2, 14 + hole, 15 + hole]
    assert set(collector.gaps) == {"oversized-frame"}
    assert len(firehose.connections) <= 5


async def test_a_newest_message_above_the_cap_does_not_stop_what_comes_after(network: Network) -> None:
    firehose = network.pds[0].firehose
    network.account()
    firehose.skip(4)
    firehose.push(b"\x00" * 100_001, firehose.next_seq())
    async with following(network, max_message_bytes=100_000) as (follower, collector):
        await collector.until(lambda: None in firehose.connections and follower.connected)
        await firehose.until_subscribers(1)
        network.account()
        await collector.until(lambda: len(collector.seqs) == 4)
    assert collector.seqs == [1, 2, 8, 9]
    assert collector.gaps[-1] == "oversized-frame"


async def test_a_connection_that_answers_no_ping_is_left_for_a_new_one() -> None:
    connections = 0

    async def subscribe(request: web.Request) -> web.StreamResponse:
        nonlocal connections
        connections += 1
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        if connections == 2:
            await socket.send_bytes(Account().identity_frame(7))
        async for _ in socket:
            pass  # a ping, and no answer to it
        return socket

    app = web.Application()
    app.router.add_get("/xrpc/com.atproto.sync.subscribeRepos", subscribe)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector = Collector()
    try:
        async with HttpClient(allow_loopback=True) as client:
            firehose = Firehose(
                f"http://127.0.0.1:{runner.addresses[0][1]}",
                client,
                collector.emit,
                None,
                random=lambda: 0.5,
                sleep=no_sleep,
                idle_seconds=0.05,
                pong_seconds=0.05,
            )
            task = asyncio.create_task(firehose.run())
            await collector.until(lambda: collector.seqs == [7])
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    finally:
        await runner.cleanup()
    assert connections >= 2


async def test_a_forbidden_source_is_an_error_and_left_alone_for_long() -> None:
    waits: list[float] = []
    twice = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            twice.set()
            await asyncio.Event().wait()

    collector = Collector()
    async with HttpClient() as client:
        firehose = Firehose(
            "ws://relay.example", client, collector.emit, None, random=lambda: 0.5, sleep=sleep
        )
        with capture_logs() as lines:
            task = asyncio.create_task(firehose.run())
            async with asyncio.timeout(10):
                await twice.wait()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    assert waits == [FORBIDDEN_SECONDS, FORBIDDEN_SECONDS]
    assert {(line["event"], line["log_level"]) for line in lines} == {("source forbidden", "error")}
    assert "only wss is allowed" in lines[0]["reason"]
