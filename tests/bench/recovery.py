"""The time from kill -9 to a server that answers and has caught up, over a space that takes long to build."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import aiohttp
import numpy as np

from appview.memory.values import Put, RepoUpdate
from lexicons.embeddings import Embedding
from lexicons.ids import CONFIG, MEMORY
from lexicons.memories import Memory
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.appview.ingest.world import World, config, held, rkey
from tests.appview.process import Appview, environment
from tests.appview.test_service import opened, until_settled
from tests.bench.harness import Figure, benchmark
from tests.bench.ingest import DIMS, MODEL, WORDS, make_memory
from tests.network.synthetic import Network

if TYPE_CHECKING:
    from appview.memory.store import SpaceStore
    from tests.network.synthetic import Account

MEMORIES = int(os.environ.get("ENGRAM_BENCH_MEMORIES", "1000000"))
BATCH = 1_000
WRITES = 500  # commits around the kill


async def fill(store: SpaceStore, count: int) -> None:
    """Index memories as if an author had published them."""
    chance, numbers = random.Random(1), np.random.default_rng(1)
    author = Did("did:plc:bulk")
    for start in range(0, count, BATCH):
        vectors = numbers.standard_normal((BATCH, DIMS)).astype("<f2")
        puts = []
        for number in range(min(BATCH, count - start)):
            text = " ".join(chance.choices(WORDS, k=30))
            embedding = Embedding(MODEL, vectors[number].tobytes())
            key = str(Tid.from_micros(1_000_000 + start + number))
            puts.append(Put(key, f"bafy{key}", Memory(text, "2026-11-30T09:15:00.000Z", embedding)))
        rev = str(Tid.from_micros(2_000_000 + start))
        await store.apply([RepoUpdate(author, rev, tuple(puts))])


async def answers(url: str, space: SpaceUri) -> None:
    """Wait until a question is answered."""
    query = {"space": str(space), "q": WORDS[0]}
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}/xrpc/garden.engram.searchMemories", params=query) as response:
                if response.status == 200:
                    return
            await asyncio.sleep(0.02)


async def caught_up(data: Path, space: SpaceUri, account: Account) -> None:
    """Wait until the space holds what the account's repo holds."""
    async with opened(data) as (_, pool), pool.use(space) as store:
        while await store.live(Did(account.did)) != held(account):  # noqa: ASYNC110 - files signal nothing
            await asyncio.sleep(0.05)


@benchmark("recovery", explicit=True)
async def recovery() -> list[Figure]:
    """Kill a server that indexes, start it again, and wait for its first answer and for the last record."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        async with Network() as network:
            world, alice = World(network, data), network.account()
            space = SpaceUri.public(Did(alice.did))
            rng = random.Random(2)
            async with world.running():
                network.create(alice, str(CONFIG), "self", config(MODEL.to_record()))
                await world.until_declared(space)
                async with world.pool.use(space) as store:
                    await fill(store, MEMORIES)
            variables = environment(data, network.pds[0].url, network.plc.url)
            first = await Appview.start(variables)
            await first.url(300)
            for _ in range(WRITES):
                network.create(alice, str(MEMORY), rkey(), make_memory(rng))
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
            await first.kill()
            start = perf_counter()
            second = await Appview.start(variables)
            try:
                await answers(await second.url(300), space)
                answered = perf_counter() - start
                await caught_up(data, space, alice)
                whole = perf_counter() - start
                await until_settled(data, network)
            finally:
                await second.stop()
    note = f"{MEMORIES:,} memories of {DIMS} dims, killed among {WRITES} commits"
    return [
        Figure("recovery.answers", answered, "s", note=f"{note}; to the first answer"),
        Figure("recovery.caught-up", whole, "s", note=f"{note}; to the last record"),
    ]
