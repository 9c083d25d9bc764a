"""The listening socket: each limit on both sides, slow and broken clients, the end."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import structlog
from aiohttp import ClientSession, web

from appview.xrpc import server
from appview.xrpc.server import MAX_HEADER_BYTES, MAX_HEADERS, MAX_REQUEST_LINE_BYTES, listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SECRET = "slugs-in-my-lettuce"


@asynccontextmanager
async def serving(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], **options: float
) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    async with listening(app, "127.0.0.1", 0, **options) as port:  # type: ignore[arg-type]
        yield port


async def echo(request: web.Request) -> web.Response:
    return web.json_response({"target": len(request.raw_path)})


async def talk(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes and read one answer up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(5):
            writer.write(request)
            answer = await reader.read()
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status.split()[1]), headers, body


def get(target: str, *headers: str) -> bytes:
    lines = [f"GET {target} HTTP/1.1", "Host: x", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def test_the_longest_url_is_taken_and_one_byte_more_is_refused_as_json() -> None:
    fits = "/x?q=" + "a" * (MAX_REQUEST_LINE_BYTES - 5)
    async with serving(echo) as port:
        status, _, body = await talk(port, get(fits))
        assert (status, json.loads(body)) == (200, {"target": MAX_REQUEST_LINE_BYTES})
        status, headers, body = await talk(port, get(fits + "a"))
    assert status == 413
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["access-control-allow-origin"] == "*"
    assert json.loads(body)["error"] == "PayloadTooLarge"
    assert str(MAX_REQUEST_LINE_BYTES) in json.loads(body)["message"]


async def test_a_header_has_a_limit() -> None:
    async with serving(echo) as port:
        status, _, _ = await talk(port, get("/x", "X-Long: " + "a" * (MAX_HEADER_BYTES - 8)))
        assert status == 200
        status, _, body = await talk(port, get("/x", "X-Long: " + "a" * (MAX_HEADER_BYTES + 1)))
    assert (status, json.loads(body)["error"]) == (413, "PayloadTooLarge")


async def test_the_number_of_headers_has_a_limit() -> None:
    async with serving(echo) as port:
        status, _, _ = await talk(port, get("/x", *[f"X-{n}: 1" for n in range(MAX_HEADERS - 2)]))
        assert status == 200
        status, _, body = await talk(port, get("/x", *[f"X-{n}: 1" for n in range(MAX_HEADERS)]))
    assert status == 400
    assert json.loads(body)["error"] == "InvalidRequest"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /x?q=\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /x?q=\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=["TLS", "raw bytes", "NUL", "no target", "words", "negative length", "two lengths"],
)
async def test_what_is_not_http_is_refused_as_json(request_bytes: bytes) -> None:
    async with serving(echo) as port:
        status, _, body = await talk(port, request_bytes)
    assert status == 400
    assert json.loads(body) == {"error": "InvalidRequest", "message": "not a valid HTTP request"}


async def test_what_was_asked_reaches_neither_answer_nor_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(echo) as port:
        with structlog.testing.capture_logs() as lines:
            _, _, refused = await talk(port, get(f"/x?q={SECRET}" + "a" * MAX_REQUEST_LINE_BYTES))
            await talk(port, get(f"/x?q={SECRET}"))
            await talk(port, f"GET /x?q={SECRET}\x00 HTTP/1.1\r\n\r\n".encode())
    assert SECRET.encode() not in refused
    assert [line["status"] for line in lines] == [413, 200, 400]
    assert lines[1]["path"] == "/x"
    assert SECRET not in str(lines)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "head", [b"", b"GET /x HTTP/1.1\r\nHost: x\r\nX-Slow: "], ids=["silent", "trickling"]
)
async def test_a_head_that_does_not_arrive_in_time_ends_the_connection(head: bytes) -> None:
    async def rest(reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.read()
        except ConnectionResetError:  # it was closed with bytes of the head on their way
            return b""

    async with serving(echo, keepalive=0.2) as port, asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        closed = asyncio.create_task(rest(reader))
        writer.write(head)
        while head and not closed.done():
            writer.write(b"a")
            await asyncio.wait([closed], timeout=0.02)
        assert await closed == b""
        writer.close()


async def test_an_answer_left_unread_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STALL_SECONDS", 0.2)
    ended = asyncio.Event()

    async def large(request: web.Request) -> web.StreamResponse:
        try:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"a" * 1_000_000)
        finally:
            ended.set()

    async with serving(large) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(get("/x"))
        async with asyncio.timeout(5):
            await ended.wait()
        writer.close()


async def test_a_slow_reader_that_goes_on_reading_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STALL_SECONDS", 0.3)
    size = 40_000_000

    async def large(request: web.Request) -> web.Response:
        return web.Response(body=b"a" * size)

    async with (
        serving(large) as port,
        ClientSession(read_bufsize=1024) as client,
        client.get(f"http://127.0.0.1:{port}/x") as response,
    ):
        received = 0
        async for chunk in response.content.iter_chunked(size // 20):
            received += len(chunk)
            await asyncio.sleep(0.03)  # the pace of the client: longer in all than it may stall
    assert received == size


async def test_there_are_only_so_many_connections() -> None:
    async with serving(echo, max_connections=2) as port, asyncio.timeout(5):
        opened = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            opened.append((reader, writer))
        with suppress(ConnectionError):
            await opened[0][0].read()  # it was idle for the longest, and is closed
        opened[1][1].write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await opened[1][0].readline()
        for _, writer in opened:
            writer.close()


async def test_where_all_are_busy_the_new_one_goes() -> None:
    go_on = asyncio.Event()

    async def wait(_request: web.Request) -> web.Response:
        await go_on.wait()
        return web.Response(text="done")

    async with serving(wait, max_connections=1) as port, asyncio.timeout(5):
        busy, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/x"))
        await asyncio.sleep(0.1)  # until the request is read, there is nothing to be seen of it
        reader, other = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        go_on.set()
        assert (await busy.readline()).startswith(b"HTTP/1.1 200")
        for each in (writer, other):
            each.close()


async def test_who_holds_the_most_connections_keeps_nobody_out() -> None:
    request = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
    async with serving(echo, max_connections=20) as port, asyncio.timeout(10):
        hoard = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
        answers = []
        for number in range(10):
            opened = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            hoard.append(await asyncio.open_connection("127.0.0.1", port))
            opened[1].write(request)
            answers.append((await opened[0].readline()).startswith(b"HTTP/1.1 200"))
            if number % 2:
                opened[1].close()
            else:
                hoard.append(opened)
        assert answers == [True] * 10
        for _, writer in hoard:
            writer.close()


async def test_a_client_that_goes_away_cancels_its_query() -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return web.Response()

    async with serving(wait) as port, asyncio.timeout(5):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/x"))
        await began.wait()
        writer.close()
        await cancelled.wait()


async def test_the_end_lets_a_query_finish_and_takes_no_other() -> None:
    began, release = asyncio.Event(), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        began.set()
        await release.wait()
        return web.Response(text="done")

    async with asyncio.timeout(5), asyncio.TaskGroup() as group, serving(wait) as port:
        answer = group.create_task(talk(port, get("/x")))
        await began.wait()
        group.create_task(_release_when_closed(port, release))
    assert answer.result()[2] == b"done"


async def _release_when_closed(port: int, release: asyncio.Event) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            release.set()
            return
        writer.close()
        await asyncio.sleep(0.01)
