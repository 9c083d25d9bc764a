"""The guarded client, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from appview.http.client import MAX_REDIRECTS, HttpClient
from appview.http.errors import (
    FORBIDDEN_SECONDS,
    FetchError,
    ForbiddenUrl,
    HttpStatusError,
    ResponseTooLarge,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path


class FakeResolver(AbstractResolver):
    """Answers every name with the addresses it is given; counts nothing else."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self.addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def server(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def hello(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"hello")


async def test_a_document_is_fetched() -> None:
    async with server(hello) as url, HttpClient(allow_loopback=True) as client:
        answer = await client.get(url)
    assert (answer.status, answer.body) == (200, b"hello")


async def test_neither_a_proxy_nor_a_password_of_the_machine_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str | None] = []

    async def look(request: web.Request) -> web.StreamResponse:
        shown.append(request.headers.get("Authorization"))
        return web.Response(body=b"itself")

    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with server(hello) as proxy, server(look) as url:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)
        async with HttpClient(allow_loopback=True) as client:
            assert (await client.get(url)).body == b"itself"
    assert shown == [None]


async def test_loopback_is_refused_unless_it_is_allowed() -> None:
    async with server(hello) as url, HttpClient() as client:
        with pytest.raises(ForbiddenUrl, match="only https"):
            await client.get(url)
        with pytest.raises(ForbiddenUrl, match="not public"):
            await client.get(url.replace("http:", "https:"))


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_the_secure_form_of_a_scheme_is_named(scheme: str) -> None:
    async with HttpClient(allow_loopback=True) as client:
        with pytest.raises(
            ForbiddenUrl, match={"ws": "only wss is", "http": "only https is"}[scheme]
        ) as caught:
            await client.websocket(f"{scheme}://relay.example", max_message_bytes=1_000)
    assert caught.value.retry_after_seconds == FORBIDDEN_SECONDS


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://user:secret@example.com/",
        "https:///nowhere",
        "//example.com",
        "",
        "https://[::1/",
    ],
)
async def test_urls_of_another_form_are_refused(url: str) -> None:
    async with HttpClient(allow_loopback=True) as client:
        with pytest.raises(FetchError) as caught:
            await client.get(url)
    assert not caught.value.temporary


@pytest.mark.parametrize(
    "address",
    ["10.1.2.3", "169.254.169.254", "::ffff:10.1.2.3", "64:ff9b::a9fe:a9fe", "fd00::1", "100.64.0.1"],
)
async def test_a_name_that_leads_inside_is_refused_where_the_socket_is_made(address: str) -> None:
    async with HttpClient(allow_loopback=True, resolver=FakeResolver(address)) as client:
        with pytest.raises(ForbiddenUrl, match="not public"):
            await client.get("https://pds.example.com/")


async def test_a_name_with_only_refused_addresses_is_refused() -> None:
    async with HttpClient(resolver=FakeResolver("10.0.0.1", "127.0.0.1", "192.168.0.1")) as client:
        with pytest.raises(ForbiddenUrl, match="not public"):
            await client.get("https://pds.example.com/")


@pytest.mark.parametrize(
    "url", ["https://169.254.169.254/latest", "https://[::ffff:a9fe:a9fe]/", "https://10.0.0.1/"]
)
async def test_a_literal_address_is_refused(url: str) -> None:
    async with HttpClient(allow_loopback=True) as client:
        with pytest.raises(ForbiddenUrl, match="not public"):
            await client.get(url)


