"""recallMemories over the socket: who makes what stronger."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession

from appview.access.callers import Callers
from appview.access.subjects import Token
from appview.access.tokens import make_token
from appview.memory.search_reads import SearchReads
from appview.memory.strength import SPACE as OF_SPACE
from appview.memory.strength import traces
from appview.xrpc.app import make_app
from appview.xrpc.bodies import MAX_BODY_BYTES
from appview.xrpc.context import Context
from appview.xrpc.server import listening
from lexicons.ids import LIST_MEMORIES, RECALL_MEMORIES, SEARCH_MEMORIES
from tests.appview.xrpc.conftest import clock
from tests.appview.xrpc.garden import ALICE, BOB, SPACE, Client, query_vector
from tests.appview.xrpc.test_callers import Directory, bearer, token

if TYPE_CHECKING:
    from appview.memory.forgetting import Trace
    from appview.settings import Settings
    from appview.sqlite import Connection
    from lexicons.syntax import Did, Nsid
    from tests.appview.xrpc.garden import Answer, Garden

SLUGS = "Slugs eat the lettuce at night"
FROST = "Cover tomatoes before the first frost"


@pytest.fixture
async def planted(garden: Garden) -> Garden:
    """A space with two memories, of which Alice is a member."""
    await garden.declare()
    await garden.access.add_member(SPACE, ALICE, "operator")
    await garden.remember(SLUGS, tags=["/beds"], created_at="2026-01-01T00:00:00Z")
    await garden.remember(FROST, created_at="2026-01-02T00:00:00Z")
    return garden


@pytest.fixture
def context(garden: Garden, settings: Settings) -> Context:
    """An appview that knows Alice's and Bob's keys."""
    callers = Callers(settings.service_did, Directory(), garden.control, clock)
    return Context.of(settings, garden.control, garden.access, garden.pool, clock=clock, callers=callers)


async def recall(client: Client, headers: dict[str, str] | None = None, **given: Any) -> Answer:
    return await client.send(
        "POST", f"/xrpc/{RECALL_MEMORIES}", json={"space": SPACE, **given}, headers=headers
    )


def signed(settings: Settings, did: Did, method: Nsid = RECALL_MEMORIES) -> dict[str, str]:
    """Prove to be an account, for one call."""
    return bearer(token(settings, did, method))


async def left(context: Context, garden: Garden, subject: str = OF_SPACE) -> dict[str, int]:
    """Count the recalls of each memory for a subject, once all are written."""
    await context.reinforcer.flush()

    def read(connection: Connection) -> dict[str, Trace]:
        texts = dict(
            connection.execute("SELECT id, content FROM facts WHERE invalidated_at IS NULL").fetchall()
        )
        return {texts[id_]: trace for id_, trace in traces(connection, subject, texts).items()}

    async with garden.pool.use(SPACE) as store:
        found = await store.database.read(read)
    return {text: trace.recalls for text, trace in found.items()}


async def test_it_ends_when_its_caller_has_gone(
    context: Context, planted: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement would run for hours; it ends at once."""
    began, ended, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    def facts(reads: SearchReads, _: object) -> object:
        loop.call_soon_threadsafe(began.set)
        try:
            return reads.connection.execute(endless).fetchall()
        finally:
            loop.call_soon_threadsafe(ended.set)

    monkeypatch.setattr(SearchReads, "facts", facts)
    body = json.dumps({"space": SPACE, "q": "slugs"}).encode()
    head = f"POST /xrpc/{RECALL_MEMORIES} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    async with listening(make_app(context), "127.0.0.1", 0) as port, asyncio.timeout(10):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await began.wait()
        writer.close()
        await ended.wait()


async def test_it_answers_as_a_search_does(client: Client, planted: Garden) -> None:
    for given in (
        {"q": "lettuce at night"},
        {"q": "frost", "limit": 1, "tags": ["/beds"], "author": ALICE, "mode": "keyword"},
        {"q": "frost", **query_vector("lettuce")},
        {"q": "slugs", "profile": "balanced", "weights": ["links=10"], "collapse": True, "explain": True},
    ):
        searched = await client.ask(SEARCH_MEMORIES, given, space=SPACE)
        recalled = await recall(client, **given)
        assert recalled.body.pop("reinforced") == 0
        assert recalled.body == searched.body


async def test_an_anonymous_caller_changes_nothing(client: Client, planted: Garden, context: Context) -> None:
    assert (await recall(client, q="lettuce")).body["reinforced"] == 0
    assert set((await left(context, planted)).values()) == {0}


async def test_a_member_makes_it_stronger_for_both(
    client: Client, planted: Garden, context: Context, settings: Settings
) -> None:
    answer = await recall(client, signed(settings, ALICE), q="lettuce", limit=1)
    assert (answer.texts, answer.body["reinforced"]) == ([SLUGS], 1)
    assert await left(context, planted, ALICE) == {SLUGS: 1, FROST: 0}
    assert await left(context, planted) == {SLUGS: 1, FROST: 0}
    assert await left(context, planted, BOB) == {SLUGS: 1, FROST: 0}  # the space's, for who has none


