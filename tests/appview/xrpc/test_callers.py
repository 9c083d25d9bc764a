"""Who asks, over a socket: what the caller's credential opens, and what no trick with headers does."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from appview.access.callers import Callers, NoAccounts
from appview.access.errors import FAULTS
from appview.access.rules import Permission
from appview.access.subjects import EVERYONE, Account, Token
from appview.access.tokens import make_token
from appview.http.errors import FetchError
from appview.identity.documents import Identity
from appview.identity.errors import IdentityError
from appview.identity.keys import PublicKey
from appview.memory.scope import Subtree
from appview.xrpc.callers import REFUSALS
from appview.xrpc.context import Context
from appview.xrpc.handlers import HANDLERS, OPEN
from lexicons import ids
from lexicons.catalog import garden as lexicons
from tests.appview.access.minting import mint
from tests.appview.xrpc.conftest import clock
from tests.appview.xrpc.garden import ALICE, BOB, PROCEDURES, SPACE, Client
from tests.network.synthetic import K256

if TYPE_CHECKING:
    from appview.settings import Settings
    from lexicons.syntax import Did, Nsid
    from tests.appview.xrpc.garden import Answer, Garden

KEYS = {ALICE: K256(), BOB: K256()}


class Directory(NoAccounts):
    """Knows two accounts."""

    away = False

    async def resolve(self, did: Did, **_: object) -> Identity:
        if self.away:
            raise FetchError("the directory is away")
        if did not in KEYS:
            raise IdentityError(f"{did} is not registered")
        return Identity(did, None, None, PublicKey.from_multikey(KEYS[did].multibase))


@pytest.fixture
def context(garden: Garden, settings: Settings) -> Context:
    callers = Callers(settings.service_did, Directory(), garden.control, clock)
    return Context.of(settings, garden.control, garden.access, garden.pool, clock=clock, callers=callers)


@pytest.fixture
async def secret(garden: Garden) -> str:
    """A space in which Alice alone may read."""
    await garden.declare()
    uri = await garden.remember("the key is under the pot")
    await garden.hide(Permission(Account(ALICE), SPACE, Subtree("/"), "read", allow=True))
    everyone = Permission(EVERYONE, SPACE, Subtree("/"), "read", allow=True)
    await garden.access.change(remove=[everyone], actor="operator", action="test")
    return uri


def token(settings: Settings, did: Did, method: Nsid, **options: Any) -> str:
    now = clock() // 1_000_000
    claims = {"aud": settings.service_did, "lxm": method, **options.pop("claims", {})}
    return mint(KEYS[did], issuer=did, now=now, claims=claims, **options)


async def send(client: Client, method: Nsid, headers: Any = None, **parameters: str) -> Answer:
    if method in PROCEDURES:
        return await client.send("POST", f"/xrpc/{method}", json=parameters, headers=headers)
    return await client.send("GET", f"/xrpc/{method}", params=parameters, headers=headers)


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


async def test_an_account_sees_what_it_may(client: Client, settings: Settings, secret: str) -> None:
    listing = ids.LIST_MEMORIES
    assert (await send(client, listing, space=SPACE)).error == "UnknownSpace"
    hers = await send(client, listing, bearer(token(settings, ALICE, listing)), space=SPACE)
    assert hers.texts == ["the key is under the pot"]
    his = await send(client, listing, bearer(token(settings, BOB, listing)), space=SPACE)
    assert his.error == "UnknownSpace"


async def test_a_holder_of_a_token_sees_what_it_may(
    client: Client, context: Context, garden: Garden, secret: str
) -> None:
    text, row = make_token(Token("bot"), clock(), None, secrets.token_bytes)
    await context.control.tokens.add(row, actor="operator")
    assert (await send(client, ids.LIST_MEMORIES, bearer(text), space=SPACE)).error == "UnknownSpace"
    await garden.hide(Permission(Token("bot"), SPACE, Subtree("/"), "read", allow=True))
    assert len((await send(client, ids.LIST_MEMORIES, bearer(text), space=SPACE)).texts) == 1
    await context.control.tokens.revoke("bot", actor="operator", now=clock())
    revoked = await send(client, ids.LIST_MEMORIES, bearer(text), space=SPACE)
    assert (revoked.status, revoked.error) == (401, "AuthenticationRequired")


@pytest.mark.parametrize("method", [method for method in HANDLERS if method not in OPEN])
async def test_every_method_looks_at_the_credential(
    client: Client, settings: Settings, secret: str, method: Nsid
) -> None:
    """With a credential that does not hold no method answers; with one that does, each gets past it."""
    verb = "POST" if lexicons().method(method).kind == "procedure" else "GET"
    given = {"json" if verb == "POST" else "params": {"space": SPACE, "uri": secret}}
    address = f"/xrpc/{method}"
    wrong = bearer(token(settings, ALICE, ids.DESCRIBE_SERVICE))
    answer = await client.send(verb, address, headers=wrong, **given)
    assert (answer.status, answer.error) == (401, "BadJwtLexiconMethod")
    assert answer.headers["www-authenticate"] == "Bearer"
    answer = await client.send(verb, address, headers=bearer(token(settings, ALICE, method)), **given)
    assert answer.status in (200, 400, 403)
    assert answer.error in (None, "InvalidRequest", "Forbidden")


async def test_a_replay_is_refused_for_other_parameters_too(
    client: Client, settings: Settings, secret: str
) -> None:
    headers = bearer(token(settings, ALICE, ids.LIST_MEMORIES))
    assert (await send(client, ids.LIST_MEMORIES, headers, space=SPACE)).status == 200
    for parameters in ({"space": SPACE}, {"space": SPACE, "limit": "1"}):
        replayed = await send(client, ids.LIST_MEMORIES, headers, **parameters)
        assert (replayed.status, replayed.error) == (401, "BadJwt")


async def test_a_cursor_of_another_subject_is_refused(
    client: Client, settings: Settings, garden: Garden, secret: str
) -> None:
    await garden.remember("another")
    await garden.hide(Permission(Account(BOB), SPACE, Subtree("/"), "read", allow=True))
    method = ids.LIST_MEMORIES
    hers = await send(client, method, bearer(token(settings, ALICE, method)), space=SPACE, limit="1")
    cursor = hers.body["cursor"]
    his = await send(
        client, method, bearer(token(settings, BOB, method)), space=SPACE, limit="1", cursor=cursor
    )
    assert (his.status, his.error) == (400, "InvalidRequest")
    again = await send(
        client, method, bearer(token(settings, ALICE, method)), space=SPACE, limit="1", cursor=cursor
    )
    assert again.status == 200


async def test_two_headers_are_refused_in_either_order(
    client: Client, settings: Settings, secret: str
) -> None:
    method = ids.LIST_MEMORIES
    for others in (["Bearer x.y.z"], ["Basic YTpi"], [""], [f"Bearer {token(settings, BOB, method)}"]):
        for first in (True, False):
            values = [f"Bearer {token(settings, ALICE, method)}"]
            values = values + others if first else others + values
            answer = await send(client, method, [("Authorization", value) for value in values], space=SPACE)
            assert (answer.status, answer.error) == (401, "BadJwt")


async def raw(client: Client, *lines: bytes) -> tuple[int, Any]:
    """Send header lines as they are, which no client library would."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(client.base.rpartition(":")[2]))
    path = f"/xrpc/{ids.LIST_MEMORIES}?space={SPACE}"
    head = [f"GET {path} HTTP/1.1".encode(), b"Host: x", b"Connection: close", *lines, b"", b""]
    writer.write(b"\r\n".join(head))
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1]), json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


