"""Accounts that no event speaks of any more: config records older than what a source remembers.

A relay lists the accounts that have a config record (`listReposByCollection`); a PDS lists all its accounts
(`listRepos`), each of which is then asked for its config record. Whom spaces and rules name is followed
anyway (see `reconcile`). What a list says is a hint: an account that it names is fetched whole, and proves
itself or is forgotten.

Invariants: pages are bounded in size and number; a list goes on where it stopped, after a restart too; no
more accounts are looked into at once than the pipeline has room for, and its hosts are asked with manners.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import structlog

from appview.errors import AppviewError
from appview.http.errors import FetchError, HttpStatusError
from appview.ingest.backoff import Backoff
from appview.ingest.pipeline import MAX_CANDIDATES
from lexicons.ids import CONFIG, CONFIG_RKEY
from lexicons.syntax import Did

if TYPE_CHECKING:
    from appview.clock import Clock
    from appview.control import Control
    from appview.http.client import HttpClient
    from appview.ingest.backoff import Random
    from appview.ingest.hosts import Hosts
    from appview.ingest.pipeline import Pipeline

_SECOND: Final = 1_000_000  # microseconds
EVERY: Final = 6 * 3600 * _SECOND  # from the end of a list to its next beginning
PAGE: Final = 500  # accounts; the lists' own default
MAX_PAGES: Final = 20_000  # of one list: 10 million accounts
MAX_PAGE_BYTES: Final = 2_000_000
MAX_CURSOR: Final = 2_048  # characters
MAX_SLEEP: Final = 60.0  # seconds; the clock may jump
ROOM_SECONDS: Final = 0.5  # between looks whether there is room for more candidates
RESERVE: Final = 100.0  # requests of a host's budget that are left to proofs and repos
RETRY: Final = Backoff(base=5.0, cap=3600.0)
# How a server says that it does not have a method, or not for everybody.
_LACKING: Final = frozenset({"MethodNotImplemented", "XRPCNotSupported", "InvalidRequest"})

log = structlog.get_logger(__name__)


class Discovery:
    """Goes through the lists of one host after the other, at the start and every few hours."""

    def __init__(
        self,
        origins: tuple[str, ...],
        client: HttpClient,
        hosts: Hosts,
        control: Control,
        pipeline: Pipeline,
        clock: Clock,
        *,
        random: Random,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self._origins = origins
        self._client = client
        self._hosts = hosts
        self._control = control
        self._pipeline = pipeline
        self._clock = clock
        self._random = random

    async def run(self) -> None:
        """Look for accounts until cancelled."""
        async with asyncio.TaskGroup() as group:
            for origin in self._origins:
                group.create_task(self._keep(origin), name=f"accounts of {origin}")

    async def _keep(self, origin: str) -> None:
        failures = 0
        while True:
            try:
                await self._until_due(origin)
                await self._sweep(origin)
                failures = 0
            except Exception as error:  # no list, however broken, may end the program
                if not isinstance(error, AppviewError):
                    log.exception("a list of accounts breaks the program", host=origin)
                failures += 1
                asked = error.retry_after_seconds if isinstance(error, FetchError) else None
                wait = max(RETRY.seconds(failures, self._random), min(asked or 0.0, RETRY.cap))
                self.outcomes["failed"] += 1
                log.warning("cannot list accounts", host=origin, error=str(error), retry_in=round(wait))
                await asyncio.sleep(wait)

    async def _until_due(self, origin: str) -> None:
        while True:
            state = await self._control.lists.get(origin)
            now = self._clock()
            if state is None or state.finished_at is None or not 0 <= now - state.finished_at < EVERY:
                return
            await asyncio.sleep(min(MAX_SLEEP, (state.finished_at + EVERY - now) / _SECOND))

    async def _sweep(self, origin: str) -> None:
        """Go through the list of a host to its end."""
        state = await self._control.lists.get(origin)
        cursor = state.cursor if state is not None else None
        found = 0
        for _ in range(MAX_PAGES):
            by_collection, page = await self._page(origin, cursor)
            for did in _dids(page):
                found += await self._look(origin, did, certain=by_collection)
            following = page.get("cursor")
            ends = type(following) is not str or not following or len(following) > MAX_CURSOR
            if ends or following == cursor:
                break
            cursor = following
            await self._control.lists.put(origin, cursor, None)
        await self._control.lists.put(origin, None, self._clock())
        self.outcomes["lists"] += 1
        log.info("accounts listed", host=origin, candidates=found)

    async def _page(self, origin: str, cursor: str | None) -> tuple[bool, dict[str, Any]]:
        more = {} if cursor is None else {"cursor": cursor}
        try:
            page = await self._get(
                origin, "com.atproto.sync.listReposByCollection", collection=CONFIG, limit=str(PAGE), **more
            )
        except HttpStatusError as error:
            if error.status not in (404, 501) and error.name not in _LACKING:
                raise
            return False, await self._get(origin, "com.atproto.sync.listRepos", limit=str(PAGE), **more)
        return True, page

    async def _look(self, origin: str, did: Did, *, certain: bool) -> bool:
        """Look into an account, unless it is followed already."""
        pipeline = self._pipeline
        if did in pipeline.rows:
            return False
        if not certain and not await self._has_config(origin, did):
            return False
        while pipeline.candidates >= MAX_CANDIDATES // 2:  # noqa: ASYNC110 - leave room for those that speak up
            await asyncio.sleep(ROOM_SECONDS)
        async with pipeline.lock:
            considered = await pipeline.consider(did)
        self.outcomes["accounts"] += considered
        return considered

    async def _has_config(self, origin: str, did: Did) -> bool:
        try:
            await self._get(
                origin, "com.atproto.repo.getRecord", repo=did, collection=CONFIG, rkey=CONFIG_RKEY
            )
        except HttpStatusError as error:
            if error.temporary:
                raise
            return False
        return True

    async def _get(self, origin: str, method: str, **parameters: str) -> dict[str, Any]:
        url = f"{origin}/xrpc/{method}?{urlencode(parameters, safe=':', quote_via=quote)}"
        async with self._hosts.place(origin, "record", reserve=RESERVE):
            answer = await self._client.get(url, accept="application/json", max_bytes=MAX_PAGE_BYTES)
        try:
            value = json.loads(answer.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise FetchError(f"{origin}: the answer of {method} is not an object")
        return value


def _dids(page: dict[str, Any]) -> list[Did]:
    """Read the accounts of a page that are active."""
    repos = page.get("repos")
    found = []
    for repo in repos[: 2 * PAGE] if isinstance(repos, list) else ():
        if not isinstance(repo, dict) or repo.get("active") is False:
            continue
        did = repo.get("did")
        if isinstance(did, str) and Did.is_valid(did):
            found.append(Did(did))
    return found
