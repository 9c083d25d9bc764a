"""Accounts are found through documents that anybody can publish, and believed no further than that."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from publisher.errors import BadSetting, NotFound, PublisherError, RefusedByPds, Temporary
from publisher.identity import Identity, Resolver
from publisher.retry import RetryPolicy
from publisher.spaces import read_space
from publisher.web import MAX_ANSWER_BYTES, Web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DID = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
PLC = "https://plc.example.com"
PDS = "https://pds.example.com"
CONFIG = {
    "model": "m",
    "modelDigest": "d",
    "dims": 4,
    "createdAt": "2026-11-30T09:15:00.000Z",
}


class Internet(httpx.AsyncBaseTransport):
    """Answers by URL, without its query; anything else is 404. An exception is raised."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = str(request.url.copy_with(query=None))
        self.asked.append(url)
        page = self.pages.get(url, (404, b"{}"))
        if isinstance(page, list):
            page = page.pop(0)
        if isinstance(page, Exception):
            raise page
        status, body = page if isinstance(page, tuple) else (200, page)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.Response(status, content=content, request=request)


@pytest.fixture
def internet() -> Internet:
    made = Internet()
    made.pages[f"{PLC}/{DID}"] = document()
    return made


@pytest.fixture
async def web(internet: Internet) -> AsyncIterator[Web]:
    async def no_sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    made = Web(policy=RetryPolicy(attempts=3), sleep=no_sleep, transport=internet)
    yield made
    await made.close()


@pytest.fixture
def resolver(web: Web) -> Resolver:
    return Resolver(web, plc_url=PLC, allow_loopback=False, trusted_pds="https://mine.example.com")


def document(**changes: Any) -> dict[str, Any]:
    service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": PDS}
    return {"id": DID, "alsoKnownAs": ["at://Alice.example.com"], "service": [service]} | changes


async def test_a_plc_account_is_found_and_remembered(resolver: Resolver, internet: Internet) -> None:
    assert await resolver.resolve(DID) == Identity(DID, "alice.example.com", PDS)  # type: ignore[arg-type]
    assert await resolver.resolve(DID) and internet.asked == [f"{PLC}/{DID}"]


async def test_a_web_account_is_found_at_its_host(resolver: Resolver, internet: Internet) -> None:
    did = "did:web:bob.example.com"
    service = {
        "id": f"{did}#atproto_pds",
        "type": "AtprotoPersonalDataServer",
        "serviceEndpoint": f"{PDS}/",
    }
    internet.pages["https://bob.example.com/.well-known/did.json"] = document(id=did, service=[service])
    assert (await resolver.resolve(did)).pds == PDS


async def test_a_handle_is_asked_of_the_accounts_own_pds_and_checked(
    resolver: Resolver, internet: Internet
) -> None:
    answers = internet.pages
    answers["https://mine.example.com/xrpc/com.atproto.identity.resolveHandle"] = {"did": DID}
    assert (await resolver.resolve("@Alice.Example.com")).did == DID
    with pytest.raises(NotFound, match="does not name it"):
        await resolver.resolve("mallory.example.com")


@pytest.mark.parametrize(
    "broken",
    [
        {"id": "did:plc:somebodyelse"},
        {"service": []},
        {"service": None},
        {"service": ["x"]},
        {"service": [{"id": "#atproto_pds", "type": "Other", "serviceEndpoint": PDS}]},
        {"service": [{"id": "#other", "type": "AtprotoPersonalDataServer", "serviceEndpoint": PDS}]},
        {"service": [{"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": 7}]},
    ],
)
async def test_a_document_without_a_pds_is_no_account(
    resolver: Resolver, internet: Internet, broken: dict[str, Any]
) -> None:
    internet.pages[f"{PLC}/{DID}"] = document(**broken)
    with pytest.raises(NotFound):
        await resolver.resolve(DID)


@pytest.mark.parametrize("names", [None, [], [7], ["https://x"], ["at://not a handle"]])
async def test_an_account_may_have_no_handle(resolver: Resolver, internet: Internet, names: Any) -> None:
    internet.pages[f"{PLC}/{DID}"] = document(alsoKnownAs=names)
    assert (await resolver.resolve(DID)).handle is None