async def test_header_tricks_do_not_make_a_caller_anonymous_or_somebody(
    client: Client, settings: Settings, garden: Garden
) -> None:
    await garden.declare()
    jwt = token(settings, ALICE, ids.LIST_MEMORIES, claims={"jti": "x" * 64}).encode()
    tricks: list[list[bytes]] = [
        [b"Authorization:"],
        [b"Authorization: "],
        [b"Authorization: Bearer"],
        [b"Authorization: Bearer\t" + jwt],
        [b"Authorization: Bearer  " + jwt],
        [b"Authorization: Bearer " + jwt + b", Bearer " + jwt],
        [b"Authorization: Bearer " + jwt, b"authorization: Bearer " + jwt],
        [b"AUTHORIZATION: " + jwt],
        [b"Authorization: Bearer\xc2\xa0" + jwt],
        [b"Authorization: Bearer " + jwt + b"\xff"],
        [b"Authorization: Bearer " + jwt + b"\x0b"],
        [b"Authorization : Bearer " + jwt],
        [b" Authorization: Bearer " + jwt],
        [b"X: y", b" Authorization: Bearer " + jwt],
        [b"Authorization: Bearer", b" " + jwt],
        [b"Authorization: Bearer " + jwt + b"\x00"],
        [b"Authorization: Bearer " + jwt + b"\rX: y"],
        [b"Authorization\x00: Bearer " + jwt],
    ]
    for lines in tricks:
        async with asyncio.timeout(5):
            status, error = await raw(client, *lines)
        assert status in (400, 401), lines
        assert error in ("InvalidRequest", "AuthMissing", "BadJwt"), lines


async def test_an_oversized_header_is_refused(client: Client, garden: Garden) -> None:
    await garden.declare()
    assert await raw(client, b"Authorization: Bearer " + b"a" * 8_193) == (401, "BadJwt")
    assert await raw(client, b"Authorization: Bearer " + b"a" * 17_000) == (413, "PayloadTooLarge")


@pytest.mark.parametrize(
    "headers",
    [
        {"Proxy-Authorization": "Bearer {}"},
        {"X-Authorization": "Bearer {}"},
        {"Cookie": "authorization=Bearer {}; token={}"},
        {"X-Forwarded-User": ALICE},
        {"X-Remote-User": ALICE},
        {"atproto-proxy": f"{ALICE}#engram_appview"},
        {"atproto-accept-labelers": ALICE},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_nothing_but_the_authorization_header_names_a_caller(
    client: Client, settings: Settings, secret: str, headers: dict[str, str]
) -> None:
    jwt = token(settings, ALICE, ids.LIST_MEMORIES)
    given = {name: value.replace("{}", jwt) for name, value in headers.items()}
    assert (await send(client, ids.LIST_MEMORIES, given, space=SPACE)).error == "UnknownSpace"
    for name in ("access_token", "token", "auth", "subject", "did"):
        answer = await send(client, ids.LIST_MEMORIES, space=SPACE, **{name: jwt})
        assert answer.error == "UnknownSpace"


async def test_a_key_that_cannot_be_asked_for_now_is_worth_another_try(
    client: Client, settings: Settings, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Directory, "away", True)
    jwt = token(settings, ALICE, ids.LIST_MEMORIES)
    answer = await send(client, ids.LIST_MEMORIES, bearer(jwt), space=SPACE)
    assert (answer.status, answer.error) == (503, "NotEnoughResources")
    monkeypatch.setattr(Directory, "away", False)
    assert (await send(client, ids.LIST_MEMORIES, bearer(jwt), space=SPACE)).status == 200


def test_every_fault_has_its_error() -> None:
    assert {fault: error.name for fault, error in REFUSALS.items()} == {fault: fault for fault in FAULTS}
    assert {error.status for error in REFUSALS.values()} == {401}
