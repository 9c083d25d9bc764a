"""Callers through the official PDS: its proxy, and the tokens that it gives out."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession

from appview.access.callers import Callers
from appview.access.rules import Permission
from appview.access.subjects import EVERYONE, Account
from appview.clock import now
from appview.http.client import HttpClient
from appview.identity.resolver import Resolver
from appview.memory.scope import Subtree
from appview.settings import Settings
from appview.xrpc.app import make_app
from appview.xrpc.context import Context
from appview.xrpc.server import listening
from lexicons import ids
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.xrpc.garden import SPACE, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lexicons.syntax import Nsid
    from tests.appview.xrpc.garden import Answer, Garden
    from tests.network.devnet import Account as PdsAccount
    from tests.network.devnet import Devnet

pytestmark = pytest.mark.network

LISTING = ids.LIST_MEMORIES
TEXT = "the key is under the pot"


@pytest.fixture
def settings(tmp_path: Path, devnet: Devnet) -> Settings:
    """An appview whose DID leads to a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return Settings(
        data=tmp_path,
        port=port,
        public_url=f"http://localhost:{port}",
        plc_url=devnet.plc_url,
        allow_loopback=True,
    )


@pytest.fixture
async def client(settings: Settings, garden: Garden) -> AsyncIterator[Client]:
    async with HttpClient(allow_loopback=True) as http:
        resolver = Resolver(http, settings.plc_url, now)
        async with Callers.opened(settings.service_did, resolver, garden.control, now) as callers:
            context = Context.of(
                settings, garden.control, garden.access, garden.pool, clock=now, callers=callers
            )
            async with listening(make_app(context), "127.0.0.1", settings.port), ClientSession() as session:
                yield Client(session, f"http://127.0.0.1:{settings.port}")


@pytest.fixture
async def alice(devnet: Devnet, garden: Garden) -> PdsAccount:
    """The only account that may read in the space."""
    account = await devnet.acreate_account()
    await garden.declare()
    await garden.remember(TEXT)
    only = Permission(Account(Did(account.did)), SPACE, Subtree("/"), "read", allow=True)
    everyone = Permission(EVERYONE, SPACE, Subtree("/"), "read", allow=True)
    await garden.access.change([only], [everyone], actor="operator", action="test")
    return account


async def proxied(client: Client, settings: Settings, account: PdsAccount) -> tuple[int, Any]:
    """Ask the account's own PDS to ask the appview."""
    async with client.session.get(
        f"{account.pds}/xrpc/{LISTING}",
        params={"space": SPACE},
        headers={
            "Authorization": f"Bearer {account.access_jwt}",
            "atproto-proxy": f"{settings.service_did}#engram_appview",
        },
    ) as response:
        return response.status, await response.json()


async def service_token(
    devnet: Devnet, account: PdsAccount, aud: str, lxm: Nsid, exp: int | None = None
) -> str:
    """Ask the account's PDS for a token."""
    query = f"aud={aud.replace('%', '%25').replace('#', '%23')}&lxm={lxm}" + (f"&exp={exp}" if exp else "")
    method = f"com.atproto.server.getServiceAuth?{query}"
    answer = await asyncio.to_thread(devnet.call, method, pds=account.pds, token=account.access_jwt)
    token: str = answer["token"]
    return token


async def ask(client: Client, token: str, method: Nsid = LISTING) -> Answer:
    headers = {"Authorization": f"Bearer {token}"}
    return await client.send("GET", f"/xrpc/{method}", params={"space": SPACE}, headers=headers)


async def test_a_pds_asks_for_its_account(
    client: Client, settings: Settings, devnet: Devnet, alice: PdsAccount
) -> None:
    for _ in range(3):  # each time with a token of its own
        status, body = await proxied(client, settings, alice)
        assert (status, [memory["text"] for memory in body["memories"]]) == (200, [TEXT])
    bob = await devnet.acreate_account()
    status, body = await proxied(client, settings, bob)
    assert (status, body["error"]) == (400, "UnknownSpace")  # the PDS passes errors on
    anonymous = await client.ask(LISTING, space=SPACE)
    assert (anonymous.error, anonymous.body["message"]) == ("UnknownSpace", body["message"])


async def test_an_authority_governs_its_space_through_its_own_pds(
    client: Client, settings: Settings, devnet: Devnet, garden: Garden
) -> None:
    authority, stranger = await devnet.acreate_account(), await devnet.acreate_account()
    space = SpaceUri.public(Did(authority.did))
    await garden.declare(space)

    async def call(account: PdsAccount, method: Nsid, **given: Any) -> tuple[int, Any]:
        headers = {
            "Authorization": f"Bearer {account.access_jwt}",
            "atproto-proxy": f"{settings.service_did}#engram_appview",
        }
        url, body = f"{account.pds}/xrpc/{method}", {"space": space, **given}
        sent = (
            client.session.get(url, params=body, headers=headers)
            if method == ids.LIST_MEMBERS
            else client.session.post(url, json=body, headers=headers)
        )
        async with sent as response:
            return response.status, await response.json()

    member = stranger.did
    assert await call(authority, ids.PUT_MEMBER, did=member) == (200, {"changed": True})
    assert await call(authority, ids.LIST_MEMBERS) == (200, {"members": [{"did": member}]})
    tag = {"path": "/a", "key": "level", "value": "top", "protected": True}
    assert await call(authority, ids.PUT_PATH_TAG, **tag) == (200, {"changed": True})
    status, body = await call(stranger, ids.REMOVE_MEMBER, did=member)
    assert (status, body["error"]) == (403, "Forbidden")
    assert await call(authority, ids.REMOVE_MEMBER, did=member) == (200, {"changed": True})
    newest, *_ = await garden.control.audit(1)
    assert (newest.actor, newest.action) == (authority.did, "member remove")


async def test_a_token_from_the_pds_is_good_once_for_one_method_here(
    client: Client, settings: Settings, devnet: Devnet, alice: PdsAccount
) -> None:
    token = await service_token(devnet, alice, settings.service_did, LISTING)
    assert (await ask(client, token, ids.GET_SPACE_STATUS)).error == "BadJwtLexiconMethod"
    assert (await ask(client, token)).texts == [TEXT]
    assert (await ask(client, token)).error == "BadJwt"
    elsewhere = await service_token(devnet, alice, "did:web:elsewhere.example", LISTING)
    assert (await ask(client, elsewhere)).error == "BadJwtAudience"


async def test_a_token_may_live_nearly_an_hour(
    client: Client, settings: Settings, devnet: Devnet, alice: PdsAccount
) -> None:
    token = await service_token(devnet, alice, settings.service_did, LISTING, int(time.time()) + 3_590)
    assert (await ask(client, token)).texts == [TEXT]


async def test_the_access_token_of_a_pds_is_none_here(client: Client, alice: PdsAccount) -> None:
    assert (await ask(client, alice.access_jwt)).error == "BadJwtType"