@pytest.mark.parametrize(
    "target", ["https://169.254.169.254/", "http://example.com/", "https://10.0.0.1:8080/"]
)
async def test_a_redirect_is_checked_like_the_first_request(target: str) -> None:
    async def redirect(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(target)

    async with server(redirect) as url, HttpClient(allow_loopback=True) as client:
        with pytest.raises(ForbiddenUrl):
            await client.get(url)


async def test_redirects_are_followed_up_to_the_limit() -> None:
    async def count_down(request: web.Request) -> web.StreamResponse:
        left = int(request.path.strip("/"))
        if left:
            raise web.HTTPFound(f"/{left - 1}")
        return web.Response(body=b"there")

    async with server(count_down) as url, HttpClient(allow_loopback=True) as client:
        assert (await client.get(f"{url}/{MAX_REDIRECTS}")).body == b"there"
        with pytest.raises(FetchError, match="TooManyRedirects"):
            await client.get(f"{url}/{MAX_REDIRECTS + 1}")


async def test_a_proxy_that_the_machine_names_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=request.host.encode())

    async def divert(_request: web.Request) -> web.StreamResponse:
        raise AssertionError

    async with server(answer) as url, server(divert) as proxy, HttpClient(allow_loopback=True) as client:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert f"http://{(await client.get(url)).body.decode()}" == url
        assert f"http://{(await client.post(url, {})).body.decode()}" == url


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_answer_is_read_up_to_its_limit(chunked: bool) -> None:
    async def long(request: web.Request) -> web.StreamResponse:
        if not chunked:
            return web.Response(body=b"x" * 1000)
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(10):
            await response.write(b"x" * 100)
        return response

    async with server(long) as url, HttpClient(allow_loopback=True) as client:
        assert len((await client.get(url, max_bytes=1000)).body) == 1000
        with pytest.raises(ResponseTooLarge):
            await client.get(url, max_bytes=999)


async def test_an_answer_that_does_not_end_in_time_is_given_up() -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"x")
            await asyncio.sleep(0.02)
        return response

    async with server(trickle) as url, HttpClient(allow_loopback=True) as client:
        with pytest.raises(FetchError, match=r"0\.1 s") as caught:
            await client.get(url, seconds=0.1)
    assert caught.value.temporary


@pytest.mark.parametrize(
    ("status", "temporary"), [(400, False), (404, False), (429, True), (500, True), (503, True)]
)
async def test_a_status_that_is_no_success(status: int, temporary: bool) -> None:
    async def fail(_request: web.Request) -> web.StreamResponse:
        body: Any = {"error": "RepoTakendown", "message": "gone"}
        return web.json_response(body, status=status, headers={"Retry-After": "7"})

    async with server(fail) as url, HttpClient(allow_loopback=True) as client:
        with pytest.raises(HttpStatusError) as caught:
            await client.get(url)
    error = caught.value
    assert (error.status, error.name, error.temporary, error.retry_after_seconds) == (
        status,
        "RepoTakendown",
        temporary,
        7.0,
    )


async def test_a_compressed_answer_is_refused() -> None:
    async def bomb(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x", headers={"Content-Encoding": "gzip"})

    async with server(bomb) as url, HttpClient(allow_loopback=True) as client:
        with pytest.raises(FetchError):
            await client.get(url)


async def test_a_server_that_is_not_there() -> None:
    async with HttpClient(allow_loopback=True) as client:
        with pytest.raises(FetchError) as caught:
            await client.get("http://127.0.0.1:9/")
    assert caught.value.temporary


async def test_a_websocket_is_held_to_the_same_rules() -> None:
    async with HttpClient(allow_loopback=True) as client:
        for url in ("ws://example.com/", "wss://10.0.0.1/"):
            with pytest.raises(ForbiddenUrl):
                await client.websocket(url, max_message_bytes=1000)


async def test_a_password_goes_to_its_server_alone_and_a_document_can_be_sent() -> None:
    seen: list[tuple[str, str | None]] = []

    async def note(request: web.Request) -> web.StreamResponse:
        seen.append((await request.text(), request.headers.get("Authorization")))
        return web.json_response({"ok": True})

    async with server(note) as tap, server(note) as other:
        password = (tap, "admin", "compost")
        async with HttpClient(allow_loopback=True, password=password) as client:
            answer = await client.post(f"{tap}/repos/add", {"dids": ["a"]})
            await client.get(f"{other}/x")
    assert answer.status == 200
    assert seen == [('{"dids": ["a"]}', "Basic YWRtaW46Y29tcG9zdA=="), ("", None)]


async def test_a_password_does_not_follow_a_redirect() -> None:
    seen: list[str | None] = []

    async def note(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.Response()

    async with server(note) as other:

        async def away(_request: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(other)

        async with server(away) as tap:
            password = (tap, "admin", "compost")
            async with HttpClient(allow_loopback=True, password=password) as client:
                await client.get(tap)
                with pytest.raises(HttpStatusError):
                    await client.post(tap, {})
    assert seen == [None]


async def test_what_is_sent_is_refused_like_what_is_asked_for() -> None:
    async with server(hello) as url, HttpClient() as client:
        with pytest.raises(ForbiddenUrl):
            await client.post(url, {})
        with pytest.raises(FetchError):
            await client.post("https://127.0.0.1:1/", {})
