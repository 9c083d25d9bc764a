"""The application around the methods: addresses, verbs, credentials, browsers, faults, load."""

from __future__ import annotations

import asyncio
import json
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from aiohttp import ClientSession

from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.memory.scope import Subtree
from appview.search import derived
from appview.search.derived import ViewCache
from appview.xrpc import handlers
from appview.xrpc.admission import Admission
from appview.xrpc.app import make_app
from appview.xrpc.bodies import MAX_BODY_BYTES
from appview.xrpc.server import listening
from lexicons.catalog import garden as lexicons
from lexicons.ids import (
    DESCRIBE_SERVICE,
    GET_SPACE_STATUS,
    LIST_MEMBERS,
    LIST_MEMORIES,
    LIST_SPACES,
    RECALL_MEMORIES,
    SEARCH_MEMORIES,
)
from tests.appview.xrpc.garden import ALICE, PROCEDURES, SPACE, Client, query_vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.xrpc.context import Context
    from tests.appview.xrpc.garden import Garden

METHODS = sorted(method.nsid for method in lexicons().methods())
QUERIES = [name for name in METHODS if lexicons().method(name).kind == "query"]
READING = sorted({RECALL_MEMORIES, *QUERIES} - {DESCRIBE_SERVICE, LIST_SPACES, LIST_MEMBERS})


def verb_of(method: str) -> str:
    return "GET" if method in QUERIES else "POST"


def test_every_method_of_the_lexicons_has_a_handler_and_no_handler_is_without_one() -> None:
    assert sorted(handlers.HANDLERS) == METHODS


async def test_health_gives_the_version(client: Client) -> None:
    answer = await client.send("GET", "/xrpc/_health")
    assert answer.status == 200
    assert list(answer.body) == ["version"]


async def test_the_did_document_names_the_service_and_its_key(client: Client, context: Context) -> None:
    document = (await client.send("GET", "/.well-known/did.json")).body
    did = "did:web:memory.example.org"
    assert document["id"] == did == (await client.ask(DESCRIBE_SERVICE)).body["did"]
    assert document["service"] == [
        {"id": "#engram_appview", "type": "EngramAppView", "serviceEndpoint": "https://memory.example.org"}
    ]
    (key,) = document["verificationMethod"]
    assert (key["type"], key["controller"]) == ("Multikey", did)
    assert key["publicKeyMultibase"] == context.keys.public_key_multibase


async def test_describe_service_tells_the_registration(client: Client) -> None:
    assert (await client.ask(DESCRIBE_SERVICE)).body["registration"] == "closed"


@pytest.mark.parametrize("name", ["garden.engram.nothing", "com.atproto.sync.getRepo", "x", "", "a/b", "%00"])
@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE"])
async def test_an_unknown_method_is_not_implemented(client: Client, verb: str, name: str) -> None:
    answer = await client.send(verb, f"/xrpc/{name}")
    assert (answer.status, answer.error) == (501, "MethodNotImplemented")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "DELETE", "PATCH", "PROPFIND"])
async def test_a_method_called_with_another_verb_is_refused(client: Client, method: str, verb: str) -> None:
    if verb == verb_of(method):
        return
    answer = await client.send(verb, f"/xrpc/{method}", json={"space": SPACE})
    assert (answer.status, answer.error) == (400, "InvalidRequest")
    assert verb_of(method) in answer.body["message"]


@pytest.mark.parametrize("method", sorted(PROCEDURES))
@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE"])
async def test_a_procedure_called_with_another_verb_is_refused(
    client: Client, method: str, verb: str
) -> None:
    answer = await client.send(verb, f"/xrpc/{method}", json={"space": SPACE})
    assert (answer.status, answer.error) == (400, "InvalidRequest")
    assert "POST" in answer.body["message"]


@pytest.mark.parametrize("path", ["/xrpc/_health", "/.well-known/did.json"])
async def test_other_addresses_have_verbs_too(client: Client, path: str) -> None:
    assert (await client.send("POST", path)).error == "InvalidRequest"


@pytest.mark.parametrize("path", ["/nothing", "/xrpc", "/.well-known/other", "/../etc/passwd", "/%2e%2e/"])
async def test_what_is_not_there_is_said_in_json(client: Client, path: str) -> None:
    assert (await client.send("GET", path)).error == "NotFound"


async def test_head_gives_the_headers_alone(client: Client, garden: Garden) -> None:
    await garden.declare()
    full = await client.ask(GET_SPACE_STATUS, space=SPACE)
    head = await client.send("HEAD", f"/xrpc/{GET_SPACE_STATUS}", params={"space": SPACE})
    assert (head.status, head.raw) == (200, b"")
    assert head.headers["content-length"] == str(len(full.raw))


