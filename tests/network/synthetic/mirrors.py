"""Jetstream and Tap on loopback, as far as a consumer sees them. Both read the firehoses of a network.

`jetstream.read(frame)` and `tap.read(frame)` take a message of any firehose, an official one's too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from base64 import b64encode
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cbrrr
from aiohttp import WSMsgType, web

from tests.network.synthetic.blocks import CID, cid_text, read_car, read_frame, to_json
from tests.network.synthetic.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.network.synthetic.network import Network
    from tests.network.synthetic.repos import Account


def _operations(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Read a commit's operations, with their records as JSON."""
    blocks = read_car(body["blocks"])
    operations = []
    for op in body["ops"]:
        collection, _, rkey = op["path"].partition("/")
        operation = {
            "rev": body["rev"],
            "operation": op["action"],
            "collection": collection,
            "rkey": rkey,
        }
        if isinstance(op["cid"], CID):
            cid = bytes(op["cid"])
            operation["cid"] = cid_text(cid)
            with contextlib.suppress(Exception):  # a record that is not in order
                operation["record"] = to_json(cbrrr.decode_dag_cbor(blocks[cid]))
        operations.append(operation)
    return operations


class Jetstream(Serving):
    """`/subscribe?wantedCollections=...&cursor=<microseconds>`, from the cursor on, that moment included."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[int, str | None, str]] = []  # time, collection, JSON
        self.cursors: list[int | None] = []  # of each connection made
        self.wanted: list[list[str]] = []
        self._open: set[web.WebSocketResponse] = set()
        self._news = asyncio.Event()

    def follow(self, network: Network) -> None:
        """Read the firehose of every PDS, from its start."""
        for pds in network.pds:
            for _, frame in pds.firehose.frames:
                self.read(frame)
            pds.firehose.listeners.append(self.read)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/subscribe", self._serve)]

    def read(self, frame: bytes) -> None:
        """Take a message of a firehose."""
        header, body = read_frame(frame)
        kind = header.get("t")
        if kind == "#commit":
            for operation in _operations(body):
                self.say({"did": body["repo"], "kind": "commit", "commit": operation})
        elif kind in ("#identity", "#account"):
            name = kind[1:]
            self.say({"did": body["did"], "kind": name, name: to_json(body)})

    def say(self, message: dict[str, Any], time_us: int | None = None) -> int:
        """Send a message; give its time."""
        last = self.messages[-1][0] if self.messages else 0
        at = max(last + 1, time.time_ns() // 1_000) if time_us is None else time_us
        collection = message["commit"]["collection"] if message.get("kind") == "commit" else None
        self.messages.append((at, collection, json.dumps({"time_us": at, **message})))
        self._news.set()
        self._news = asyncio.Event()
        return at

    def say_text(self, text: str) -> None:
        """Send anything."""
        self.messages.append((self.messages[-1][0] if self.messages else 0, None, text))
        self._news.set()
        self._news = asyncio.Event()

    async def close_connections(self) -> None:
        """Close every open connection."""
        for socket in list(self._open):
            await socket.close(code=1001)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = request.query.get("cursor")
        cursor = int(raw) if raw is not None else None
        wanted = request.query.getall("wantedCollections", [])
        self.cursors.append(cursor)
        self.wanted.append(wanted)
        socket = web.WebSocketResponse(max_msg_size=1000)
        await socket.prepare(request)
        self._open.add(socket)
        reader = asyncio.create_task(_drain(socket))
        at = len(self.messages) if cursor is None else 0
        try:
            while not reader.done() and not socket.closed:
                news = self._news
                for moment, collection, text in self.messages[at:]:
                    at += 1
                    if cursor is not None and moment < cursor:
                        continue
                    if collection is None or not wanted or collection in wanted:
                        await socket.send_str(text)
                waiter = asyncio.ensure_future(news.wait())
                await asyncio.wait({waiter, reader}, return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
        except ConnectionError:
            pass
        finally:
            self._open.discard(socket)
            reader.cancel()
        return socket


@dataclass(slots=True)
class _Outbox:
    """The messages of one account: the first one, if live, is alone on its way."""

    waiting: deque[dict[str, Any]] = field(default_factory=deque)
    sent: set[int] = field(default_factory=set)


class Tap(Serving):
    """`/channel` and `POST /repos/add`: accounts are followed once they were added, their records first, and
    what is not acknowledged is sent again on the next connection."""

    def __init__(self, network: Network | None = None, *, password: str | None = None) -> None:
        super().__init__()
        self.password = password
        self.added: set[str] = set()
        self.acknowledged: list[int] = []
        self.on_acknowledged: Callable[[dict[str, Any]], None] = lambda _message: None
        self.refused = 0
        self._accounts: Callable[[str], Account | None] = lambda _did: None
        self._outboxes: dict[str, _Outbox] = {}
        self._ids = itertools.count(1)
        self._open: set[web.WebSocketResponse] = set()
        self._news = asyncio.Event()
        if network is not None:
            self.follow(network)

    def follow(self, network: Network) -> None:
        """Read the firehose of every PDS."""

        def find(did: str) -> Account | None:
            return next((pds.accounts[did] for pds in network.pds if did in pds.accounts), None)

        self._accounts = find
        for pds in network.pds:
            pds.firehose.listeners.append(self.read)

    def forget(self) -> None:
        """Lose what is to be sent, and count from one again."""
        self._outboxes.clear()
        self._ids = itertools.count(1)

    @property
    def unacknowledged(self) -> int:
        """How many messages are not acknowledged yet."""
        return sum(len(outbox.waiting) for outbox in self._outboxes.values())

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/channel", self._serve), web.post("/repos/add", self._add)]

    def read(self, frame: bytes) -> None:
        """Take a message of a firehose."""
        header, body = read_frame(frame)
        kind = header.get("t")
        did = body.get("repo") or body.get("did")
        if did not in self.added:
            return
        if kind == "#commit":
            for operation in _operations(body):
                self._record(did, operation, live=True)
        elif kind in ("#identity", "#account"):
            account = self._accounts(did)
            active, status = body.get("active", True), body.get("status", "active")
            if kind == "#identity" and account is not None:
                active, status = account.active, account.status or "active"
            identity = {"did": did, "handle": "", "is_active": active, "status": status}
            self.say({"type": "identity", "identity": identity}, did)

    def say(self, message: dict[str, Any], did: str) -> int:
        """Put a message into an account's outbox; give its number."""
        number = next(self._ids)
        self._outboxes.setdefault(did, _Outbox()).waiting.append({"id": number, **message})
        self._wake()
        return number

    async def close_connections(self) -> None:
        """Close every open connection."""
        for socket in list(self._open):
            await socket.close(code=1001)

    def _record(self, did: str, operation: dict[str, Any], *, live: bool) -> None:
        record = {"live": live, "did": did, "action": operation.pop("operation"), **operation}
        self.say({"type": "record", "record": record}, did)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _is_refused(self, request: web.Request) -> bool:
        if self.password is None:
            return False
        expected = "Basic " + b64encode(f"admin:{self.password}".encode()).decode()
        refused = request.headers.get("Authorization") != expected
        self.refused += refused
        return refused

    async def _add(self, request: web.Request) -> web.Response:
        if self._is_refused(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        for did in (await request.json())["dids"]:
            if did not in self.added:
                self.added.add(did)
                self._send_all(did)
        return web.Response()

    def _send_all(self, did: str) -> None:
        account = self._accounts(did)
        if account is None or account.rev is None:
            return
        for path, cid in account.records.items():
            collection, _, rkey = path.partition("/")
            operation = {
                "rev": account.rev,
                "operation": "create",
                "collection": collection,
                "rkey": rkey,
                "cid": cid_text(cid),
            }
            with contextlib.suppress(Exception):
                operation["record"] = to_json(cbrrr.decode_dag_cbor(account.record_blocks[cid]))
            self._record(did, operation, live=False)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self._is_refused(request):
            return web.json_response({"error": "Unauthorized"}, status=401)
        socket = web.WebSocketResponse(max_msg_size=1000)
        await socket.prepare(request)
        for outbox in self._outboxes.values():
            outbox.sent.clear()
        self._open.add(socket)
        reader = asyncio.create_task(self._acknowledgements(socket))
        try:
            while not reader.done() and not socket.closed:
                news = self._news
                for outbox in list(self._outboxes.values()):
                    await self._send(socket, outbox)
                waiter = asyncio.ensure_future(news.wait())
                await asyncio.wait({waiter, reader}, return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
        except ConnectionError:
            pass
        finally:
            self._open.discard(socket)
            reader.cancel()
        return socket

    async def _send(self, socket: web.WebSocketResponse, outbox: _Outbox) -> None:
        for message in list(outbox.waiting):
            live = message.get("record", {}).get("live", True)
            if message["id"] not in outbox.sent:
                if live and outbox.sent:
                    return
                outbox.sent.add(message["id"])
                await socket.send_str(json.dumps(message))
            if live:
                return

    async def _acknowledgements(self, socket: web.WebSocketResponse) -> None:
        async for answer in socket:
            if answer.type is not WSMsgType.TEXT:
                return
            body = answer.json()
            assert body["type"] == "ack"
            for outbox in self._outboxes.values():
                for message in outbox.waiting:
                    if message["id"] == body["id"]:
                        outbox.waiting.remove(message)
                        outbox.sent.discard(message["id"])
                        self.acknowledged.append(body["id"])
                        self.on_acknowledged(message)
                        break
            self._wake()


async def _drain(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        if message.type is WSMsgType.ERROR:
            return
