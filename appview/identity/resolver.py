"""Which key signs an account's commits, and which host keeps its repo.

Invariants: nobody gets an answer that is older than they take, and each answer tells when it was asked for;
an answer by force, or because the account is said to have changed, is asked for at most once in
`FORCE_INTERVAL` for each DID, however often that is said, and apart from that once for the sake of strangers,
who can so take nobody's turn; who asks by force does not wait with those who asked before; all others wait
for one answer, however many they are; what was asked for in vain is not asked for again before `FAILURE_AGE`.
Documents on hosts that do not answer, however many, do not hold up those of others, nor those of strangers
those of members (see `http.lanes`). An instant ahead of the clock, which was put back, holds nothing up.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote, unquote

from appview.errors import AppviewError
from appview.http.addresses import is_loopback
from appview.http.errors import FetchError, HttpStatusError
from appview.http.lanes import Standing
from appview.http.places import Gate, Places
from appview.identity.documents import MAX_DOCUMENT_BYTES, Identity, parse_document
from appview.identity.errors import IdentityError, UnknownDid
from lexicons.syntax import Handle

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from appview.clock import Clock
    from appview.http.client import HttpClient
    from lexicons.syntax import Did

V = TypeVar("V")
_SECOND: Final = 1_000_000  # microseconds
MAX_AGE: Final = 12 * 3600 * _SECOND  # ours; an #identity event or a bad signature refreshes sooner
FORCE_INTERVAL: Final = 60 * _SECOND  # the network's own rule: once a minute per DID
FAILURE_AGE: Final = 60 * _SECOND  # ours
MAX_ENTRIES: Final = 20_000  # cached identities, about 1 kB each
CONCURRENCY: Final = 16  # ours: questions to the directory at once
MAX_RUNNING: Final = 256  # ours: lookups under way or in line; beyond, only the patient may ask for strangers
# Ours: did:web documents at once, from hosts that strangers choose and may be slow; of those that take longer
# than so many seconds; and these.
WEB_CONCURRENCY: Final = 16
WEB_LONG: Final = 8
WEB_PATIENCE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old an answer may be, in microseconds: `kept` before it is asked for again, `believed` while that
    comes to nothing because the directory is away."""

    kept: int = MAX_AGE
    believed: int = MAX_AGE


ANY_KEPT: Final = Freshness()


@dataclass(frozen=True, slots=True)
class Dated:
    """Who an account is, by a document that was asked for at an instant, in microseconds."""

    identity: Identity
    asked_at: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """What was learned, when it was asked for, when that was last done again, and why in vain."""

    asked_at: int
    outcome: Identity | AppviewError
    tried_at: int
    failure: FetchError | None = None
    void_at: int | None = None  # not believed from then on: the account is said to have changed


