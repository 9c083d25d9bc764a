"""The one way out: every request this program makes to a server it was told of goes through `HttpClient`.

Invariants: https, or plain http to this machine where loopback is allowed; no socket is opened to an address
that `addresses.is_allowed` refuses, whatever name, redirect or DNS answer led to it; no answer is read past
its limit in bytes or time; no proxy, cookie or credential of this machine is used.

The address is checked where the socket is made, so what is checked is what is connected to: a name that
resolves differently a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import aiohttp
from yarl import URL

from appview.http.addresses import is_allowed, is_loopback
from appview.http.errors import FetchError, ForbiddenUrl, HttpStatusError, ResponseTooLarge
from appview.http.names import Names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from aiohttp.abc import AbstractResolver

MAX_REDIRECTS: Final = 3  # ours, of one request
CONNECT_SECONDS: Final = 10.0  # name, TCP and TLS together
READ_SECONDS: Final = 30.0  # without a byte
DOCUMENT_SECONDS: Final = 15.0  # a small answer, from start to end
MAX_DOCUMENT_BYTES: Final = 256 * 1024  # a DID document or an error body; real ones are below 4 kB
MAX_ERROR_BYTES: Final = 4_096  # what of an error body is read
MAX_CONNECTIONS: Final = 200  # above what all that ask may have open together: see `ingest.hosts`, `identity`
MAX_CONNECTIONS_PER_HOST: Final = 16
USER_AGENT: Final = "garden-engram-appview"


class _ForbiddenAddress(OSError):
    """An address that must not be connected to; an `OSError`, so that the next address is tried."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer with status 2xx."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """A guarded client; `async with HttpClient(...) as client`.

    `resolver` replaces `Names`. Its answers are not trusted. `password` (URL, user name,
    password) is shown to the server of that URL and to no other.
    """

    def __init__(
        self,
        *,
        allow_loopback: bool = False,
        resolver: AbstractResolver | None = None,
        password: tuple[str, str, str] | None = None,
    ) -> None:
        self._allow_loopback = allow_loopback
        self._resolver = resolver
        self._password: str | None = None
        if password is not None:
            url, name, secret = password
            self._password_for = (URL(url).host, URL(url).port)
            self._password = "Basic " + b64encode(f"{name}:{secret}".encode()).decode()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=MAX_CONNECTIONS,
            limit_per_host=MAX_CONNECTIONS_PER_HOST,
            resolver=self._resolver or Names(),
            socket_factory=self._open_socket,
            ttl_dns_cache=60,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            middlewares=(self._check_request,),
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=READ_SECONDS),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(
        self,
        url: str,
        *,
        accept: str = "*/*",
        max_bytes: int = MAX_DOCUMENT_BYTES,
        seconds: float = DOCUMENT_SECONDS,
    ) -> Answer:
        """Fetch a small document whole; raise `FetchError`."""
        async with self.stream(url, accept=accept, max_bytes=max_bytes, seconds=seconds) as reader:
            chunks = [chunk async for chunk in reader]
            return Answer(reader.status, reader.headers, b"".join(chunks))

    @asynccontextmanager
    async def stream(
        self, url: str, *, accept: str = "*/*", max_bytes: int, seconds: float
    ) -> AsyncIterator[Reader]:
        """Fetch a document in chunks, at most `max_bytes` in `seconds`; raise `FetchError`."""
        session = self._open_session()
        try:
            async with (
                asyncio.timeout(seconds),
                # aiohttp counts the redirect that it refuses.
                session.get(
                    _parse(url), headers={"Accept": accept}, max_redirects=MAX_REDIRECTS + 1
                ) as response,
            ):
                if not 200 <= response.status < 300:
                    raise await _status_error(response)
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    raise FetchError("the answer is compressed, which was not asked for", temporary=False)
                if (response.content_length or 0) > max_bytes:
                    raise ResponseTooLarge(max_bytes)
                yield Reader(response, max_bytes)
        except TimeoutError:
            raise FetchError(f"no complete answer from {_host(url)} in {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _translate(error, url) from None

    async def post(self, url: str, body: object, *, seconds: float = DOCUMENT_SECONDS) -> Answer:
        """Send a JSON document; raise `FetchError`. A redirect is not followed."""
        session = self._open_session()
        try:
            async with (
                asyncio.timeout(seconds),
                session.post(_parse(url), json=body, allow_redirects=False) as response,
            ):
                if not 200 <= response.status < 300:
                    raise await _status_error(response)
                answer = await response.content.read(MAX_DOCUMENT_BYTES)
                return Answer(response.status, response.headers, answer)
        except TimeoutError:
            raise FetchError(f"no complete answer from {_host(url)} in {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _translate(error, url) from None

    async def websocket(self, url: str, *, max_message_bytes: int) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket; raise `FetchError`. Pings and pongs are given to the reader."""
        session = self._open_session()
        try:
            async with asyncio.timeout(CONNECT_SECONDS + READ_SECONDS):
                return await session.ws_connect(_parse(url), max_msg_size=max_message_bytes, autoping=False)
        except TimeoutError:
            raise FetchError(f"no answer from {_host(url)}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _translate(error, url) from None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is not open")
        return self._session

    async def _check_request(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Check each request, those that a redirect asks for too."""
        self.check(request.url)
        if "Authorization" in request.headers:  # where a redirect's URL had credentials
            raise ForbiddenUrl("a URL with credentials")
        if self._password is not None and (request.url.host, request.url.port) == self._password_for:
            request.headers["Authorization"] = self._password
        return await handler(request)

    def check(self, url: URL) -> None:
        """Refuse a URL by its form alone; raise `ForbiddenUrl`."""
        host = url.host
        if not host:
            raise ForbiddenUrl("a URL without a host")
        if url.scheme in ("https", "wss"):
            return
        if url.scheme not in ("http", "ws") or not (self._allow_loopback and is_loopback(host)):
            secure = "wss" if url.scheme in ("ws", "wss") else "https"
            raise ForbiddenUrl(f"{url.scheme}://{host}: only {secure} is allowed")

    def _open_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, target = address
        if not is_allowed(str(target[0]), allow_loopback=self._allow_loopback):
            raise _ForbiddenAddress(f"{target[0]} is not a public address")
        return socket.socket(family=family, type=kind, proto=protocol)


class Reader:
    """The chunks of one answer, as an async iterator."""

    def __init__(self, response: aiohttp.ClientResponse, max_bytes: int) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._content = response.content
        self._left = max_bytes
        self._max_bytes = max_bytes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._content.readany()
        if not chunk:
            raise StopAsyncIteration
        self._left -= len(chunk)
        if self._left < 0:
            raise ResponseTooLarge(self._max_bytes)
        return chunk


async def _status_error(response: aiohttp.ClientResponse) -> HttpStatusError:
    body = await response.content.read(MAX_ERROR_BYTES)
    retry_after = response.headers.get("Retry-After")
    return HttpStatusError(response.status, body, retry_after, response.url.host or "?")


def _translate(error: Exception, url: str) -> FetchError:
    if isinstance(error, aiohttp.WSServerHandshakeError):
        retry_after = error.headers.get("Retry-After") if error.headers is not None else None
        return HttpStatusError(error.status, b"", retry_after, _host(url))
    if isinstance(error, aiohttp.ClientConnectorError) and _is_forbidden(error.os_error):
        return ForbiddenUrl(f"{_host(url)} leads to an address that is not public")
    if isinstance(error, aiohttp.NonHttpUrlClientError):
        return ForbiddenUrl(f"{_host(url)}: not an http(s) URL")
    if isinstance(error, aiohttp.InvalidURL | aiohttp.TooManyRedirects):
        return FetchError(f"{_host(url)}: {type(error).__name__}", temporary=False)
    return FetchError(f"{_host(url)}: {type(error).__name__}: {str(error)[:200]}")


def _is_forbidden(error: BaseException) -> bool:
    """Tell whether every address of a host was refused, or the one it had."""
    return isinstance(error, _ForbiddenAddress) or "is not a public address" in str(error)


def _parse(url: str) -> URL:
    try:
        parsed = URL(url)
    except ValueError:
        raise ForbiddenUrl("not a URL") from None
    if parsed.user is not None or parsed.password is not None:
        raise ForbiddenUrl("a URL with credentials")
    return parsed


def _host(url: str) -> str:
    try:
        return URL(url).host or "?"
    except ValueError:
        return "?"
