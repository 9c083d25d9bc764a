"""Rate limits over a socket: by address, by caller, by space."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from aiohttp import ClientSession, web

from appview.access.rules import Permission
from appview.access.subjects import Token
from appview.access.tokens import make_token
from appview.memory.scope import Subtree
from appview.settings import Settings
from appview.xrpc.admission import MAX_RUNNING, MAX_WAITING
from appview.xrpc.app import make_app
from appview.xrpc.errors import RateLimitExceeded
from appview.xrpc.limits import MAX_AT_ONCE, REFUSED_COST, Limits
from appview.xrpc.server import listening
from tests.appview.xrpc.garden import SPACE, START, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from appview.xrpc.context import Context
    from tests.appview.xrpc.garden import Answer, Garden

ABSENT = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
STATUS = "garden.engram.getSpaceStatus"


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.micros = START

    def __call__(self) -> int:
        return self.micros


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def answering(context: Context, limits: Limits) -> AsyncIterator[Client]:
    """Run the appview with these limits."""
    async with (
        listening(make_app(context, limits=limits), "127.0.0.1", 0) as port,
        ClientSession() as session,
    ):
        yield Client(session, f"http://127.0.0.1:{port}")


async def status(client: Client, token: str | None = None, **headers: str) -> Answer:
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return await client.send("GET", f"/xrpc/{STATUS}", params={"space": SPACE}, headers=headers)


async def give(context: Context, name: str) -> str:
    text, row = make_token(Token(name), START, None, secrets.token_bytes)
    assert await context.control.tokens.add(row, actor="operator")
    return text


async def test_an_answer_tells_how_much_is_left(context: Context, garden: Garden, clock: Clock) -> None:
    await garden.declare()
    async with answering(context, Limits(clock, address=3)) as client:
        for remaining in ("2", "1", "0"):
            answer = await status(client)
            assert answer.status == 200
            assert answer.headers["ratelimit-limit"] == "3"
            assert answer.headers["ratelimit-remaining"] == remaining
            assert answer.headers["ratelimit-policy"] == "3;w=60"
        assert answer.headers["ratelimit-reset"] == str(START // 1_000_000 + 60)
        refused = await status(client)
        assert (refused.status, refused.error) == (429, "RateLimitExceeded")
        assert refused.headers["retry-after"] == "20"
        assert refused.headers["ratelimit-remaining"] == "0"
        clock.micros += 20_000_000
        assert (await status(client)).status == 200
        assert (await status(client)).status == 429


async def test_errors_count_and_carry_the_headers_too(context: Context, clock: Clock) -> None:
    async with answering(context, Limits(clock, address=3)) as client:
        assert (await status(client)).error == "UnknownSpace"
        missing = await client.send("GET", "/xrpc/garden.engram.nothing")
        assert (missing.error, missing.headers["ratelimit-remaining"]) == ("MethodNotImplemented", "1")
        wrong = await client.send("POST", f"/xrpc/{STATUS}")
        assert (wrong.error, wrong.headers["ratelimit-remaining"]) == ("InvalidRequest", "0")
        assert (await status(client)).status == 429


async def test_what_watches_over_the_service_is_not_counted(context: Context, clock: Clock) -> None:
    async with answering(context, Limits(clock, address=1)) as client:
        for _ in range(3):
            for path in ("/xrpc/_health", "/.well-known/did.json"):
                answer = await client.send("GET", path)
                assert answer.status == 200
                assert "ratelimit-limit" not in answer.headers
        assert (await client.send("OPTIONS", f"/xrpc/{STATUS}")).status == 204


async def test_no_limit_is_no_header(context: Context, garden: Garden, clock: Clock) -> None:
    await garden.declare()
    async with answering(context, Limits(clock)) as client:
        for _ in range(20):
            answer = await status(client)
            assert answer.status == 200
        assert "ratelimit-limit" not in answer.headers


async def test_a_forwarded_address_is_nothing_without_a_proxy(
    context: Context, garden: Garden, clock: Clock
) -> None:
    await garden.declare()
    async with answering(context, Limits(clock, address=1)) as client:
        assert (await status(client, **{"X-Forwarded-For": "198.51.100.1"})).status == 200
        assert (await status(client, **{"X-Forwarded-For": "198.51.100.2"})).status == 429
        assert (
            await status(client, **{"Forwarded": "for=198.51.100.3", "X-Real-IP": "1.1.1.1"})
        ).status == 429


async def test_behind_a_proxy_each_caller_has_its_own_bucket(
    context: Context, garden: Garden, clock: Clock
) -> None:
    await garden.declare()
    limits = Limits(clock, address=1, trusted=(ip_network("127.0.0.0/8"),))
    async with answering(context, limits) as client:
        for address in ("203.0.113.1", "203.0.113.2", "2001:db8:1:1::1", "2001:db8:1:2::1"):
            assert (await status(client, **{"X-Forwarded-For": address})).status == 200
            assert (await status(client, **{"X-Forwarded-For": f"1.2.3.4, {address}"})).status == 429
        assert (await status(client, **{"X-Forwarded-For": "2001:db8:1:1::2"})).status == 429


async def test_the_log_names_the_caller_and_not_the_proxy(
    context: Context, garden: Garden, clock: Clock
) -> None:
    await garden.declare()
    with structlog.testing.capture_logs() as lines:
        async with answering(context, Limits(clock, trusted=(ip_network("127.0.0.0/8"),))) as client:
            await status(client, **{"X-Forwarded-For": "203.0.113.1"})
            await client.send("GET", "/.well-known/did.json")
    assert [line["remote"] for line in lines if line["event"] == "request"] == ["203.0.113.1", "127.0.0.1"]


async def test_a_caller_is_counted_wherever_it_comes_from(
    context: Context, garden: Garden, clock: Clock
) -> None:
    await garden.declare()
    limits = Limits(clock, address=100, subject=2, trusted=(ip_network("127.0.0.0/8"),))
    bot, other = await give(context, "bot"), await give(context, "other")
    async with answering(context, limits) as client:
        for number in (1, 2):
            answer = await status(client, bot, **{"X-Forwarded-For": f"203.0.113.{number}"})
            assert (answer.status, answer.headers["ratelimit-limit"]) == (200, "2")
        refused = await status(client, bot, **{"X-Forwarded-For": "203.0.113.3"})
        assert (refused.status, refused.headers["ratelimit-remaining"]) == (429, "0")
        assert (await status(client, other)).status == 200
        for _ in range(5):
            assert (await status(client)).status == 200  # nobody has no bucket but the address's


async def test_a_new_token_of_a_name_is_told_nothing_of_what_the_old_one_used(
    context: Context, garden: Garden, clock: Clock
) -> None:
    await garden.declare()
    async with answering(context, Limits(clock, subject=3)) as client:
        old = await give(context, "bot")
        await status(client, old)
        assert (await status(client, old)).headers["ratelimit-remaining"] == "1"
        await context.control.tokens.revoke("bot", actor="operator", now=clock())
        assert (await status(client, await give(context, "bot"))).headers["ratelimit-remaining"] == "2"


async def test_guessing_credentials_costs_the_guesser(context: Context, garden: Garden, clock: Clock) -> None:
    await garden.declare()
    async with answering(context, Limits(clock, address=2 * REFUSED_COST)) as client:
        assert (await status(client, "a.b.c")).status == 401
        assert (await status(client, "a.b.c")).status == 401
        assert (await status(client, "a.b.c")).status == 429
        assert (await status(client)).status == 429


async def test_a_space_is_counted_for_all_who_read_it_together(
    context: Context, garden: Garden, clock: Clock
) -> None:
    await garden.declare()
    limits = Limits(clock, address=100, space=2, trusted=(ip_network("127.0.0.0/8"),))
    async with answering(context, limits) as client:
        for number in (1, 2):
            answer = await status(client, **{"X-Forwarded-For": f"203.0.113.{number}"})
            assert (answer.status, answer.headers["ratelimit-limit"]) == (200, "100")
        refused = await status(client, **{"X-Forwarded-For": "203.0.113.3"})
        assert (refused.status, refused.headers["retry-after"]) == (429, "30")
        assert refused.headers["ratelimit-limit"] == "100"  # the space's own count tells of others
        assert (await client.ask("garden.engram.listSpaces")).status == 200


async def test_a_space_that_is_hidden_or_absent_cannot_be_used_up(
    context: Context, garden: Garden, clock: Clock
) -> None:
    """Else its limit would tell the two apart, and whoever may not read could lock out who may."""
    await garden.declare()
    bot = await give(context, "bot")
    await garden.hide(Permission(Token("bot"), SPACE, Subtree("/"), "read", allow=False))
    absent = f"at://{ABSENT}/garden.engram.config/self"
    async with answering(context, Limits(clock, address=100, space=1)) as client:
        for _ in range(3):
            assert (await status(client, bot)).error == "UnknownSpace"
            assert (await client.ask(STATUS, space=absent)).error == "UnknownSpace"
        assert (await status(client)).status == 200
        assert (await status(client)).status == 429


async def test_one_address_cannot_hold_the_whole_line(clock: Clock) -> None:
    limits = Limits(clock, at_once=2, trusted=(ip_network("127.0.0.0/8"),))
    release = asyncio.Event()
    waiting: asyncio.Queue[None] = asyncio.Queue()

    async def wait(_: web.Request) -> web.StreamResponse:
        waiting.put_nowait(None)
        await release.wait()
        return web.Response()

    @web.middleware
    async def translate(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            answer: web.StreamResponse = await handler(request)
        except RateLimitExceeded as error:
            return web.Response(status=error.status)
        return answer

    app = web.Application(middlewares=[translate, limits.middleware])
    app.router.add_get("/xrpc/x", wait)

    async def ask(session: ClientSession, port: int, address: str) -> int:
        headers = {"X-Forwarded-For": address}
        async with session.get(f"http://127.0.0.1:{port}/xrpc/x", headers=headers) as response:
            return response.status

    async with listening(app, "127.0.0.1", 0) as port, ClientSession() as session, asyncio.timeout(5):
        held = [asyncio.create_task(ask(session, port, "203.0.113.1")) for _ in range(2)]
        for _ in held:
            await waiting.get()
        assert await ask(session, port, "203.0.113.1") == 429
        other = asyncio.create_task(ask(session, port, "203.0.113.2"))
        await waiting.get()
        release.set()
        assert [await task for task in (*held, other)] == [200, 200, 200]
        assert await ask(session, port, "203.0.113.1") == 200


async def test_a_caller_that_goes_away_leaves_its_place(clock: Clock) -> None:
    limits = Limits(clock, at_once=1)
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait(_: web.Request) -> web.StreamResponse:
        if began.is_set():
            return web.Response()
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    app = web.Application(middlewares=[limits.middleware])
    app.router.add_get("/xrpc/x", wait)
    async with listening(app, "127.0.0.1", 0) as port, asyncio.timeout(5):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /xrpc/x HTTP/1.1\r\nHost: x\r\n\r\n")
        await began.wait()
        writer.close()
        await ended.wait()
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/xrpc/x") as answer:
            assert answer.status == 200


async def test_a_query_whose_client_has_gone_is_interrupted_in_the_database(
    garden: Garden, clock: Clock
) -> None:
    """The statement would run for hours; the thread and the connection are free again at once."""
    await garden.declare()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    began, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def search(_: web.Request) -> web.StreamResponse:
        async with garden.pool.use(SPACE) as store:

            def work(connection: Any) -> None:
                loop.call_soon_threadsafe(began.set)
                connection.execute(endless).fetchall()

            try:
                await store.database.read(work)
            finally:
                ended.set()
        raise AssertionError

    app = web.Application(middlewares=[Limits(clock).middleware])
    app.router.add_get("/xrpc/x", search)
    async with listening(app, "127.0.0.1", 0) as port, asyncio.timeout(10):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /xrpc/x HTTP/1.1\r\nHost: x\r\n\r\n")
        await began.wait()
        writer.close()
        await ended.wait()
    async with garden.pool.use(SPACE) as store, asyncio.timeout(5):
        assert await store.database.read(lambda connection: connection.execute("SELECT 1").fetchone()[0]) == 1


def test_a_place_in_the_line_is_left_for_others() -> None:
    assert MAX_AT_ONCE < MAX_RUNNING + MAX_WAITING


def test_the_limits_are_those_of_the_settings(clock: Clock) -> None:
    settings = Settings(rate_address=1, rate_subject=2, rate_space=0)
    limits = Limits.of(settings, clock)
    assert limits.addresses is not None and limits.addresses.policy == "1;w=60"
    assert limits.subjects is not None and limits.subjects.policy == "2;w=60"
    assert limits.spaces is None
