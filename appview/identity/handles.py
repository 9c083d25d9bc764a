"""Handles, verified both ways: the account's document claims the handle, and the handle's domain names the
account.

The domain says so in a TXT record `_atproto.<handle>` (`did=...`; more than one DID says nothing) or at
`https://<handle>/.well-known/atproto-did`. Source: atproto.com/specs/handle. A handle is for people to look
at: nothing is decided by it.

Invariants: a handle that is not verified is never given out; the domain is reached through the guarded
client; an answer is kept for `MAX_AGE` at most; domains that do not answer hold up nobody else's (see
`http.lanes`).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from appview.errors import AppviewError
from appview.http.lanes import Standing
from appview.http.names import Names
from appview.http.places import HostSlow, Places
from lexicons.syntax import Did, Handle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from appview.clock import Clock
    from appview.http.client import HttpClient
    from appview.identity.documents import Identity

_SECOND: Final = 1_000_000  # microseconds
MAX_AGE: Final = 12 * 3600 * _SECOND  # ours; an #identity event asks sooner
FAILURE_AGE: Final = 300 * _SECOND  # ours
MAX_ENTRIES: Final = 20_000
MAX_ANSWER_BYTES: Final = 2_048  # a DID has at most 2,048 characters
SECONDS: Final = 10.0
# Ours: handles asked for at once; of those that take longer than so many seconds; and these.
CONCURRENCY: Final = 16
LONG: Final = 8
PATIENCE: Final = 2.0
# Top-level domains under which no handle is anybody's. Source: atproto.com/specs/handle.
RESERVED: Final = frozenset({"alt", "arpa", "example", "internal", "invalid", "local", "localhost", "onion"})
TEST: Final = "test"  # of development networks, whose PDSes answer for it


def well_known(handle: Handle) -> str:
    """Name the document by which a domain names its account."""
    return f"https://{handle}/.well-known/atproto-did"


class Handles:
    """Verifies handles and keeps the answers. `development`: a `.test` handle is its PDS's to give.
    `standing` tells who goes first."""

    def __init__(
        self,
        client: HttpClient,
        clock: Clock,
        *,
        development: bool = False,
        txt: Callable[[str], Awaitable[Sequence[str]]] | None = None,
        document: Callable[[Handle], str] = well_known,
        standing: Callable[[Did], Standing] = lambda _did: Standing.MEMBER,
    ) -> None:
        self._client = client
        self._clock = clock
        self._development = development
        self._txt = txt if txt is not None else Names().texts
        self._document = document
        self._entries: OrderedDict[Handle, tuple[int, Did | None]] = OrderedDict()
        self._standing = standing
        self._domains = Places(CONCURRENCY, LONG, PATIENCE)

    async def verified(self, identity: Identity, *, fresh: bool = False) -> Handle | None:
        """Give the handle that a document claims, where its domain agrees."""
        handle = identity.handle
        if handle is None:
            return None
        return handle if await self._owner(handle, identity, fresh=fresh) == identity.did else None

    def rank_again(self) -> None:
        """Have everybody who is waited for stand where it stands by now."""
        self._domains.rank_again()

    async def _owner(self, handle: Handle, identity: Identity, *, fresh: bool) -> Did | None:
        known = self._entries.get(handle)
        if known is not None and not fresh:
            age, limit = self._clock() - known[0], FAILURE_AGE if known[1] is None else MAX_AGE
            if 0 <= age < limit:
                return known[1]
        owner = None
        with suppress(HostSlow):
            rank = partial(self._standing, identity.did)
            async with self._domains.place(self._host(handle, identity), rank):
                owner = await self._ask(handle, identity)
        self._entries[handle] = (self._clock(), owner)
        self._entries.move_to_end(handle)
        while len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)
        return owner

    def _host(self, handle: Handle, identity: Identity) -> str:
        """Name whom `_ask` asks."""
        return identity.pds or handle if handle.endswith(f".{TEST}") else handle

    async def _ask(self, handle: Handle, identity: Identity) -> Did | None:
        top = handle.rpartition(".")[2]
        if top in RESERVED or (top == TEST and not self._development):
            return None
        if top == TEST:
            return await self._of_pds(handle, identity.pds)
        found = {
            text.removeprefix("did=")
            for text in await self._txt(f"_atproto.{handle}")
            if text.startswith("did=")
        }
        if found:
            # More than one is an error of the domain's, and the other way is not asked for a better answer.
            return _did(found.pop()) if len(found) == 1 else None
        try:
            answer = await self._client.get(
                self._document(handle), accept="text/plain", max_bytes=MAX_ANSWER_BYTES, seconds=SECONDS
            )
        except AppviewError:
            return None
        return _did(answer.body.decode("utf-8", "replace").strip())

    async def _of_pds(self, handle: Handle, pds: str | None) -> Did | None:
        if pds is None:
            return None
        url = f"{pds}/xrpc/com.atproto.identity.resolveHandle?handle={quote(handle)}"
        try:
            body = (await self._client.get(url, accept="application/json", seconds=SECONDS)).body
            answer = json.loads(body)
        except (AppviewError, ValueError, RecursionError):
            return None
        return _did(answer.get("did")) if isinstance(answer, dict) else None


def _did(text: object) -> Did | None:
    return Did(text) if isinstance(text, str) and Did.is_valid(text) else None