@pytest.mark.parametrize("path", [f"/xrpc/{SEARCH_MEMORIES}", "/xrpc/garden.engram.later", "/elsewhere"])
async def test_a_browser_may_ask_from_anywhere(client: Client, path: str) -> None:
    answer = await client.send(
        "OPTIONS",
        path,
        headers={"Origin": "https://page.example", "Access-Control-Request-Headers": "authorization"},
    )
    assert answer.status == 204
    assert "GET" in answer.headers["access-control-allow-methods"]
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    assert "Retry-After" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("method", [method for method in METHODS if method not in handlers.OPEN])
@pytest.mark.parametrize(
    ("credential", "error"),
    [
        ("Bearer x.y.z", "BadJwt"),
        ("Basic YTpi", "AuthMissing"),
        ("DPoP x", "AuthMissing"),
        ("", "AuthMissing"),
    ],
)
async def test_a_credential_that_cannot_be_verified_is_refused(
    client: Client, garden: Garden, method: str, credential: str, error: str
) -> None:
    await garden.declare()
    answer = await client.send(
        verb_of(method), f"/xrpc/{method}", params={"space": SPACE}, headers={"Authorization": credential}
    )
    assert (answer.status, answer.error) == (401, error)
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_describe_service_looks_at_no_credential(client: Client) -> None:
    answer = await client.send("GET", f"/xrpc/{DESCRIBE_SERVICE}", headers={"Authorization": "Bearer x"})
    assert answer.status == 200


async def test_a_body_has_a_limit_and_is_not_read_for_a_query(client: Client) -> None:
    path = f"/xrpc/{DESCRIBE_SERVICE}"
    assert (await client.send("GET", path, data=b"a" * MAX_BODY_BYTES)).status == 200
    answer = await client.send("GET", path, headers={"Content-Length": str(MAX_BODY_BYTES + 1)})
    assert (answer.status, answer.error) == (413, "PayloadTooLarge")


async def test_a_fault_is_logged_once_and_not_explained_to_the_caller(client: Client, garden: Garden) -> None:
    await garden.declare()
    async with garden.pool.use(SPACE) as store:
        await store.database.write(lambda connection: connection.execute("DROP TABLE skipped").fetchall())
    with structlog.testing.capture_logs() as lines:
        answer = await client.ask(GET_SPACE_STATUS, space=SPACE)
    assert (answer.status, answer.error) == (500, "InternalServerError")
    assert b"skipped" not in answer.raw
    (fault,) = [line for line in lines if line["log_level"] == "error"]
    assert str(fault["exc_info"]) == "no such table: skipped"
    assert fault["request_id"] == answer.headers["x-request-id"]
    assert SPACE not in str({key: value for key, value in fault.items() if key != "exc_info"})


async def test_requests_have_ids_of_their_own(client: Client) -> None:
    answers = [await client.send("GET", "/xrpc/_health", headers={"X-Request-Id": "mine"}) for _ in range(2)]
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == 2
    assert "mine" not in ids


async def test_ids_of_requests_do_not_tell_how_many_requests_others_made(client: Client) -> None:
    answers = [await client.send("GET", "/xrpc/_health") for _ in range(40)]
    ids = [int(answer.headers["x-request-id"], 16) for answer in answers]
    assert ids != sorted(ids)
    # Of numbers that follow each other, or share what does not change, bits are the same in all.
    for bit in range(64):
        assert {number >> bit & 1 for number in ids} == {0, 1}


async def test_the_log_names_the_method_and_nothing_that_was_asked(client: Client, garden: Garden) -> None:
    await garden.declare()
    await garden.remember("slugs eat lettuce at night")
    with structlog.testing.capture_logs() as lines:
        answer = await client.ask(SEARCH_MEMORIES, query_vector("slugs"), space=SPACE, q="lettuce at night")
    (line,) = [line for line in lines if line["event"] == "request"]
    assert line["path"] == f"/xrpc/{SEARCH_MEMORIES}"
    assert (line["status"], line["method"]) == (200, "GET")
    assert line["request_id"] == answer.headers["x-request-id"]
    for secret in ("lettuce", query_vector("slugs")["vector"], SPACE):
        assert secret not in str(lines)


