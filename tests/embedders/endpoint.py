"""An endpoint that speaks OpenAI's embeddings and Ollama's tag list, with knobs to misbehave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

from lexicons.hashing import embed

if TYPE_CHECKING:
    from collections.abc import Callable

OLLAMA_DIGEST = "0a109f422b47e3a30ba2b10eca18548e944e8a23073ee3f3e947efcf3c45e59f"


class Endpoint:
    """Counts what it is asked. `spoil` changes an answer; `failures` are statuses given before it answers."""

    def __init__(self, *, dims: int = 16, ollama: bool = True) -> None:
        self.dims = dims
        self.ollama = ollama
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.failures: list[tuple[int, dict[str, str]]] = []
        self.spoil: Callable[[dict[str, Any]], Any] = lambda answer: answer
        app = web.Application()
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_get("/api/tags", self._tags)
        self._server = TestServer(app, host="127.0.0.1")

    async def __aenter__(self) -> Self:
        await self._server.start_server()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}/v1"

    async def _embeddings(self, request: web.Request) -> web.Response:
        if self.failures:
            status, headers = self.failures.pop(0)
            return web.json_response({"error": {"message": "not now"}}, status=status, headers=headers)
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        dims = body.get("dimensions", self.dims)
        data = [
            {"object": "embedding", "index": index, "embedding": list(embed(text, dims))}
            for index, text in enumerate(body["input"])
        ]
        data.reverse()  # an endpoint may answer in any order
        return web.json_response(self.spoil({"object": "list", "data": data}))

    async def _tags(self, request: web.Request) -> web.Response:
        if not self.ollama:
            raise web.HTTPNotFound
        listed = [
            {"name": "other:latest", "digest": "f" * 64},
            {"name": "nomic-embed-text:latest", "digest": OLLAMA_DIGEST},
            {"name": "broken:latest", "digest": "abc"},
        ]
        return web.json_response({"models": listed})
