"""A synthetic network with an ingest in front of it, in one process, over real sockets and real files."""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from appview.access.access import Access
from appview.access.errors import NotFollowed
from appview.clock import now
from appview.control import Control
from appview.ingest.backoff import Backoff
from appview.ingest.ingest import Ingest
from appview.memory.pool import SpacePool
from appview.memory.scope import EVERYTHING
from appview.search.analysis import ANALYSIS
from appview.settings import Settings
from appview.source_lines import parse_source
from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.network.synthetic import Network, Write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from pathlib import Path

    from appview.clock import Clock
    from appview.memory.values import Fact
    from tests.network.synthetic import Account

DIMS = 4
MODEL = {"model": "hashing-4", "modelDigest": "sha256:hashing", "dims": DIMS}
OTHER_MODEL = {"model": "other", "modelDigest": "sha256:other", "dims": DIMS}
QUICK = Backoff(base=0.02, cap=0.2)
_keys = itertools.count(1_700_000_000_000_000)


def rkey() -> str:
    """Make a record key that was not used before."""
    return str(Tid.from_micros(next(_keys)))


def memory(text: str = "compost is warm", *tags: str, **more: Any) -> dict[str, Any]:
    """Make a memory record of `MODEL`."""
    vector = struct.pack(f"<{DIMS}e", 1.0, *[0.0] * (DIMS - 1))
    record: dict[str, Any] = {
        "$type": str(MEMORY),
        "text": text,
        "createdAt": "2026-11-30T09:15:00.000Z",
        "embedding": {**MODEL, "encoding": "f16le", "vector": vector},
    }
    if tags:
        record["tags"] = list(tags)
    return record | more


def config(model: dict[str, Any] = MODEL, **more: Any) -> dict[str, Any]:
    """Make a config record."""
    return {"$type": str(CONFIG), **model, "createdAt": "2026-11-30T09:00:00.000Z", **more}


async def no_wait(_seconds: float) -> None:
    """Wait for a source or a disk as if it took no time."""
    await asyncio.sleep(0.001)


