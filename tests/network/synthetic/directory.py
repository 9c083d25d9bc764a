"""A PLC directory on loopback: `GET /{did}`, with rotation, moves, failures and hostile documents."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.network.synthetic.serving import Serving

if TYPE_CHECKING:
    from tests.network.synthetic.repos import Account


class Directory(Serving):
    """Answers with each account's present document. Knobs: `override`, `fail_with`, `delay`, `gone`."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: dict[str, Account] = {}
        self.override: dict[str, Any] = {}  # DID -> a document, or raw bytes, to answer instead
        self.fail_with: int | None = None  # answer everything with this status
        self.delay = 0.0  # seconds before each answer
        self.gone: set[str] = set()  # DIDs that are tombstoned: 410
        self.requests: Counter[str] = Counter()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/_health", self._health), web.get("/{did}", self._document)]

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": "synthetic"})

    async def _document(self, request: web.Request) -> web.Response:
        did = request.match_info["did"]
        self.requests[did] += 1
        await asyncio.sleep(self.delay)
        if self.fail_with is not None:
            return web.json_response({"message": "failing on request"}, status=self.fail_with)
        if did in self.override:
            answer = self.override[did]
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            return web.Response(body=body, content_type="application/did+ld+json")
        if did in self.gone:
            return web.json_response({"message": f"DID not available: {did}"}, status=410)
        account = self.accounts.get(did)
        if account is None:
            return web.json_response({"message": f"DID not registered: {did}"}, status=404)
        return web.json_response(account.document(), content_type="application/did+ld+json")
