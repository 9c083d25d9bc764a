"""A PDS and directory in this process that misbehaves on command: what the real ones are too well-kept for.

It keeps records in memory and commits as a PDS does (rev, CID of the DAG-CBOR). `faults` of a method are used
up one a call, before it succeeds again.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

from lexicons.data import cid_of, cid_text, encode, from_json, to_json
from publisher.tids import TidClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DID = "did:plc:fakefakefakefakefakefake"
HANDLE = "fake.test"
PASSWORD = "correct horse"


@dataclass(frozen=True, slots=True)
class Fault:
    """`answer`: this status instead; `lose`: the connection breaks before the work, or after it is done."""

    status: int = 0
    error: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    lose: Literal["", "before", "after"] = ""
    body: bytes | None = None


class FakePds:
    """One account on one PDS, with a directory that knows it."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], tuple[str, Any]] = {}
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.meanwhile: dict[str, Callable[[], None]] = {}  # what happens as a call of that name arrives
        self.calls: list[str] = []
        self.batches: list[int] = []
        self.headers: dict[str, str] = {}
        self.endpoint: str | None = None
        self.refused_texts: set[str] = set()
        self.body_limit = 150 * 1024
        self.token_seconds = 7200
        self.generation = 0
        self.valid: set[str] = set()
        self._tids = TidClock()
        self.rev = str(self._tids.next())
        app = web.Application(client_max_size=10_000_000)
        app.router.add_route("*", "/xrpc/{method}", self._handle)
        app.router.add_get(f"/{DID}", self._document)
        self._server = TestServer(app, host="127.0.0.1")

    async def __aenter__(self) -> Self:
        await self._server.start_server()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def texts(self) -> list[str]:
        return [value["text"] for _, value in self.records.values() if "text" in value]

    def count(self, name: str) -> int:
        return sum(call.endswith(name) for call in self.calls)

    async def _document(self, request: web.Request) -> web.Response:
        return web.json_response(self._did_document())

    def _did_document(self) -> dict[str, Any]:
        service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
        service["serviceEndpoint"] = self.endpoint or self.url
        return {"id": DID, "alsoKnownAs": [f"at://{HANDLE}"], "service": [service]}

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.calls.append(method)
        short = method.rsplit(".", 1)[1]
        waiting = self.faults[short]
        fault = waiting.pop(0) if waiting else Fault()
        raw = await request.read()
        self.meanwhile.get(short, lambda: None)()
        if fault.lose == "before":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault.body is not None:
            return web.Response(body=fault.body, content_type="application/json")
        if fault.status:
            problem = {"error": fault.error or "Fault", "message": "told to"}
            return web.json_response(problem, status=fault.status, headers=dict(fault.headers))
        if len(raw) > self.body_limit:
            return web.json_response({"error": "PayloadTooLarge", "message": "too large"}, status=413)
        try:
            answer = getattr(self, f"_{short}")(request, json.loads(raw) if raw else dict(request.query))
        except Refusal as refusal:
            problem = {"error": refusal.name, "message": "refused"}
            return web.json_response(problem, status=refusal.status)
        if fault.lose == "after":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.json_response(answer, headers=self.headers)

    def _session(self) -> dict[str, Any]:
        self.generation += 1
        tokens = {
            name: _jwt(name, self.generation, time.time() + seconds)
            for name, seconds in (("accessJwt", self.token_seconds), ("refreshJwt", 90 * 86_400))
        }
        self.valid = set(tokens.values())
        document = {} if self.endpoint is None else {"didDoc": self._did_document()}
        return {"did": DID, "handle": HANDLE, "active": True, **tokens, **document}

    def _authorised(self, request: web.Request) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            raise Refusal("AuthMissing", 401)
        if token not in self.valid:
            raise Refusal("ExpiredToken", 400)

    def _createSession(self, request: web.Request, body: dict[str, Any]) -> Any:
        if body["identifier"] not in (DID, HANDLE) or body["password"] != PASSWORD:
            raise Refusal("AuthenticationRequired", 401)
        return self._session()

    def _refreshSession(self, request: web.Request, body: dict[str, Any]) -> Any:
        self._authorised(request)
        return self._session()

    def _getSession(self, request: web.Request, body: dict[str, Any]) -> Any:
        self._authorised(request)
        return {"did": DID, "handle": HANDLE}

    def _deleteSession(self, request: web.Request, body: dict[str, Any]) -> Any:
        self._authorised(request)
        self.valid = set()
        return {}

    def _getRecord(self, request: web.Request, body: dict[str, Any]) -> Any:
        found = self.records.get((body["collection"], body["rkey"]))
        if found is None:
            raise Refusal("RecordNotFound", 400)
        return {"uri": _uri(body), "cid": found[0], "value": to_json(found[1])}

    def _getLatestCommit(self, request: web.Request, body: dict[str, Any]) -> Any:
        return {"cid": self._head(), "rev": self.rev}

    def _listRecords(self, request: web.Request, body: dict[str, Any]) -> Any:
        keys = sorted((key for name, key in self.records if name == body["collection"]), reverse=True)
        keys = [key for key in keys if key < body.get("cursor", "~")][: int(body["limit"])]
        places = [{"collection": body["collection"], "rkey": key} for key in keys]
        records = [self._getRecord(request, place) for place in places]
        return {"records": records, **({"cursor": keys[-1]} if keys else {})}

    def _createRecord(self, request: web.Request, body: dict[str, Any]) -> Any:
        self._authorised(request)
        if (body["collection"], body["rkey"]) in self.records:
            raise Refusal("InternalServerError", 500)  # as the official PDS answers
        return {**self._put(body, body["record"]), "commit": self._commit()}

    def _putRecord(self, request: web.Request, body: dict[str, Any]) -> Any:
        self._authorised(request)
        found = self.records.get((body["collection"], body["rkey"]))
        if "swapRecord" in body and body["swapRecord"] != (found[0] if found else None):
            raise Refusal("InvalidSwap", 400)
        return {**self._put(body, body["record"]), "commit": self._commit()}

    def _deleteRecord(self, request: web.Request, body: dict[str, Any]) -> Any:
        self._authorised(request)
        found = self.records.get((body["collection"], body["rkey"]))
        if found is None:
            return {}
        if body.get("swapRecord", found[0]) != found[0]:
            raise Refusal("InvalidSwap", 400)
        del self.records[body["collection"], body["rkey"]]
        return {"commit": self._commit()}

    def _applyWrites(self, request: web.Request, body: dict[str, Any]) -> Any:
        self._authorised(request)
        writes = body["writes"]
        if len(writes) > 200:
            raise Refusal("InvalidRequest", 400)
        if body.get("swapCommit", self._head()) != self._head():
            raise Refusal("InvalidSwap", 400)
        if any(
            ((write["collection"], write["rkey"]) in self.records) != write["$type"].endswith("#update")
            for write in writes
        ):
            raise Refusal("InternalServerError", 500)
        if any(write["value"]["text"] in self.refused_texts for write in writes):
            raise Refusal("InvalidRequest", 400)
        self.batches.append(len(writes))
        results = [self._put(write, write["value"]) for write in writes]
        return {"commit": self._commit(), "results": results}

    def _put(self, place: dict[str, Any], record: Any) -> dict[str, Any]:
        value = from_json(record)
        if value.get("text") in self.refused_texts:
            raise Refusal("InvalidRequest", 400)
        cid = cid_text(cid_of(encode(value)))
        self.records[place["collection"], place["rkey"]] = (cid, value)
        return {"uri": _uri(place), "cid": cid}

    def _commit(self) -> dict[str, str]:
        self.rev = str(self._tids.next())
        return {"cid": self._head(), "rev": self.rev}

    def _head(self) -> str:
        return cid_text(cid_of(encode({"rev": self.rev})))


class Refusal(Exception):
    """An XRPC error."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(name)
        self.name = name
        self.status = status


def _uri(place: Mapping[str, Any]) -> str:
    return f"at://{DID}/{place['collection']}/{place['rkey']}"


def _jwt(kind: str, generation: int, expires: float) -> str:
    parts: list[dict[str, Any]] = [
        {"alg": "none", "typ": "JWT"},
        {"sub": DID, "scope": kind, "jti": str(generation), "exp": int(expires)},
    ]
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, urlsafe_b64encode(b"signature").decode().rstrip("=")])
