"""What an idle appview takes: memory, and bytes on disk a memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from appview.clock import now
from appview.memory.store import SpaceStore
from appview.memory.values import Put, RepoUpdate
from appview.search.analysis import ANALYSIS
from lexicons.configs import Config
from lexicons.data import encode
from lexicons.memories import Memory
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.appview.process import Appview, environment
from tests.bench.harness import Figure, benchmark
from tests.bench.ingest import MODEL, make_memory
from tests.network.synthetic import Network

MEMORIES = 10_000
BATCH = 1_000
AUTHOR = Did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")


async def bytes_on_disk() -> tuple[float, float]:
    """Fill a space; answer the file's bytes and the published records' bytes, both a memory."""
    rng = random.Random(3)
    space = SpaceUri.public(AUTHOR)
    published = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as executor:
        path = Path(folder) / "space.db"
        store = await SpaceStore.open(path, space, executor, now, analyser=ANALYSIS)
        await store.configure(Config.declare(MODEL, created_at="2026-11-30T09:15:00.000Z"))
        for first in range(0, MEMORIES, BATCH):
            changes = []
            for number in range(first, first + BATCH):
                record = make_memory(rng)
                published += len(encode(record))
                rkey = Tid.from_micros(1_700_000_000_000_000 + number)
                changes.append(Put(rkey, f"bafy{number}", Memory.from_record(record)))
            rev = Tid.from_micros(1_700_000_000_000_000 + first)
            await store.apply([RepoUpdate(AUTHOR, rev, tuple(changes))])
        await store.database.checkpoint()
        await store.close()
        size = sum(each.stat().st_size for each in Path(folder).iterdir())
    return size / MEMORIES, published / MEMORIES


async def idle_bytes() -> tuple[float, float]:
    """Start `serve` on a quiet source; answer its resident bytes and those of a bare interpreter."""
    async with Network() as network:
        with tempfile.TemporaryDirectory() as folder:
            source, directory = network.pds[0].url, network.plc.url
            appview = await Appview.start(environment(Path(folder), source, directory))
            try:
                await appview.url()
                resident = psutil.Process(appview.process.pid).memory_info().rss
            finally:
                await appview.stop()
    return float(resident), float(bare_interpreter())


def bare_interpreter() -> int:
    """Resident bytes of a Python that has imported only what any aiohttp server needs."""
    script = "import aiohttp.web, json, psutil; print(json.dumps(psutil.Process().memory_info().rss))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    return int(json.loads(done.stdout))


@benchmark("footprint.")
async def measure() -> list[Figure]:
    """Compare with the records as published, and with a server that does nothing."""
    on_disk, published = await bytes_on_disk()
    resident, bare = await idle_bytes()
    return [
        Figure(
            "footprint.disk",
            on_disk,
            "bytes/memory",
            published,
            note=f"{MEMORIES} memories of 384 dims; baseline: the records as published",
        ),
        Figure(
            "footprint.idle", resident / 2**20, "MiB", bare / 2**20, note="baseline: a bare aiohttp server"
        ),
    ]
