"""Models behind an endpoint that speaks OpenAI's `POST <base URL>/embeddings`.

The digest is what the user sets; where it is left out the endpoint must be an Ollama, whose tag list has it.
Answers are data from the network: counted, measured and checked before they are vectors.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from typing import TYPE_CHECKING, Any, Final

import httpx

from embedders.errors import BadAnswer, EmbedderBusy, ModelUnavailable
from lexicons.errors import InvalidRecord
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from embedders.spec import OpenAISpec

BATCH: Final = 64  # texts a request; every known endpoint takes more
MAX_BATCH_CHARACTERS: Final = 400_000  # ours: keeps a request under a few hundred thousand tokens
MAX_ANSWER_BYTES: Final = 64_000_000  # ours: 64 vectors of 16,000 dims are about 20 MB of JSON
MAX_NUMBER: Final = 1e30  # ours: such a vector still has a finite length
TIMEOUT_SECONDS: Final = 120.0  # a local endpoint loads its model on the first request
CONNECT_SECONDS: Final = 10.0
ATTEMPTS: Final = 4
MAX_WAIT_SECONDS: Final = 30.0  # longer than this is the caller's to decide
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_HEX_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class OpenAIEmbedder:
    """One model of one endpoint."""

    def __init__(
        self,
        spec: OpenAISpec,
        *,
        api_key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        url = httpx.URL(spec.base_url)
        if api_key and url.scheme != "https" and url.host not in _LOOPBACK:
            raise ModelUnavailable(
                "an API key is not sent over plain http to another machine", "use https, or leave the key out"
            )
        self._spec = spec
        self._sleep = sleep
        self._lock = asyncio.Lock()
        self._key: ModelKey | None = None
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
            transport=transport,
            trust_env=url.host not in _LOOPBACK,
        )

    async def key(self) -> ModelKey:
        """Ask for the digest and the width, once, and identify the model."""
        async with self._lock:
            if self._key is None:
                digest = self._spec.digest or await self._ollama_digest()
                probe = await self._request(["dims"])
                try:
                    self._key = ModelKey(self._spec.model, digest, len(probe[0]))
                except InvalidRecord as error:
                    raise ModelUnavailable(f"{self._spec} cannot name a model: {error}") from None
            return self._key

    async def embed_documents(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Embed texts, in their order."""
        key = await self.key()
        vectors: list[tuple[float, ...]] = []
        for batch in _batches(texts):
            vectors += await self._request(batch, key.dims)
        return vectors

    async def embed_query(self, text: str) -> tuple[float, ...]:
        """Embed one text."""
        return (await self.embed_documents([text]))[0]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _request(self, texts: Sequence[str], dims: int | None = None) -> list[tuple[float, ...]]:
        body: dict[str, Any] = {"model": self._spec.model, "input": list(texts), "encoding_format": "float"}
        if self._spec.dims is not None:
            body["dimensions"] = self._spec.dims
        answer = await self._call("POST", f"{self._spec.base_url}/embeddings", body)
        expected = dims or self._spec.dims
        return _vectors(answer, len(texts), expected, str(self._spec))

    async def _ollama_digest(self) -> str:
        root = self._spec.base_url.removesuffix("/v1")
        hint = f"set the digest, as in {self._spec};digest=<what identifies the model's version>"
        try:
            answer = await self._call("GET", f"{root}/api/tags")
        except (ModelUnavailable, BadAnswer) as error:
            raise ModelUnavailable(f"{self._spec.base_url} does not say the model's digest", hint) from error
        listed = answer.get("models") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise ModelUnavailable(f"{self._spec.base_url} does not say the model's digest", hint)
        wanted = {self._spec.model, f"{self._spec.model}:latest"}
        for each in listed:
            if isinstance(each, dict) and each.get("name") in wanted:
                digest = str(each.get("digest", "")).removeprefix("sha256:")
                if not _HEX_DIGEST.fullmatch(digest):
                    raise ModelUnavailable(f"{root} gives {self._spec.model} no SHA-256 digest", hint)
                return f"sha256:{digest}"
        raise ModelUnavailable(f"{root} has no model {self._spec.model!r}", f"ollama pull {self._spec.model}")

    async def _call(self, method: str, url: str, body: dict[str, Any] | None = None) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._call_once(method, url, body)
            except _Wait as wait:
                # Full jitter, but never earlier than the endpoint asked for.
                backoff = random.uniform(0, min(MAX_WAIT_SECONDS, 2**attempt / 2))  # noqa: S311
                pause = max(wait.seconds, backoff)
                if attempt == ATTEMPTS or pause > MAX_WAIT_SECONDS:
                    raise EmbedderBusy(f"{url}: {wait.reason}", "try again later") from wait.__cause__
                await self._sleep(pause)
        raise AssertionError("unreachable")

    async def _call_once(self, method: str, url: str, body: dict[str, Any] | None) -> Any:
        try:
            async with self._client.stream(method, url, json=body) as response:
                content = bytearray()
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > MAX_ANSWER_BYTES:
                        raise BadAnswer(f"{url}: an answer of more than {MAX_ANSWER_BYTES} bytes")
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _Wait(0, f"cannot be reached: {error or type(error).__name__}") from error
        status = response.status_code
        if status in (408, 429) or status >= 500:
            raise _Wait(_retry_after(response), f"answers {status}: {_message(content)}")
        if status != 200:
            hint = "set ENGRAM_EMBEDDER_API_KEY" if status in (401, 403) else ""
            raise ModelUnavailable(f"{url} answers {status}: {_message(content)}", hint)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise BadAnswer(f"{url}: the answer is not JSON") from None


class _Wait(Exception):
    """The endpoint may answer later; `seconds` is what it asked for."""

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(reason)
        self.seconds = seconds
        self.reason = reason


def _batches(texts: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    size = 0
    for text in texts:
        if not batches or len(batches[-1]) == BATCH or size + len(text) > MAX_BATCH_CHARACTERS:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += len(text)
    return batches


def _vectors(answer: Any, count: int, dims: int | None, name: str) -> list[tuple[float, ...]]:
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or len(data) != count:
        raise BadAnswer(f"{name}: expected {count} vectors")
    vectors: list[tuple[float, ...] | None] = [None] * count
    for place, each in enumerate(data):
        index = each.get("index", place) if isinstance(each, dict) else None
        numbers = each.get("embedding") if isinstance(each, dict) else None
        if not isinstance(index, int) or not 0 <= index < count or vectors[index] is not None:
            raise BadAnswer(f"{name}: the vectors are not numbered 0 to {count - 1}")
        if not isinstance(numbers, list) or not numbers or not all(map(_is_number, numbers)):
            raise BadAnswer(f"{name}: vector {index} is not a list of finite numbers")
        if dims is not None and len(numbers) != dims:
            raise BadAnswer(f"{name}: vector {index} has {len(numbers)} dimensions, expected {dims}")
        vectors[index] = tuple(map(float, numbers))
    return [vector for vector in vectors if vector is not None]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_NUMBER


def _retry_after(response: httpx.Response) -> float:
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isascii() and asked.isdigit() else 0.0


def _message(content: bytes | bytearray) -> str:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return bytes(content[:200]).decode(errors="replace")
    error = value.get("error", value) if isinstance(value, dict) else value
    text = error.get("message", error) if isinstance(error, dict) else error
    return str(text)[:200]
