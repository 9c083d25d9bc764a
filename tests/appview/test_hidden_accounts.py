"""An account that is hidden is in no answer, by whatever method or page: all is as before it wrote."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from appview.clock import now
from appview.service import make_site
from appview.xrpc.context import Context
from appview.xrpc.handlers import FLEETING, HANDLERS
from appview.xrpc.server import listening
from lexicons import ids
from lexicons.catalog import garden
from lexicons.ids import MEMORY
from tests.appview.ingest.test_official import Official
from tests.appview.ingest.world import MODEL, World, memory, rkey
from tests.network.synthetic import Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import web

    from lexicons.spaces import SpaceUri
    from tests.network.devnet import Devnet

pytestmark = pytest.mark.timeout(120)
SECONDS = 10.0  # for what takes a tenth of one
# What is answered without a look at anybody's memories, and why.
TELLS_NOTHING = {
    ids.DESCRIBE_SERVICE: "the service alone",
    ids.LIST_MEMBERS: "whom rules name, to whoever governs the space",
    "/": "what the service is",
    "/browse/style.css": "a style",
    "/xrpc/_health": "a version",
    "/.well-known/did.json": "the service's keys",
    "/xrpc/{method}": "the methods: each is here by its own name",
}
_vector = memory()["embedding"]["vector"]
VECTOR = {
    "vector": urlsafe_b64encode(_vector).decode().rstrip("="),
    "model": MODEL["model"],
    "modelDigest": MODEL["modelDigest"],
}
QUESTIONS: list[dict[str, Any]] = [
    {"q": "compost"},
    VECTOR,
    {"q": "compost", **VECTOR, "explain": True},
    {"similarTo": "{hers}"},
    {"q": "compost", "author": "{author}"},
    {"q": "compost", "tags": ["kind=secret"]},
]
OF_ALL_SPACES = {ids.LIST_SPACES, "/browse"}
# What is asked. `{hers}` is a memory of the space's authority, `{his}` one of the account that is hidden.
QUERIES: dict[str, list[dict[str, Any]]] = {
    ids.GET_MEMORY: [{"uri": "{hers}"}, {"uri": "{his}"}],
    ids.GET_MEMORY_GRAPH: [{}, {"includeSuperseded": True}],
    ids.GET_MEMORY_LINKS: [{"uri": "{hers}"}, {"uri": "{his}"}],
    ids.GET_PATH: [{"path": "/"}, {"path": "/garden"}, {"path": "/garden/swordfish"}],
    ids.GET_SPACE_STATUS: [{}],
    ids.LIST_MEMORIES: [{}, {"author": "{author}"}, {"tags": ["kind=secret"]}, {"includeSuperseded": True}],
    ids.LIST_PATHS: [{}, {"path": "/garden"}],
    ids.LIST_SPACES: [{}],
    ids.SEARCH_MEMORIES: QUESTIONS,
    ids.RECALL_MEMORIES: [*QUESTIONS, {}],
}
PAGES: dict[str, list[dict[str, Any]]] = {
    "/browse": [{}],
    "/browse/space": [{}],
    "/browse/search": [{"q": "compost"}],
    "/browse/memory": [{"uri": "{hers}"}, {"uri": "{his}"}],
    "/browse/path": [{"path": "/garden"}, {"path": "/garden/swordfish"}],
}


def reading() -> set[str]:
    """Name every method that reads, by what the lexicons and the handlers say."""
    return {nsid for nsid in HANDLERS if garden().method(nsid).kind == "query" or nsid in FLEETING}


async def test_every_method_and_page_is_asked(tmp_path: Path) -> None:
    async with Network() as network:
        world = World(network, tmp_path)
        async with world.running():
            routes = {resource.canonical for resource in site(world).router.resources()}
    assert reading() == {*QUERIES, *(name for name in TELLS_NOTHING if name in HANDLERS)}
    assert routes == {*PAGES, *(name for name in TELLS_NOTHING if name not in HANDLERS)}


def site(world: World) -> web.Application:
    """Make what a running appview serves of a world, its clock apart: strength goes by it."""
    began = now()
    context = Context.of(world.settings, world.control, world.access, world.pool, clock=lambda: began)
    return make_site(context)


class Readers:
    """Whoever asks: for everything, in every way, each time with the same words."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, space: SpaceUri, hers: str, his: str
    ) -> None:
        self._session = session
        self._url = url
        self._space = space
        self._words = {"hers": hers, "his": his, "author": his.split("/")[2]}

    async def everything(self) -> dict[str, str]:
        """Ask for all there is; give each answer by its question."""
        answers = {}
        for name, requests in (QUERIES | PAGES).items():
            for number, given in enumerate(requests):
                answers[f"{name} {number}"] = await self.ask(name, given)
        return answers

    async def ask(self, name: str, given: dict[str, Any]) -> str:
        """Ask for one thing; give status and body."""
        filled = {
            key: value.format(**self._words) if isinstance(value, str) else value
            for key, value in given.items()
        }
        if name not in OF_ALL_SPACES:
            filled["space"] = self._space
        if name in FLEETING:
            request = self._session.post(f"{self._url}/xrpc/{name}", json=filled)
        else:
            path = name if name.startswith("/") else f"/xrpc/{name}"
            parameters = [
                (key, str(value).lower() if isinstance(value, bool) else value)
                for key, values in filled.items()
                for value in (values if isinstance(values, list) else [values])
            ]
            request = self._session.get(self._url + path, params=parameters)
        async with request as response:
            return f"{response.status} {await response.text()}"

    async def until(self, wanted: dict[str, str]) -> None:
        """Wait until one answer is as wanted; then all of them must be, at once."""
        name = f"{ids.LIST_MEMORIES} 0"
        async with asyncio.timeout(SECONDS):
            while await self.ask(ids.LIST_MEMORIES, {}) != wanted[name]:
                pass
        found = await self.everything()
        assert {name: found[name] for name in found if found[name] != wanted[name]} == {}


