"""Hundreds of hosts that do not answer, to which strangers point: members notice next to nothing.

Any document may name any address, so hosts that take a question and say nothing (or next to nothing, for
ever) cost an attacker nothing. They are asked for for the sake of accounts of which an event claims that they
declare a space.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from lexicons.ids import CONFIG
from tests.appview.ingest.world import World, config
from tests.network.synthetic import Account, Network
from tests.network.synthetic.serving import Serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from lexicons.spaces import SpaceUri

CROWD = 300
SOON = 10.0  # seconds
TRICKLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"


class Crowd:
    """Many hosts that keep whoever asks waiting: each a port, which on loopback is a site of its own."""

    def __init__(self, *, trickling: bool) -> None:
        self.urls: list[str] = []
        self.asked = 0
        self._trickling = trickling

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Crowd]:
        listening = [await asyncio.start_server(self._keep, "127.0.0.1", 0) for _ in range(CROWD)]
        self.urls = [f"http://127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in listening]
        try:
            yield self
        finally:
            for each in listening:
                each.close()

    async def _keep(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            if self._trickling:
                writer.write(TRICKLE)
                while not reader.at_eof():
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.wait([asyncio.create_task(reader.read(1))], timeout=0.5)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(20):
            while self.asked < count:  # noqa: ASYNC110 - sockets signal nothing
                await asyncio.sleep(0.01)


class Domain(Serving):
    """The domain of a did:web account."""

    account: Account

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/.well-known/did.json", self._document)]

    async def _document(self, _request: web.Request) -> web.Response:
        return web.json_response(self.account.document())


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with Network(pds=3) as network:
        yield World(network, tmp_path)


def claim(world: World, account: Account) -> None:
    """Say in an account's name that it declares a space, on a firehose that is not its own host's."""
    firehose = world.network.pds[1].firehose
    firehose.push(account.create(str(CONFIG), "self", config()).frame(firehose.next_seq()))


def at_host(world: World, url: str) -> Account:
    account = Account(pds=url)
    world.network.plc.accounts[account.did] = account
    return account


def at_domain(_world: World, url: str) -> Account:
    return Account(did=f"did:web:localhost%3A{url.rpartition(':')[2]}", pds=url)


@asynccontextmanager
async def crowded(
    world: World, make: Callable[[World, str], Account], *, trickling: bool
) -> AsyncIterator[SpaceUri]:
    """Run an ingest that has a space, and asks for the sake of a crowd of strangers."""
    pds = world.network.pds
    async with (
        Crowd(trickling=trickling).serving() as crowd,
        world.running(source=(pds[0].url, pds[1].url)),
    ):
        await world.until_connected()
        alice, space = world.authority()
        world.remember(alice, "alice's")
        await world.until_texts(space, {"alice's"})
        for url in crowd.urls:
            claim(world, make(world, url))
        await world.until_status(lambda status: status["repos"]["followed"] > CROWD)
        await crowd.until_asked(4)
        yield space


@pytest.mark.parametrize("trickling", [False, True])
async def test_a_newcomer_on_a_host_that_was_never_asked_is_found_soon(world: World, trickling: bool) -> None:
    async with crowded(world, at_host, trickling=trickling) as space:
        bob = world.network.account(pds=2)
        world.remember(bob, "bob's")
        start = time.perf_counter()
        await world.join(space, bob)
        await world.until_texts(space, {"alice's", "bob's"})
        assert time.perf_counter() - start < SOON


async def test_a_stranger_who_waits_and_becomes_a_member_waits_no_longer(world: World) -> None:
    async with crowded(world, at_host, trickling=False) as space:
        bob = world.network.account(pds=2)
        world.remember(bob, "bob's")
        claim(world, bob)
        lane = world.ingest._hosts._places["repo"].lane

        async def waits() -> bool:
            return any(ticket.host == bob.pds for queue in lane._queues.values() for ticket in queue)

        await world.until(waits)
        start = time.perf_counter()
        await world.join(space, bob)
        await world.until_texts(space, {"alice's", "bob's"})
        assert time.perf_counter() - start < SOON


@pytest.mark.parametrize("trickling", [False, True])
async def test_a_member_that_has_its_own_domain_is_looked_up_soon(world: World, trickling: bool) -> None:
    async with Domain() as domain, crowded(world, at_domain, trickling=trickling) as space:
        bob = domain.account = at_domain(world, domain.url)
        world.network.pds[0].host(bob)
        world.remember(bob, "before")
        start = time.perf_counter()
        await world.join(space, bob)
        await world.until_texts(space, {"alice's", "before"})
        assert time.perf_counter() - start < SOON, "for the first time"
        world.network.announce_identity(bob)
        start = time.perf_counter()
        world.remember(bob, "after")
        await world.until_texts(space, {"alice's", "before", "after"})
        assert time.perf_counter() - start < SOON, "after its document has changed"