class Resolver:
    """Resolves DIDs through the guarded client and keeps the answers. `standing` tells who goes first."""

    def __init__(
        self,
        client: HttpClient,
        plc_url: str,
        clock: Clock,
        *,
        standing: Callable[[Did], Standing] = lambda _did: Standing.MEMBER,
    ) -> None:
        self._client = client
        self._plc_url = plc_url.rstrip("/")
        self._clock = clock
        self._entries: OrderedDict[Did, _Entry] = OrderedDict()
        # Of who is patient, and of who is not: neither takes the other's turn.
        self._forced_at: dict[bool, OrderedDict[Did, int]] = {True: OrderedDict(), False: OrderedDict()}
        self._forgotten: OrderedDict[Did, None] = OrderedDict()  # and not asked for since
        self._doubtful: set[Did] = set()  # asked for at the moment; the answer may be of before a change
        self._running: dict[Did, asyncio.Task[_Entry]] = {}
        self._standing = standing
        self._directory = Gate(CONCURRENCY)
        self._domains = Places(WEB_CONCURRENCY, WEB_LONG, WEB_PATIENCE)

    async def resolve(
        self, did: Did, *, fresh: bool = False, patient: bool = True, freshness: Freshness = ANY_KEPT
    ) -> Identity:
        """Give an identity as `look` does."""
        return (await self.look(did, fresh=fresh, patient=patient, freshness=freshness)).identity

    async def look(
        self, did: Did, *, fresh: bool = False, patient: bool = True, freshness: Freshness = ANY_KEPT
    ) -> Dated:
        """Answer from the cache or the network; raise `IdentityError` or `FetchError`.

        `fresh` asks the network, unless that was done within the last minute: then what is known is given.
        What is older than `freshness` has it is not given, though the network does not answer.
        Who is not `patient` asks for a stranger, has turns of its own, and gets a temporary `FetchError` for
        an account that is one where many are being asked for already: whoever names accounts must not make a
        line without end.
        """
        entry = self._known(did, fresh=fresh, patient=patient, kept=freshness.kept)
        if entry is None:
            entry = await self._ask(did, fresh=fresh, patient=patient)
        if isinstance(entry.outcome, AppviewError):
            raise entry.outcome
        if entry.failure is not None and not self._is_within(freshness.believed, entry.asked_at):
            raise entry.failure
        return Dated(entry.outcome, entry.asked_at)

    def believed(self, did: Did, freshness: Freshness) -> Identity | None:
        """Give what was last learned of an account, where it may be believed while nobody answers."""
        entry = self._entries.get(did)
        if entry is None or isinstance(entry.outcome, AppviewError) or self._is_void(entry):
            return None
        return entry.outcome if self._is_within(freshness.believed, entry.asked_at) else None

    def forget(self, did: Did) -> None:
        """Drop what is cached, because the account is said to have changed; where that was asked for by force
        within the last minute, believe it only until the minute is over. An answer that is on its way may be
        of before, and is not kept for longer."""
        if did not in self._entries and did not in self._running:
            return
        void_at = self._void_at(did)
        if void_at is None:
            self._entries.pop(did, None)
            self._running.pop(did, None)
            _remember(self._forgotten, did, None)
            return
        if did in self._running:
            self._doubtful.add(did)
        entry = self._entries.get(did)
        if entry is not None and entry.void_at is None:
            self._entries[did] = replace(entry, void_at=void_at)

    def may_force(self, did: Did, *, patient: bool = True) -> bool:
        """Tell whether `fresh` would ask the network now."""
        last = self._forced_at[patient].get(did)
        return last is None or not self._is_within(FORCE_INTERVAL, last)

    def rank_again(self) -> None:
        """Have everybody who is waited for stand where it stands by now."""
        self._directory.rank_again()
        self._domains.rank_again()

    def _void_at(self, did: Did) -> int | None:
        """Tell when a DID may be asked for again because it is said to have changed; None: now."""
        asked = (turns[did] for turns in self._forced_at.values() if did in turns)
        last = max((at for at in asked if self._is_within(FORCE_INTERVAL, at)), default=None)
        return None if last is None else last + FORCE_INTERVAL

    def _known(self, did: Did, *, fresh: bool, patient: bool, kept: int) -> _Entry | None:
        entry = self._entries.get(did)
        if entry is None:
            return None
        if fresh:
            return None if self.may_force(did, patient=patient) else entry
        if self._is_void(entry):
            _remember(self._forgotten, did, None)
            return None
        if isinstance(entry.outcome, Identity) and self._is_within(kept, entry.asked_at):
            return entry
        failed = entry.failure is not None or isinstance(entry.outcome, AppviewError)
        return entry if failed and self._is_within(FAILURE_AGE, entry.tried_at) else None

    def _is_within(self, span: int, since: int) -> bool:
        return 0 <= self._clock() - since < span

    def _is_void(self, entry: _Entry) -> bool:
        return entry.void_at is not None and not entry.asked_at <= self._clock() < entry.void_at

    async def _ask(self, did: Did, *, fresh: bool, patient: bool) -> _Entry:
        task = self._running.get(did)
        if task is None or (fresh and self.may_force(did, patient=patient)):
            stranger = not patient and self._standing(did) is Standing.STRANGER
            if stranger and len(self._running) >= MAX_RUNNING:
                raise FetchError("too many accounts are being asked for")
            if fresh or did in self._forgotten:
                self._forgotten.pop(did, None)
                _remember(self._forced_at[patient], did, self._clock())
            task = asyncio.create_task(self._look_up(did), name=f"resolve {did}")
            self._running[did] = task
            task.add_done_callback(partial(self._ended, did))
        return await asyncio.shield(task)

    def _ended(self, did: Did, task: asyncio.Task[_Entry]) -> None:
        if self._running.get(did) is task:
            del self._running[did]
            self._doubtful.discard(did)

    async def _look_up(self, did: Did) -> _Entry:
        outcome: Identity | AppviewError
        asked_at = self._clock()
        try:
            async with self._turn(did):
                asked_at = self._clock()
                outcome = await self._fetch(did)
        except AppviewError as error:
            outcome = error
        now = self._clock()
        entry = _Entry(asked_at, outcome, now)
        before = self._entries.get(did)
        usable = before is not None and isinstance(before.outcome, Identity) and not self._is_void(before)
        if isinstance(outcome, FetchError) and before is not None and usable:
            # The directory is away: what it said last still holds, for as long as whoever asks believes it.
            entry = replace(before, tried_at=now, failure=outcome)
        elif did in self._doubtful:
            entry = replace(entry, void_at=self._void_at(did) or now)
        if self._running.get(did) is asyncio.current_task():
            _remember(self._entries, did, entry)
        return entry

    def _turn(self, did: Did) -> AbstractAsyncContextManager[object]:
        rank = partial(self._standing, did)
        if did.method == "web":
            return self._domains.place(document_url(did), rank)
        return self._directory.passed(rank)

    async def _fetch(self, did: Did) -> Identity:
        match did.method:
            case "plc":
                url = f"{self._plc_url}/{quote(did, safe=':')}"
            case "web":
                url = document_url(did)
            case method:
                raise IdentityError(f"did:{method} is not a method of the AT Protocol")
        try:
            answer = await self._client.get(
                url, accept="application/did+ld+json, application/json", max_bytes=MAX_DOCUMENT_BYTES
            )
        except HttpStatusError as error:
            if error.status in (404, 410):
                raise UnknownDid(f"{did} is not registered") from None
            raise
        return parse_document(did, answer.body)


def document_url(did: Did) -> str:
    """Name the document of a did:web: a bare host name (a port only on this machine), no path.

    Source: atproto.com/specs/did. Raises `IdentityError`.
    """
    host, colon, port = unquote(did.removeprefix("did:web:")).partition(":")
    if colon:
        if not is_loopback(host) or not port.isdecimal() or not port.isascii() or len(port) > 5:
            raise IdentityError(f"{did}: only a host name is allowed")
        return f"http://{host}:{port}/.well-known/did.json"
    if host == "localhost" or not Handle.is_valid(host):
        raise IdentityError(f"{did}: not a host name")
    return f"https://{host}/.well-known/did.json"


def _remember(entries: OrderedDict[Did, V], did: Did, value: V) -> None:
    entries[did] = value
    entries.move_to_end(did)
    while len(entries) > MAX_ENTRIES:
        entries.popitem(last=False)