@asynccontextmanager
async def asking(world: World, space: SpaceUri, hers: str, his: str) -> AsyncIterator[Readers]:
    async with listening(site(world), "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        yield Readers(session, f"http://127.0.0.1:{port}", space, hers, his)


def differ(first: dict[str, str], second: dict[str, str]) -> set[str]:
    """Name methods and pages of which an answer differs."""
    return {name.split(" ")[0] for name in first if first[name] != second[name]}


def texts(hers: str, his: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a memory of each, that names the other."""
    return (
        memory(f"compost is warm, see {his}", "/garden", "kind=open"),
        memory(f"compost and swordfish, see {hers}", "/garden/swordfish", "kind=secret"),
    )


def uri(did: str, key: str) -> str:
    return f"at://{did}/{MEMORY}/{key}"


@pytest.mark.network
async def test_on_the_official_pds(devnet: Devnet, tmp_path: Path) -> None:
    official = Official(devnet, tmp_path)
    async with official.running():
        alice, space = await official.declare()
        bob = await devnet.acreate_account()
        await official.until_declared(space)
        await official.enroll(space, bob)
        keys = rkey(), rkey()
        hers, his = uri(alice.did, keys[0]), uri(bob.did, keys[1])
        made = texts(hers, his)
        await official.put(alice, str(MEMORY), keys[0], made[0])
        await official.until_texts(space, {made[0]["text"]})
        async with asking(official, space, hers, his) as readers:
            without = await readers.everything()
            await official.put(bob, str(MEMORY), keys[1], made[1])
            await official.until_texts(space, {each["text"] for each in made})
            shown = await readers.everything()
            assert differ(without, shown) == {*QUERIES, *PAGES}
            await official.call(bob, "com.atproto.server.deactivateAccount", {})
            await readers.until(without)
            await official.activate(bob)
            await readers.until(shown)
            await official.take_down(bob, True)
            await readers.until(without)
            await official.take_down(bob, False)
            await readers.until(shown)
            await asyncio.to_thread(
                devnet.call, "com.atproto.admin.deleteAccount", {"did": bob.did}, admin=True
            )
            await readers.until(without)


@pytest.mark.parametrize("status", ["deactivated", "takendown", "suspended", "of a kind to come"])
async def test_whatever_status_it_has(tmp_path: Path, status: str) -> None:
    async with Network() as network:
        world = World(network, tmp_path)
        async with world.running():
            alice, space = world.authority()
            bob = network.account()
            await world.until_declared(space)
            await world.join(space, bob)
            keys = rkey(), rkey()
            hers, his = uri(alice.did, keys[0]), uri(bob.did, keys[1])
            made = texts(hers, his)
            network.create(alice, str(MEMORY), keys[0], made[0])
            await world.until_mirrored(space, alice)
            async with asking(world, space, hers, his) as readers:
                without = await readers.everything()
                network.create(bob, str(MEMORY), keys[1], made[1])
                await world.until_mirrored(space, bob)
                shown = await readers.everything()
                assert differ(without, shown) == {*QUERIES, *PAGES}
                network.set_status(bob, status)
                await readers.until(without)
                network.set_status(bob, None)
                await readers.until(shown)
