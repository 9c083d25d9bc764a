"""One search: of a data folder, as the service would answer but without a socket; of a service by its URL."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from yarl import URL

from appview.access.subjects import Token
from appview.clock import now
from appview.errors import AppviewError, ConfigurationError, Unreachable
from appview.http.addresses import is_loopback
from appview.memory.pool import SpacePool
from appview.search.analysis import analysis_of
from appview.xrpc.context import Call, Context
from appview.xrpc.errors import ERRORS, InvalidRequest, ModelMismatch
from appview.xrpc.handlers import search_memories
from appview.xrpc.limits import Desk, Limits
from embedders.errors import EmbedderError
from embedders.select import open_embedder
from lexicons.catalog import garden
from lexicons.configs import Config
from lexicons.data import from_json
from lexicons.embeddings import encode_f16le, encode_query_vector, normalise
from lexicons.errors import InvalidRecord
from lexicons.ids import CONFIG, GET_SPACE_STATUS, SEARCH_MEMORIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.access.access import Access
    from appview.access.subjects import Subject
    from appview.control import Control
    from appview.settings import Settings
    from lexicons.syntax import Nsid

THREADS: Final = 2  # one search, and the opening of its file
SERVICE_SECONDS: Final = 30.0  # ours: for one answer of a service, whose own deadline is 10 s
MAX_ANSWER_BYTES: Final = 16 << 20  # ours: 50 memories at their longest, and all that is told of them
_ERRORS: Final = {error.name: error for error in ERRORS}


async def ask(
    settings: Settings, control: Control, access: Access, subject: Subject, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Answer `searchMemories` for a subject; raise `XrpcError` as the service does."""
    try:
        checked = garden().validate_params(SEARCH_MEMORIES, parameters)
    except InvalidRecord as error:
        raise InvalidRequest(str(error)) from None
    if isinstance(subject, Token) and (row := await control.tokens.named(subject.name)) is not None:
        subject = Token(row.name, row.id)  # what is kept for a caller is of the very token
    with ThreadPoolExecutor(THREADS) as executor:
        pool = SpacePool(settings.spaces_folder, executor, now, analyser=analysis_of(settings.language))
        context = Context.of(settings, control, access, pool, clock=now)
        context.embedder.start()
        try:
            return await search_memories.handle(
                Call(context, SEARCH_MEMORIES, subject, checked, Desk(Limits(now), ""))
            )
        finally:
            await context.searcher.close()
            await context.embedder.close()
            await pool.close()


async def ask_service(
    base: str,
    parameters: Mapping[str, Any],
    *,
    token: str | None,
    embedder: str | None,
    api_key: str | None = None,
) -> dict[str, Any]:
    """Ask the service at a URL; with an embedder, with a vector that is made here.

    Raises `XrpcError` for what the service refuses, `Unreachable`, `ConfigurationError` for a URL or embedder
    that cannot be used.
    """
    url = _service(base, with_token=token is not None)
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    timeout = aiohttp.ClientTimeout(total=SERVICE_SECONDS)
    async with aiohttp.ClientSession(
        headers=headers, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        given = dict(parameters)
        if embedder is not None and given.get("mode") != "keyword":
            status = await _query(session, url, GET_SPACE_STATUS, {"space": given["space"]})
            given |= await _vector(status, embedder, api_key, given["q"])
        return await _query(session, url, SEARCH_MEMORIES, given)


def _service(base: str, *, with_token: bool) -> URL:
    try:
        url = URL(base)
        host = url.host or ""
    except ValueError as error:
        raise ConfigurationError(f"{base[:80]!r} is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not host or url.user or url.query_string or url.fragment:
        raise ConfigurationError(
            f"{base[:80]!r} is not the URL of a service", hint="as https://engram.example"
        )
    if with_token and url.scheme == "http" and not is_loopback(host):
        raise ConfigurationError(
            "a token is not sent over an unprotected connection", hint="use https://, or leave the token out"
        )
    return url


async def _query(
    session: aiohttp.ClientSession, base: URL, method: Nsid, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    pairs = [
        (name, str(item).lower() if isinstance(item, bool) else str(item))
        for name, value in parameters.items()
        for item in (value if isinstance(value, list) else [value])
    ]
    url = (base / "xrpc" / method).with_query(pairs)
    try:
        # A redirect could lead the token astray.
        async with session.get(url, allow_redirects=False) as response:
            body = await response.content.read(MAX_ANSWER_BYTES + 1)
            while len(body) <= MAX_ANSWER_BYTES and (more := await response.content.read(1 << 16)):
                body += more
            status = response.status
    except (aiohttp.ClientError, TimeoutError) as error:
        reason = str(error) or "no answer in time"
        raise Unreachable(f"{base} cannot be asked: {reason}") from None
    return _read(base, method, status, body)


def _read(base: URL, method: Nsid, status: int, body: bytes) -> dict[str, Any]:
    try:
        if len(body) > MAX_ANSWER_BYTES:
            raise ValueError("the answer is too long")
        document = json.loads(body)
        if status == 200:
            garden().validate_output(method, from_json(document))
            answer: dict[str, Any] = document
            return answer
        name, message = str(document["error"]), str(document.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError, InvalidRecord) as error:
        raise Unreachable(f"{base} answers {status}, and not as an appview does: {error}"[:300]) from None
    kind = _ERRORS.get(name)
    if kind is None:
        raise AppviewError(f"{base} answers {status} {name[:80]}: {message[:500]}")
    refusal = kind.__new__(kind)  # the message is the service's own, hint included
    AppviewError.__init__(refusal, message[:500] or name)
    raise refusal


async def _vector(status: Mapping[str, Any], spec: str, api_key: str | None, words: str) -> dict[str, Any]:
    """Embed words for a space as its status tells; nothing where it has no model."""
    if "config" not in status or "active" not in status:
        return {}
    config = Config.from_record({"$type": CONFIG, **status["config"]})
    try:
        embedder = open_embedder(spec, api_key=api_key)
        try:
            key = await embedder.key()
            if key != config.model:
                raise ModelMismatch(
                    f"the embedder is {key}, the space is searched with {config.model}",
                    hint="leave --embedder out, or name the space's own model",
                )
            vector = encode_f16le(normalise(await embedder.embed_query(config.query_prefix + words)))
        finally:
            await embedder.close()
    except EmbedderError as error:
        raise ConfigurationError(f"embedder: {error}", hint=error.hint) from None
    return {"vector": encode_query_vector(vector), "model": key.model, "modelDigest": key.digest}
