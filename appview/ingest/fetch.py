"""What the host that keeps an account's repo says of it: the whole repo, one record, its rev, its status.

Invariants: no record is given out that is not signed by the account's key and reached through its tree; hosts
are asked with manners (see `hosts`); a signature that does not fit makes the account's key be asked for once
more, not oftener; what is computed over a large answer is computed by threads of its own, one for what comes
in and one for the trees, which is shared in turns (see `walks`): neither a large repo nor many of them keep
the small ones, or the event loop, waiting.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode

from appview.http.errors import FetchError, HttpStatusError
from appview.http.lanes import Standing, site_of
from appview.identity.errors import IdentityError, UnknownDid
from appview.ingest.car import MAX_REPO_BYTES
from appview.ingest.commits import prove_record
from appview.ingest.errors import Rejected, RepoInactive
from appview.ingest.hosts import Hosts
from appview.ingest.snapshots import RepoReader
from appview.ingest.walks import Walks
from appview.ingest.whole import routing
from lexicons.syntax import Tid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from appview.clock import Clock
    from appview.errors import AppviewError
    from appview.http.client import HttpClient
    from appview.identity.documents import Identity
    from appview.identity.resolver import Resolver
    from appview.ingest.commits import ProvenRecord
    from appview.ingest.snapshots import RepoSnapshot
    from appview.ingest.whole import RoutedRepo
    from appview.memory.scope import Scope
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did, Nsid, RecordKey

T = TypeVar("T")

REPO_SECONDS: Final = 600.0  # ours: a repo, from the request to its last byte
READ_BYTES: Final = 262_144  # ours: of a repo, checked at once
INLINE_BYTES: Final = 1_000_000  # ours: of a repo, checked without a thread
MAX_PROOF_BYTES: Final = 3_000_000  # a record of 1 MB and the nodes of its tree that lead there
PROOF_SECONDS: Final = 30.0
# An XRPC error of getRepo, and the account's status that it tells. Source: com.atproto.sync.getRepo.
INACTIVE: Final = {
    "RepoTakendown": "takendown",
    "RepoSuspended": "suspended",
    "RepoDeactivated": "deactivated",
}
_CAR: Final = "application/vnd.ipld.car"


class FetchedRepo:
    """A repo as of one signed commit, laid aside on this machine; its tree is not looked at yet."""

    def __init__(
        self, identity: Identity, host: str, snapshot: RepoSnapshot, walks: Walks, folder: Path | None
    ) -> None:
        self.did = snapshot.did
        self.rev = snapshot.rev
        self.data = snapshot.data
        self.identity = identity
        self._site = site_of(host)
        self._snapshot = snapshot
        self._walks = walks
        self._folder = folder

    async def route(self, scopes: Mapping[SpaceUri, Scope]) -> RoutedRepo:
        """Prove the whole tree, and judge on the way what its author may write; raise `Rejected`.

        Can be asked again, with other scopes, inside the block of `fetch`; what it gives outlasts that block.
        """
        return await self._walks.run(self._site, routing(self._snapshot, scopes, self._folder))


class RepoFetcher:
    """Asks hosts through the guarded client. `folder` takes what is too large for memory."""

    def __init__(
        self,
        client: HttpClient,
        resolver: Resolver,
        clock: Clock,
        folder: Path | None = None,
        *,
        hosts: Hosts | None = None,
        standing: Callable[[Did], Standing] = lambda _did: Standing.MEMBER,
    ) -> None:
        self._client = client
        self._resolver = resolver
        self._clock = clock
        self._folder = folder
        self._hosts = hosts or Hosts()
        self._standing = standing
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="read")
        self._walks = Walks()

    @asynccontextmanager
    async def fetch(self, did: Did) -> AsyncIterator[FetchedRepo]:
        """Fetch a repo and prove its commit; raise `AppviewError`: `RepoInactive`, `FetchError`, `Rejected`,
        ... Inside the block the repo keeps its place among all that are fetched at once."""
        async with AsyncExitStack() as stack:
            yield await self._ask(did, partial(self._repo, stack))

    async def record(self, did: Did, collection: Nsid, rkey: RecordKey) -> ProvenRecord:
        """Fetch and prove a record, or that there is none; raise `AppviewError`."""

        async def work(pds: str, identity: Identity) -> ProvenRecord:
            url = _url(pds, "getRecord", did=did, collection=collection, rkey=rkey)
            async with self._hosts.place(pds, "record", partial(self._standing, did)):
                answer = await self._client.get(
                    url, accept=_CAR, max_bytes=MAX_PROOF_BYTES, seconds=PROOF_SECONDS
                )
            return prove_record(answer.body, did, collection, rkey, identity.key, self._clock())

        return await self._ask(did, work)

    async def latest_rev(self, did: Did, *, reserve: float = 0.0) -> str:
        """Ask for the repo's present rev, which is its host's word alone; raise `AppviewError`. `reserve`: so
        many requests of the host's budget are left to others."""

        async def work(pds: str, _identity: Identity) -> str:
            answer = await self._json(pds, "getLatestCommit", did, reserve)
            rev = answer.get("rev")
            if type(rev) is not str or not Tid.is_valid(rev):
                raise FetchError(f"{pds} names no rev of {did}", temporary=False)
            return rev

        return await self._ask(did, work)

    async def status(self, did: Did) -> str:
        """Ask for the account's status: `active`, `deleted` where its host (or its directory) knows it no
        more, or as `#account` has it; raise `AppviewError`."""

        async def work(pds: str, _identity: Identity) -> str:
            answer = await self._json(pds, "getRepoStatus", did)
            if answer.get("active") is True:
                return "active"
            status = answer.get("status")
            raise RepoInactive(did, status[:64] if type(status) is str and status else "inactive")

        try:
            return await self._ask(did, work)
        except RepoInactive as error:
            return error.status
        except (HttpStatusError, UnknownDid) as error:
            if is_gone(error):
                return "deleted"
            raise

    async def _ask(self, did: Did, work: Callable[[str, Identity], Awaitable[T]]) -> T:
        """Ask the account's host; once more where its key was rotated or the account has moved."""
        identity = await self._resolver.resolve(did)
        try:
            return await self._at_host(identity, work)
        except RepoInactive:  # where it was, perhaps
            if not self._resolver.may_force(did):
                raise
        except Rejected as error:
            if error.reason not in ("bad-signature", "high-s") or not self._resolver.may_force(did):
                raise
        except HttpStatusError as error:
            if error.name != "RepoNotFound" or not self._resolver.may_force(did):
                raise
        return await self._at_host(await self._resolver.resolve(did, fresh=True), work)

    async def _at_host(self, identity: Identity, work: Callable[[str, Identity], Awaitable[T]]) -> T:
        if identity.pds is None:
            raise IdentityError(f"{identity.did} names no PDS")
        try:
            return await work(identity.pds, identity)
        except HttpStatusError as error:
            if error.name in INACTIVE:
                raise RepoInactive(identity.did, INACTIVE[error.name]) from None
            raise

    async def _repo(self, outer: AsyncExitStack, pds: str, identity: Identity) -> FetchedRepo:
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(
                self._hosts.place(pds, "repo", partial(self._standing, identity.did))
            )
            reader = stack.enter_context(RepoReader(identity.did, identity.key, folder=self._folder))
            async with self._client.stream(
                _url(pds, "getRepo", did=identity.did),
                accept=_CAR,
                max_bytes=MAX_REPO_BYTES,
                seconds=REPO_SECONDS,
            ) as chunks:
                waiting: list[bytes] = []
                size = 0
                async for chunk in chunks:
                    waiting.append(chunk)
                    size += len(chunk)
                    place.bytes += len(chunk)
                    if size >= READ_BYTES:
                        await self._read(reader, b"".join(waiting))
                        waiting.clear()
                        size = 0
            await self._read(reader, b"".join(waiting))
            place.arrived()
            snapshot = await self._finish(reader)
            outer.push_async_exit(stack.pop_all())
            return FetchedRepo(identity, pds, snapshot, self._walks, self._folder)

    async def _read(self, reader: RepoReader, data: bytes) -> None:
        """Check and lay aside some bytes: at once, where not many have come."""
        if reader.bytes_read < INLINE_BYTES:
            reader.feed(data)
        else:
            await asyncio.get_running_loop().run_in_executor(self._reading, reader.feed, data)

    async def _finish(self, reader: RepoReader) -> RepoSnapshot:
        if reader.bytes_read < INLINE_BYTES:
            return reader.finish(self._clock())
        return await asyncio.get_running_loop().run_in_executor(self._reading, reader.finish, self._clock())

    async def _json(self, host: str, method: str, did: Did, reserve: float = 0.0) -> dict[str, Any]:
        async with self._hosts.place(host, "record", partial(self._standing, did), reserve=reserve):
            answer = await self._client.get(_url(host, method, did=did), accept="application/json")
        try:
            value = json.loads(answer.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise FetchError(f"{host}: the answer of {method} is not an object", temporary=False)
        return value


def is_gone(error: AppviewError) -> bool:
    """Tell whether an account's host, or its directory, says that it has no such account."""
    return isinstance(error, UnknownDid) or (
        isinstance(error, HttpStatusError) and error.name == "RepoNotFound"
    )


def _url(host: str, method: str, **parameters: str) -> str:
    return f"{host}/xrpc/com.atproto.sync.{method}?{urlencode(parameters, safe=':', quote_via=quote)}"