async def test_beyond_the_limit_of_queries_at_once_the_caller_is_asked_to_come_back(
    context: Context, garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    await garden.declare()
    began, release = asyncio.Event(), asyncio.Event()
    original = garden.pool.use

    def use(space: Any) -> Any:
        return _Held(original(space), began, release)

    monkeypatch.setattr(garden.pool, "use", use)
    app = make_app(context, Admission(running=1, waiting=0))
    async with listening(app, "127.0.0.1", 0) as port, ClientSession() as session, asyncio.timeout(10):
        client = Client(session, f"http://127.0.0.1:{port}")
        first = asyncio.create_task(client.ask(GET_SPACE_STATUS, space=SPACE))
        await began.wait()
        refused = await client.ask(GET_SPACE_STATUS, space=SPACE)
        assert (refused.status, refused.error) == (503, "NotEnoughResources")
        assert (await client.send("GET", "/xrpc/_health")).status == 200
        release.set()
        assert (await first).status == 200
        assert (await client.ask(GET_SPACE_STATUS, space=SPACE)).status == 200


async def test_a_client_that_goes_away_gives_its_place_to_the_next(
    context: Context, garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    await garden.declare()
    began = asyncio.Event()
    original = garden.pool.use
    monkeypatch.setattr(garden.pool, "use", lambda space: _Held(original(space), began, asyncio.Event()))
    app = make_app(context, Admission(running=1, waiting=0))
    async with listening(app, "127.0.0.1", 0) as port, ClientSession() as session, asyncio.timeout(10):
        client = Client(session, f"http://127.0.0.1:{port}")
        first = asyncio.create_task(client.ask(GET_SPACE_STATUS, space=SPACE))
        await began.wait()
        first.cancel()
        await asyncio.wait([first])
        monkeypatch.undo()
        while (answer := await client.ask(GET_SPACE_STATUS, space=SPACE)).status == 503:
            pass
    assert answer.status == 200


async def test_what_is_being_built_ends_with_the_application(
    context: Context, garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    await garden.declare()
    await garden.remember("moon")
    began, ended = Event(), Event()

    def build(_cache: ViewCache, _store: object, _reads: object, check: Callable[[], None]) -> None:
        began.set()
        try:
            while not ended.wait(0.001):
                check()
        finally:
            ended.set()

    monkeypatch.setattr(derived, "MAX_INLINE", 0)
    monkeypatch.setattr(ViewCache, "build", build)
    async with listening(make_app(context), "127.0.0.1", 0) as port, ClientSession() as session:
        client = Client(session, f"http://127.0.0.1:{port}")
        assert (await client.ask(SEARCH_MEMORIES, space=SPACE, q="moon")).status == 200
        assert await asyncio.to_thread(began.wait, 10)
        assert not ended.is_set()
    assert ended.is_set()


class _Held:
    """A use of a space that lets the test go on first."""

    def __init__(self, inner: Any, began: asyncio.Event, release: asyncio.Event) -> None:
        self._inner, self._began, self._release = inner, began, release

    async def __aenter__(self) -> Any:
        self._began.set()
        await self._release.wait()
        return await self._inner.__aenter__()

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)


NOT_HERE = [
    "at://did:plc:aaaaaaaaaaaaaaaaaaaaaaaa/garden.engram.config/self",
    f"at://{ALICE}/garden.engram.memory/self",
    "at://alice.example.org/garden.engram.config/self",
    "https://example.org/",
    "at://did:plc:x/garden.engram.config/other",
]


@pytest.mark.parametrize("method", READING)
async def test_a_hidden_space_and_an_absent_one_look_the_same(
    client: Client, garden: Garden, method: str
) -> None:
    await garden.declare()
    uri = await garden.remember("hidden", tags=["/a"])
    params = {"uri": uri, "path": "/a", "q": "hidden", "limit": 5}
    names = lexicons().method(method).parameters or ("q", "limit")
    given = {name: value for name, value in params.items() if name in names}
    assert (await client.ask(method, given, space=SPACE)).status == 200
    await garden.hide(Permission(EVERYONE, SPACE, Subtree("/"), "read", allow=False))
    hidden = await client.ask(method, given, space=SPACE)
    assert (hidden.status, hidden.error) == (400, "UnknownSpace")
    for space in NOT_HERE:
        absent = await client.ask(method, given, space=space)
        assert (absent.status, absent.raw) == (hidden.status, hidden.raw)
    assert not garden.pool.exists(type(SPACE)(NOT_HERE[0]))


@pytest.mark.parametrize("method", METHODS)
async def test_a_missing_required_parameter_is_named(client: Client, method: str) -> None:
    if "space" not in lexicons().method(method).parameters:
        return
    answer = await client.ask(method)
    assert (answer.status, answer.error) == (400, "InvalidRequest")
    assert "space" in answer.body["message"]


@pytest.mark.parametrize(
    "query",
    [
        "%",
        "space=%zz",
        "space=%ff",
        "space=%00",
        "=&=&",
        "&" * 200,
        "a&" * 100,
        f"space={SPACE}&space={SPACE}",
    ],
)
async def test_broken_query_strings_are_refused(client: Client, query: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(client.base.rsplit(":", 1)[1]))
    target = f"/xrpc/{LIST_MEMORIES}?{query}"
    writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(5):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["error"] == "InvalidRequest"
