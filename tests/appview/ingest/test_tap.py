"""What is acknowledged to a Tap, and on which connection."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from appview.http.client import HttpClient
from appview.ingest.tap import Tap
from appview.source_lines import parse_source
from tests.appview.ingest.test_source import Collector, no_sleep
from tests.network.synthetic import Tap as Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from lexicons.syntax import Did


def nobody() -> Collection[Did]:
    return ()


def say(server: Server, did: str) -> None:
    """Let a server say something of an account."""
    server.say({"type": "identity", "identity": {"did": did, "handle": "", "is_active": True}}, did)


@asynccontextmanager
async def following(server: Server) -> AsyncIterator[tuple[Tap, Collector]]:
    collector = Collector()
    async with HttpClient(allow_loopback=True) as client:
        line = parse_source(f"tap+{server.url}")
        tap = Tap(line, client, collector.emit, nobody, random=lambda: 0.5, sleep=no_sleep)
        task = asyncio.create_task(tap.run())
        try:
            yield tap, collector
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_acknowledged_of_a_connection_that_has_ended() -> None:
    bob, carol = (f"did:plc:{letter * 24}" for letter in "bc")
    async with Server() as server:
        say(server, bob)
        async with following(server) as (tap, collector):
            await collector.until(lambda: len(collector.items) == 1)
            server.forget()  # it has lost its disk, and numbers what it has to say anew
            await server.close_connections()
            say(server, carol)
            await collector.until(lambda: len(collector.items) == 2)
            await tap.acknowledge(1)
            say(server, bob)
            await collector.until(lambda: len(collector.items) == 3)
            assert server.acknowledged == []
            await tap.acknowledge(1)
            async with asyncio.timeout(10):
                while server.acknowledged != [1]:  # noqa: ASYNC110 - the server signals nothing
                    await asyncio.sleep(0.005)
