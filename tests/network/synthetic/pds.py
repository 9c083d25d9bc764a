"""A PDS (or relay) on loopback: its firehose, repos and records, with knobs for what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from tests.network.synthetic.blocks import cid_text
from tests.network.synthetic.repos import Account, error_frame, info_frame
from tests.network.synthetic.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.network.synthetic.keys import SigningKey

FUTURE_CURSOR = "FutureCursor"
CONSUMER_TOO_SLOW = "ConsumerTooSlow"
OUTDATED_CURSOR = "OutdatedCursor"


class Firehose:
    """Frames in order of seq, kept for replay."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.seq = 0
        self.stalled = False  # connected, silent
        self.refusing = False  # 503 to new connections
        self.send_rate_limit: int | None = None  # close after so many frames on one connection
        self.outdated_below = 0  # a cursor below this gets #info OutdatedCursor first
        self.connections: list[int | None] = []  # the cursor of each connection made
        self.listeners: list[Callable[[bytes], None]] = []  # told of every frame at once
        self._open: set[web.WebSocketResponse] = set()
        self._news = asyncio.Event()

    def next_seq(self) -> int:
        """Take the next seq."""
        self.seq += 1
        return self.seq

    def push(self, frame: bytes, seq: int | None = None) -> int:
        """Send a frame to everyone, now and on replay. Without `seq` the last one taken counts."""
        seq = self.seq if seq is None else seq
        self.seq = max(self.seq, seq)
        self.frames.append((seq, frame))
        for listener in self.listeners:
            listener(frame)
        self._wake()
        return seq

    def skip(self, count: int) -> None:
        """Leave a gap in the seqs."""
        self.seq += count

    def reset(self, seq: int = 0) -> None:
        """Forget everything, as a relay that lost its disk: later cursors are in the future."""
        self.frames.clear()
        self.seq = seq
        self._wake()

    def forget_below(self, seq: int) -> None:
        """Drop old frames; a cursor among them is outdated."""
        self.frames = [(number, frame) for number, frame in self.frames if number >= seq]
        self.outdated_below = seq
        self._wake()

    def stall(self, stalled: bool = True) -> None:
        """Stop sending without closing, or go on."""
        self.stalled = stalled
        self._wake()

    async def close_connections(self, code: int = 1001) -> None:
        """Close every open connection."""
        for socket in list(self._open):
            with contextlib.suppress(ConnectionError):
                await socket.close(code=code)

    async def fail_connections(self, error: str) -> None:
        """Send an error frame on every open connection and close it."""
        for socket in list(self._open):
            with contextlib.suppress(ConnectionError):
                await socket.send_bytes(error_frame(error, "on request"))
                await socket.close()

    @property
    def subscribers(self) -> int:
        """How many are connected."""
        return len(self._open)

    async def until_subscribers(self, count: int, seconds: float = 5) -> None:
        """Wait until exactly so many are connected."""
        async with asyncio.timeout(seconds):
            while len(self._open) != count:
                await self._news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one subscription."""
        raw = request.query.get("cursor")
        cursor = int(raw) if raw is not None else None
        self.connections.append(cursor)
        if self.refusing:
            return web.json_response({"error": "Unavailable"}, status=503)
        socket = web.WebSocketResponse(max_msg_size=1000)
        await socket.prepare(request)
        if cursor is not None and cursor > self.seq:
            await socket.send_bytes(error_frame(FUTURE_CURSOR, "Cursor in the future."))
            await socket.close()
            return socket
        if cursor is not None and cursor < self.outdated_below:
            await socket.send_bytes(info_frame(OUTDATED_CURSOR, "Requested cursor exceeded limit."))
        self._open.add(socket)
        self._wake()
        reader = asyncio.create_task(_drain(socket))
        try:
            await self._pump(socket, reader, self.seq if cursor is None else cursor)
        except ConnectionError:
            pass
        finally:
            self._open.discard(socket)
            self._wake()
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        return socket

    async def _pump(self, socket: web.WebSocketResponse, reader: asyncio.Task[None], last: int) -> None:
        frames = self.frames
        at = next((index for index, (seq, _) in enumerate(frames) if seq > last), len(frames))
        sent = 0
        while not reader.done() and not socket.closed:
            news = self._news
            if frames is not self.frames or at > len(frames):  # history was cut or reset
                frames, at = self.frames, 0
                at = next((index for index, (seq, _) in enumerate(frames) if seq > last), len(frames))
            while at < len(frames) and not self.stalled and not socket.closed:
                last, frame = frames[at]
                at += 1
                await socket.send_bytes(frame)
                sent += 1
                if self.send_rate_limit is not None and sent >= self.send_rate_limit:
                    await socket.close()
                    return
            waiter = asyncio.ensure_future(news.wait())
            await asyncio.wait({waiter, reader}, return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()


async def _drain(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        if message.type is WSMsgType.ERROR:
            return


class Pds(Serving):
    """Hosts accounts. Writes go into the repo and onto the firehose in one step."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: dict[str, Account] = {}
        self.firehose = Firehose()
        self.requests: Counter[str] = Counter()
        self.fail_with: int | None = None  # answer every method but the firehose with this status
        self.retry_after: str | None = None  # sent with `fail_with`
        self.answers: int | None = None  # how many requests for repos are answered before all fail
        self.export: dict[str, bytes] = {}  # DID -> what getRepo answers instead
        self.proofs: dict[str, list[bytes]] = {}  # DID -> what getRecord answers instead, one after another
        self.gate: asyncio.Event | None = None  # getRepo sends what it read before once this is set
        self.declared_bytes: int | None = None  # what getRepo says that it will send
        self.trickling: dict[str, float] = {}  # DID -> getRepo sends one byte in so many seconds
        self.page_size = 500
        self.lacking: set[str] = set()  # methods that this server does not have

    def host(self, account: Account) -> Account:
        """Take an account in; its document names this PDS."""
        account.pds = self.url
        self.accounts[account.did] = account
        return account

    def account(self, handle: str | None = None, *, key: SigningKey | None = None) -> Account:
        """Make an account here."""
        return self.host(Account(handle, key=key))

    def routes(self) -> list[web.RouteDef]:
        sync = "/xrpc/com.atproto.sync."
        return [
            web.get(sync + "subscribeRepos", self.firehose.serve),
            web.get(sync + "getRepo", self._get_repo),
            web.get(sync + "getRecord", self._get_record),
            web.get(sync + "getLatestCommit", self._get_latest_commit),
            web.get(sync + "getRepoStatus", self._get_repo_status),
            web.get(sync + "listRepos", self._list_repos),
            web.get(sync + "listReposByCollection", self._list_repos_by_collection),
            web.get("/xrpc/com.atproto.identity.resolveHandle", self._resolve_handle),
            web.get("/xrpc/com.atproto.repo.getRecord", self._get_plain_record),
        ]

    def _refusal(self, request: web.Request, did: str | None = None) -> web.Response | None:
        method = request.path.rsplit("/", 1)[1]
        self.requests[method] += 1
        if method in self.lacking:
            error = {"error": "MethodNotImplemented", "message": "Method Not Implemented"}
            return web.json_response(error, status=501)
        if self.fail_with is not None:
            headers = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
            return web.json_response({"error": "Failing"}, status=self.fail_with, headers=headers)
        if did is None:
            return None
        account = self.accounts.get(did)
        if account is None:
            return _error("RepoNotFound", f"Could not find repo for DID: {did}")
        if not account.active:
            name = {"takendown": "RepoTakendown", "suspended": "RepoSuspended"}.get(
                account.status or "", "RepoDeactivated"
            )
            return _error(name, f"Repo is not active: {did}")
        return None

    async def _get_repo(self, request: web.Request) -> web.StreamResponse:
        did = request.query.get("did", "")
        if self.answers is not None:
            self.answers -= 1
            self.fail_with = 500 if self.answers < 0 else self.fail_with
        refusal = self._refusal(request, did)
        body = b""
        if refusal is None:
            body = self.export[did] if did in self.export else self.accounts[did].export()
        if self.gate is not None:
            await self.gate.wait()
        if refusal is not None:
            return refusal
        response = web.StreamResponse(headers={"Content-Type": "application/vnd.ipld.car"})
        if self.declared_bytes is not None:
            response.content_length = self.declared_bytes
        await response.prepare(request)
        step, pause = (1, self.trickling[did]) if did in self.trickling else (65_536, 0.0)
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(body), step):
                if pause:
                    await asyncio.sleep(pause)
                await response.write(body[start : start + step])
            await response.write_eof()
        return response

    async def _get_record(self, request: web.Request) -> web.Response:
        did = request.query.get("did", "")
        refusal = self._refusal(request, did)
        if refusal is not None:
            return refusal
        path = f"{request.query.get('collection', '')}/{request.query.get('rkey', '')}"
        account = self.accounts[did]
        if account.head is None:
            return _error("RepoNotFound", "empty")
        proof = self.proofs[did].pop(0) if self.proofs.get(did) else account.record_proof(path)
        return web.Response(body=proof, content_type="application/vnd.ipld.car")

    async def _get_plain_record(self, request: web.Request) -> web.Response:
        did = request.query.get("repo", "")
        refusal = self._refusal(request, did)
        if refusal is not None:
            return refusal
        path = f"{request.query.get('collection', '')}/{request.query.get('rkey', '')}"
        cid = self.accounts[did].records.get(path)
        if cid is None:
            return _error("RecordNotFound", f"Could not locate record: {path}")
        return web.json_response({"uri": f"at://{did}/{path}", "cid": cid_text(cid), "value": {}})

    async def _get_latest_commit(self, request: web.Request) -> web.Response:
        did = request.query.get("did", "")
        refusal = self._refusal(request, did)
        if refusal is not None:
            return refusal
        head = self.accounts[did].head
        if head is None:
            return _error("RepoNotFound", "empty")
        return web.json_response({"cid": cid_text(head[0]), "rev": self.accounts[did].rev})

    async def _get_repo_status(self, request: web.Request) -> web.Response:
        did = request.query.get("did", "")
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        account = self.accounts.get(did)
        if account is None:
            return _error("RepoNotFound", f"Could not find repo for DID: {did}")
        return web.json_response(_status(account))

    async def _list_repos(self, request: web.Request) -> web.Response:
        return self._page(request, list(self.accounts.values()))

    async def _list_repos_by_collection(self, request: web.Request) -> web.Response:
        prefix = request.query.get("collection", "") + "/"
        chosen = [a for a in self.accounts.values() if any(path.startswith(prefix) for path in a.records)]
        return self._page(request, chosen)

    def _page(self, request: web.Request, accounts: list[Account]) -> web.Response:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        start = int(request.query.get("cursor", "0"))
        limit = min(int(request.query.get("limit", "500")), self.page_size)
        answer: dict[str, object] = {"repos": [_status(a) for a in accounts[start : start + limit]]}
        if start + limit < len(accounts):
            answer["cursor"] = str(start + limit)
        return web.json_response(answer)

    async def _resolve_handle(self, request: web.Request) -> web.Response:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        handle = request.query.get("handle", "")
        for account in self.accounts.values():
            if account.handle == handle:
                return web.json_response({"did": account.did})
        return _error("HandleNotFound", "Unable to resolve handle")


def _status(account: Account) -> dict[str, object]:
    head = cid_text(account.head[0]) if account.head else ""
    answer: dict[str, object] = {
        "did": account.did,
        "head": head,
        "rev": account.rev or "",
        "active": account.active,
    }
    if account.status is not None:
        answer["status"] = account.status
    return answer


def _error(name: str, message: str) -> web.Response:
    return web.json_response({"error": name, "message": message}, status=400)
