"""One account's whole repo, from the host that keeps it, proven.

Invariants: nothing is given out that is not signed by the account's key and reached through its tree; a host
is asked for a few repos at once and no more, and those who wait for a slow host hold nobody else's place; a
signature that does not fit makes the account's key be asked for once more, not oftener.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from appview.http.errors import HttpStatusError
from appview.identity.errors import IdentityError
from appview.ingest.car import MAX_REPO_BYTES
from appview.ingest.errors import Rejected, RepoInactive
from appview.ingest.snapshots import RepoReader
from lexicons.ids import CONFIG, MEMORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from appview.clock import Clock
    from appview.http.client import HttpClient
    from appview.identity.documents import Identity
    from appview.identity.resolver import Resolver
    from appview.ingest.snapshots import RepoRecord
    from lexicons.syntax import Did

REPO_SECONDS: Final = 600.0  # ours: a repo, from the request to its last byte
PER_HOST: Final = 2  # repos asked of one host at once
TOTAL: Final = 12  # repos asked for at once
MAX_HOSTS: Final = 10_000  # hosts remembered
COLLECTIONS: Final = frozenset({str(MEMORY), str(CONFIG)})
# An XRPC error of getRepo, and the account's status that it tells. Source: com.atproto.sync.getRepo.
INACTIVE: Final = {
    "RepoTakendown": "takendown",
    "RepoSuspended": "suspended",
    "RepoDeactivated": "deactivated",
}


@dataclass(frozen=True, slots=True)
class FetchedRepo:
    """A repo as of one signed commit: the records of our collections."""

    did: Did
    rev: str
    data: bytes
    records: tuple[RepoRecord, ...]
    identity: Identity


class RepoFetcher:
    """Fetches repos through the guarded client. `folder` takes what is too large for memory."""

    def __init__(
        self, client: HttpClient, resolver: Resolver, clock: Clock, folder: Path | None = None
    ) -> None:
        self._client = client
        self._resolver = resolver
        self._clock = clock
        self._folder = folder
        self._hosts: OrderedDict[str, asyncio.Semaphore] = OrderedDict()
        self._slots = asyncio.Semaphore(TOTAL)

    async def fetch(self, did: Did) -> FetchedRepo:
        """Fetch and prove a repo; raise `AppviewError`: `RepoInactive`, `FetchError`, `Rejected`, ..."""
        identity = await self._resolver.resolve(did)
        try:
            return await self._fetch(identity)
        except Rejected as error:
            if error.reason not in ("bad-signature", "high-s") or not self._resolver.may_force(did):
                raise
        except HttpStatusError as error:
            if error.name != "RepoNotFound" or not self._resolver.may_force(did):
                raise
        # The key was rotated, or the account has moved.
        return await self._fetch(await self._resolver.resolve(did, fresh=True))

    async def _fetch(self, identity: Identity) -> FetchedRepo:
        if identity.pds is None:
            raise IdentityError(f"{identity.did} names no PDS")
        url = f"{identity.pds}/xrpc/com.atproto.sync.getRepo?did={quote(identity.did, safe=':')}"
        async with self._place(identity.pds):
            with RepoReader(identity.did, identity.key, folder=self._folder) as reader:
                try:
                    async with self._client.stream(
                        url,
                        accept="application/vnd.ipld.car",
                        max_bytes=MAX_REPO_BYTES,
                        seconds=REPO_SECONDS,
                    ) as chunks:
                        async for chunk in chunks:
                            reader.feed(chunk)
                except HttpStatusError as error:
                    if error.name in INACTIVE:
                        raise RepoInactive(identity.did, INACTIVE[error.name]) from None
                    raise
                snapshot = reader.finish(self._clock())
                # A walk over a large tree takes a while; the event loop goes on.
                records = await asyncio.to_thread(lambda: tuple(snapshot.records(COLLECTIONS.__contains__)))
                return FetchedRepo(identity.did, snapshot.rev, snapshot.data, records, identity)

    @asynccontextmanager
    async def _place(self, host: str) -> AsyncIterator[None]:
        """Wait for a place at the host first, and only then for one of all."""
        semaphore = self._hosts.setdefault(host, asyncio.Semaphore(PER_HOST))
        self._hosts.move_to_end(host)
        while len(self._hosts) > MAX_HOSTS:
            self._hosts.popitem(last=False)
        async with semaphore, self._slots:
            yield