@pytest.mark.parametrize("who", ["bob", "token"])
async def test_who_is_no_member_makes_it_stronger_for_themselves(
    client: Client,
    planted: Garden,
    context: Context,
    settings: Settings,
    who: str,
) -> None:
    subject, headers = str(BOB), signed(settings, BOB)
    if who == "token":
        secret, row = make_token(Token("reader"), clock(), None, secrets.token_bytes)
        await context.control.tokens.add(row, actor="operator")
        subject, headers = f"token:reader#{row.id}", bearer(secret)
    assert (await recall(client, headers, q="lettuce frost")).body["reinforced"] == 2
    assert set((await left(context, planted, subject)).values()) == {1}
    assert set((await left(context, planted)).values()) == {0}


async def test_searching_makes_nothing_stronger(
    client: Client, planted: Garden, context: Context, settings: Settings
) -> None:
    answer = await client.send(
        "GET",
        f"/xrpc/{SEARCH_MEMORIES}",
        params={"space": SPACE, "q": "lettuce frost", "profile": "balanced"},
        headers=signed(settings, ALICE, SEARCH_MEMORIES),
    )
    assert len(answer.texts) == 2
    assert set((await left(context, planted, ALICE)).values()) == {0}


async def test_without_a_question_the_strongest_come(
    client: Client, planted: Garden, context: Context, settings: Settings
) -> None:
    answer = await recall(client)
    assert (answer.texts, answer.body["mode"]) == ([FROST, SLUGS], "strength")
    await recall(client, signed(settings, ALICE), q="lettuce", mode="keyword")
    await context.reinforcer.flush()
    answer = await recall(client, signed(settings, ALICE), limit=1)
    assert answer.texts == [SLUGS]
    match = answer.body["memories"][0]["match"]
    assert match == {
        "score": 1000,
        "words": [],
        "strength": {"raw": 1000, "normalised": 1000, "weight": 1000, "contribution": 1000},
    }
    assert (await recall(client, limit=1)).texts == [SLUGS]


async def test_recalls_survive_a_stop(context: Context, settings: Settings, planted: Garden) -> None:
    async with listening(make_app(context), "127.0.0.1", 0) as port, ClientSession() as session:
        client = Client(session, f"http://127.0.0.1:{port}")
        await recall(client, signed(settings, ALICE), q="lettuce", mode="keyword")
    fresh = Context.of(settings, planted.control, planted.access, planted.pool, clock=clock)
    assert await left(fresh, planted, ALICE) == {SLUGS: 1, FROST: 0}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON in UTF-8"),
        (b"[]", "object"),
        (b'{"space": "at://x", "space": "at://y"}', "twice"),
        (b'{"space": "at://x", "limit": 1.5}', "float"),
        (b'{"space": "at://x", "limit": NaN}', "NaN"),
        (b'{"space": "at://x", "limit": "3"}', "limit"),
        (b'{"space": "at://x", "limit": 51}', "limit"),
        (b'{"q": "a"}', "space"),
        (b'{"space": "at://x", "q": "a\\u0000b"}', "NUL"),
        (b'{"space": "at://x", "q": "\\ud800"}', ""),
        (b"[" * 100_000, ""),
        (b'{"space": "at://x", "tags": "a"}', "tags"),
    ],
)
async def test_a_body_that_is_not_right_is_refused(client: Client, body: bytes, message: str) -> None:
    answer = await client.send(
        "POST", f"/xrpc/{RECALL_MEMORIES}", data=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status, answer.error) == (400, "InvalidRequest")
    assert message in answer.body["message"]


async def test_a_body_has_a_type_and_a_size(client: Client) -> None:
    path = f"/xrpc/{RECALL_MEMORIES}"
    answer = await client.send("POST", path, data=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.error, "application/json" in answer.body["message"]) == ("InvalidRequest", True)

    async def chunks(size: int) -> Any:
        yield b" " * (size - 2) + b"{}"

    headers = {"Content-Type": "application/json"}
    answer = await client.send("POST", path, data=chunks(MAX_BODY_BYTES), headers=headers)
    assert answer.error == "InvalidRequest"  # no space, and read to its end
    answer = await client.send("POST", path, data=chunks(MAX_BODY_BYTES + 1), headers=headers)
    assert (answer.status, answer.error) == (413, "PayloadTooLarge")


async def test_a_new_token_of_a_name_is_another_holder(
    client: Client, planted: Garden, context: Context
) -> None:
    """Rules know the name; what is kept for a caller is of the token."""

    async def give() -> dict[str, str]:
        secret, row = make_token(Token("reader"), clock(), None, secrets.token_bytes)
        assert await context.control.tokens.add(row, actor="operator")
        return bearer(secret)

    async def page(headers: dict[str, str], **given: Any) -> Answer:
        asked = {"space": SPACE, "limit": "1", **given}
        return await client.send("GET", f"/xrpc/{LIST_MEMORIES}", params=asked, headers=headers)

    async def strengths(headers: dict[str, str]) -> list[int]:
        asked = {"space": SPACE, "q": "slugs frost", "weights": "strength=1000", "explain": "true"}
        found = await client.send("GET", f"/xrpc/{SEARCH_MEMORIES}", params=asked, headers=headers)
        return [memory["match"]["strength"] for memory in found.body["memories"]]

    first = await give()
    untouched = await strengths(first)
    cursor = (await page(first)).body["cursor"]
    await recall(client, first, q="slugs frost")
    await context.reinforcer.flush()
    assert await strengths(first) != untouched
    assert (await page(first, cursor=cursor)).status == 200
    await context.control.tokens.revoke("reader", actor="operator", now=clock())
    second = await give()
    assert (await page(second, cursor=cursor)).error == "InvalidRequest"
    assert await strengths(second) == untouched