class World:
    """A network, and what the ingest of `running` makes of it."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self.settings = Settings(
            source=(network.pds[0].url,),
            data=folder,
            plc_url=network.plc.url,
            allow_loopback=True,
        )
        self.clock: Clock = now
        self.sources: tuple[str, ...] = ()
        self.sleep: Callable[[float], Awaitable[None]] = no_wait
        self.retry = QUICK
        self.control: Control
        self.access: Access
        self.pool: SpacePool
        self.ingest: Ingest

    @asynccontextmanager
    async def running(self, **settings: Any) -> AsyncIterator[World]:
        """Run an ingest on the folder, to be stopped as `serve` stops it."""
        values = {name: getattr(self.settings, name) for name in self.settings.__dataclass_fields__}
        chosen = Settings(**(values | settings))
        self.sources = chosen.source
        async with AsyncExitStack() as stack:
            executor = stack.enter_context(ThreadPoolExecutor(4))
            self.control = await Control.open(chosen.control_file, executor)
            stack.push_async_callback(self.control.close)
            self.access = await Access.open(self.control, self.clock)
            self.pool = SpacePool(chosen.spaces_folder, executor, self.clock, analyser=ANALYSIS)
            stack.push_async_callback(self.pool.close)
            self.ingest = Ingest(
                chosen,
                self.control,
                self.access,
                self.pool,
                self.clock,
                sleep=self.sleep,
                retry=self.retry,
                rng=lambda: 0.5,
            )
            await self.ingest.prepare()
            task = asyncio.create_task(self.ingest.run())
            try:
                yield self
                self.ingest.stop()
                await task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    # What accounts do

    def authority(self, model: dict[str, Any] = MODEL) -> tuple[Account, SpaceUri]:
        """Make an account that declares a space."""
        account = self.network.account()
        self.network.create(account, str(CONFIG), "self", config(model))
        return account, SpaceUri.public(Did(account.did))

    def remember(self, account: Account, text: str = "compost is warm", *tags: str, **more: Any) -> str:
        """Publish a memory and give its record key."""
        key = rkey()
        self.network.create(account, str(MEMORY), key, memory(text, *tags, **more))
        return key

    def remember_many(self, account: Account, count: int) -> list[str]:
        """Publish memories in one commit."""
        keys = [rkey() for _ in range(count)]
        writes = [Write("create", str(MEMORY), key, memory(f"memory {key}")) for key in keys]
        self.network.commit(account, *writes)
        return keys

    async def join(self, space: SpaceUri, account: Account) -> None:
        """Make an account a member, as the command line does, in force at once."""
        await self.access.add_member(space, Did(account.did), "test")
        await self.reconcile()

    async def leave(self, space: SpaceUri, account: Account) -> None:
        """Take the membership away."""
        await self.access.remove_member(space, Did(account.did), "test")
        await self.reconcile()

    async def reconcile(self) -> None:
        """Do what a change by the command line leads to."""
        async with self.ingest._pipeline.lock:
            await self.ingest._reconciler.reconcile()

    @asynccontextmanager
    async def disk_held(self, space: SpaceUri) -> AsyncIterator[None]:
        """Let nothing be written into a space's file meanwhile, as if its disk took long."""
        begun, ended = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def hold(_connection: object) -> None:
            loop.call_soon_threadsafe(begun.set)
            ended.wait(60)

        async with self.pool.use(space) as store:
            holding = asyncio.create_task(store.database.write(hold))
            try:
                await begun.wait()
                yield
            finally:
                ended.set()
                await holding

    # What became of it

    async def facts(self, space: SpaceUri) -> list[Fact]:
        """List what a space holds."""
        if not self.pool.exists(space):
            return []
        async with self.pool.use(space) as store:
            return await store.list(EVERYTHING, limit=100_000)

    async def shown(self, space: SpaceUri) -> set[str]:
        """List the texts that a reader of everything is shown."""
        withheld = await self.access.withheld.authors(space)
        async with self.pool.use(space) as store:
            return {
                fact.text for fact in await store.list(store.visible(EVERYTHING, withheld), limit=100_000)
            }

    async def until_shown(self, space: SpaceUri, texts: Iterable[str]) -> None:
        """Wait until a reader is shown exactly these texts."""
        wanted = set(texts)

        async def the_same() -> bool:
            try:
                return await self.shown(space) == wanted
            except NotFollowed:
                return False

        await self.until(the_same)

    async def texts(self, space: SpaceUri) -> set[str]:
        """List the texts that a space holds."""
        return {fact.text for fact in await self.facts(space)}

    async def skipped(self, space: SpaceUri, did: str) -> dict[str, int]:
        """Count what a space does not index of an author."""
        async with self.pool.use(space) as store:
            status = await store.status(EVERYTHING)
        return next((dict(each.reasons) for each in status.skipped if each.author == did), {})

    async def mirrors(self, space: SpaceUri, account: Account) -> bool:
        """Tell whether a space knows exactly the (rkey, CID) pairs of the account's repo."""
        if not self.pool.exists(space):
            return False
        async with self.pool.use(space) as store:
            return await store.live(Did(account.did)) == held(account)

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
        """Wait until something holds."""
        try:
            async with asyncio.timeout(seconds):
                while not await condition():  # noqa: ASYNC110 - files signal nothing
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(json.dumps(self.ingest.status(), indent=1, default=str)) from None

    async def until_status(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the ingest says something of itself."""

        async def true() -> bool:
            return condition(self.ingest.status())

        await self.until(true)

    async def until_connected(self) -> None:
        """Wait until all sources are, and the lists of accounts at their end: accounts that are made then
        begin before anybody follows them, so what their creation says of them uses up no look at their
        documents."""
        await self.until_status(lambda status: all(each["connected"] for each in status["sources"].values()))

        async def listed() -> bool:
            lists = [await self.control.lists.get(parse_source(line).discover or "") for line in self.sources]
            return all(state is not None and state.finished_at is not None for state in lists)

        await self.until(listed)

    async def until_declared(self, space: SpaceUri) -> None:
        """Wait until a space is there, and its authority's repo in it."""

        async def true() -> bool:
            row = await self.control.space(space)
            return (
                row is not None
                and row.config is not None
                and (await self.control.memberships()).get((space, space.authority)) == "synced"
            )

        await self.until(true)

    async def until_caught_up(self) -> None:
        """Wait until all that the network has sent is behind the stored cursor."""

        async def true() -> bool:
            cursors = await self.control.cursors()
            return any(position >= self.network.pds[0].firehose.seq for position, _ in cursors.values())

        await self.until(true)

    async def until_mirrored(self, space: SpaceUri, *accounts: Account) -> None:
        """Wait until the space holds what these accounts' repos hold."""

        async def all_of_them() -> bool:
            return all([await self.mirrors(space, account) for account in accounts])

        await self.until(all_of_them)

    async def until_texts_of(self, space: SpaceUri, account: Account, texts: set[str]) -> None:
        """Wait until the space holds exactly these texts of one author."""

        async def the_same() -> bool:
            return {fact.text for fact in await self.facts(space) if fact.author == account.did} == texts

        await self.until(the_same)

    async def until_texts(self, space: SpaceUri, texts: Iterable[str]) -> None:
        """Wait until the space holds exactly these texts."""
        wanted = set(texts)

        async def the_same() -> bool:
            return await self.texts(space) == wanted

        await self.until(the_same)


def held(account: Account) -> dict[str, str]:
    """Give the memories of an account's repo: record key to CID."""
    from tests.network.synthetic.blocks import cid_text

    prefix = f"{MEMORY}/"
    return {
        path.removeprefix(prefix): cid_text(cid)
        for path, cid in account.records.items()
        if path.startswith(prefix)
    }