@pytest.mark.parametrize("page", [(404, b"{}"), (410, b"{}"), b"not json", b"[]", b"[" * 100_000])
async def test_no_document_is_no_account(resolver: Resolver, internet: Internet, page: Any) -> None:
    internet.pages[f"{PLC}/{DID}"] = page
    with pytest.raises(NotFound):
        await resolver.resolve(DID)


@pytest.mark.parametrize(
    "did",
    ["did:web:localhost%3A1234", "did:web:127.0.0.1", "did:web:10.0.0.1", "did:web:host.example.com:path"],
)
async def test_a_did_cannot_send_us_to_this_machine(resolver: Resolver, internet: Internet, did: str) -> None:
    with pytest.raises(BadSetting):
        await resolver.resolve(did)
    assert internet.asked == []


async def test_other_kinds_of_did_are_not_supported(resolver: Resolver) -> None:
    with pytest.raises(NotFound, match="did:key"):
        await resolver.resolve("did:key:zQ3sh")


async def test_a_directory_that_fails_is_asked_again_and_then_given_up(
    resolver: Resolver, internet: Internet
) -> None:
    internet.pages[f"{PLC}/{DID}"] = [httpx.ConnectError("refused"), (503, b""), document()]
    assert (await resolver.resolve(DID)).pds == PDS
    internet.pages["https://bob.example.com/.well-known/did.json"] = (500, b"")
    with pytest.raises(Temporary, match="answers 500"):
        await resolver.resolve("did:web:bob.example.com")
    assert internet.asked.count("https://bob.example.com/.well-known/did.json") == 3


async def test_a_redirect_is_not_followed(resolver: Resolver, internet: Internet) -> None:
    internet.pages[f"{PLC}/{DID}"] = (302, b"")
    with pytest.raises(NotFound, match="302"):
        await resolver.resolve(DID)


async def test_an_answer_has_a_largest_size(web: Web, internet: Internet) -> None:
    internet.pages["https://a.example.com"] = b"1" + b" " * (MAX_ANSWER_BYTES - 1)
    assert (await web.get("https://a.example.com")).body == 1
    internet.pages["https://a.example.com"] = b" " * (MAX_ANSWER_BYTES + 1)
    with pytest.raises(RefusedByPds, match=f"more than {MAX_ANSWER_BYTES} bytes"):
        await web.get("https://a.example.com")


# --- the space of an account

RECORD = f"{PDS}/xrpc/com.atproto.repo.getRecord"


async def test_a_space_is_its_authoritys_config(resolver: Resolver, web: Web, internet: Internet) -> None:
    uri = f"at://{DID}/garden.engram.config/self"
    internet.pages[RECORD] = {"uri": uri, "cid": "bafyreia", "value": CONFIG}
    space = await read_space(DID, resolver, web)
    assert (space.uri, space.config_cid, space.declared().model.model) == (uri, "bafyreia", "m")


@pytest.mark.parametrize("page", [(400, {"error": "RecordNotFound", "message": "m"}), (404, b"")])
async def test_a_space_may_have_no_config_yet(
    resolver: Resolver, web: Web, internet: Internet, page: Any
) -> None:
    internet.pages[RECORD] = page
    space = await read_space(DID, resolver, web)
    assert (space.config, space.config_cid) == (None, None)
    with pytest.raises(NotFound, match="declares no model"):
        space.declared()


@pytest.mark.parametrize(
    "page",
    [
        (400, {"error": "RepoDeactivated", "message": "m"}),
        {},
        {"uri": "u", "cid": "c", "value": 7},
        {"uri": "u", "cid": "c", "value": {**CONFIG, "dims": 0}},
        {"uri": "u", "cid": "c", "value": {**CONFIG, "dims": 1.5}},
        {"uri": "u", "cid": "c", "value": {**CONFIG, "x": {"$bytes": "!!!!"}}},
    ],
)
async def test_a_config_that_is_none_is_refused(
    resolver: Resolver, web: Web, internet: Internet, page: Any
) -> None:
    internet.pages[RECORD] = page
    with pytest.raises(PublisherError):
        await read_space(DID, resolver, web)
