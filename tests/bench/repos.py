"""Whole repos: the memory of a running server while it takes one, and records a second."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp

from tests.bench.harness import Figure, benchmark, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from appview.ingest.snapshots import RepoSnapshot
    from tests.network.synthetic import Account

MEGABYTE: Final = 1_000_000
REPO_BYTES: Final = 100 * MEGABYTE
RECORDS: Final = 20_000  # of 5 kB, the whole is 100 MB
DIMS: Final = 384
CHUNK: Final = 65_536
ROUNDS: Final = 3
SECONDS: Final = 1_800.0  # until a repo must have been taken
FEW: Final = int(os.environ.get("ENGRAM_BENCH_REPO_PERCENT", "100"))  # of each repo


def memory(rng: random.Random, text: str, dims: int = DIMS, **more: Any) -> dict[str, Any]:
    """Make a memory record."""
    return {
        "$type": "garden.engram.memory",
        "text": text,
        "createdAt": "2026-11-30T09:15:00.000Z",
        "embedding": model(dims) | {"encoding": "f16le", "vector": rng.randbytes(2 * dims)},
        **more,
    }


def model(dims: int) -> dict[str, Any]:
    """Name the model of a space."""
    return {"model": "bench", "modelDigest": "sha256:bench", "dims": dims}


def ordinary(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Memories of 5 kB."""
    return (memory(rng, rng.randbytes(2_000).hex()) for _ in range(RECORDS * FEW // 100))


def tiny(rng: random.Random) -> Iterator[dict[str, Any]]:
    """As many memories as there can be, each at a path of its own."""
    count = REPO_BYTES // 400 * FEW // 100
    return (memory(rng, "x", 1, tags=[f"/{rng.randbytes(8).hex()}"]) for _ in range(count))


def large(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Records of 1 MB, nearly all of it fields that nobody knows."""
    return (memory(rng, "large", padding=rng.randbytes(990_000)) for _ in range(FEW))


def full(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Memories that have of everything the most that the lexicon allows."""
    widest = {"embedding": model(16_000) | {"encoding": "f16le", "vector": rng.randbytes(32_000)}}
    for _ in range(1_000 * FEW // 100):
        text = rng.randbytes(15_000).hex()[:9_990]
        yield (
            memory(rng, text, tags=[rng.randbytes(30).hex() for _ in range(16)], source="x" * 2_000)
            | widest
            | {"nextEmbedding": widest["embedding"]}
        )


def tagged(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Memories with tens of thousands of tags, which is against the lexicon."""
    tags = [rng.randbytes(8).hex() for _ in range(50_000)]
    return (memory(rng, f"tagged {number}", tags=tags) for number in range(FEW))


def foreign(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Memories of a model that the space is not for."""
    return (memory(rng, rng.randbytes(2_000).hex(), 256) for _ in range(RECORDS * FEW // 100))


def stray(rng: random.Random) -> Iterator[dict[str, Any]]:
    """A few memories among as many blocks as there can be, which nobody names."""
    return (memory(rng, f"found {number}") for number in range(100))


@dataclass(frozen=True, slots=True)
class Kind:
    """A repo of 100 MB, the dimensions of the space that it goes into, and blocks beside its own."""

    name: str
    records: Callable[[random.Random], Iterable[dict[str, Any]]]
    dims: int = DIMS
    strays: int = 0


ORDINARY: Final = Kind("memory", ordinary)
HOSTILE: Final = (
    Kind("hostile.tiny", tiny, 1),
    Kind("hostile.large", large),
    Kind("hostile.full", full, 16_000),
    Kind("hostile.tagged", tagged),
    Kind("hostile.foreign", foreign),
    Kind("hostile.stray", stray, strays=REPO_BYTES // 42 * FEW // 100),
)


def make_repo(account: Account, records: Iterable[dict[str, Any]], strays: int = 0) -> bytes:
    """Write the CAR of a repo as the official PDS does: commit, tree, records; then blocks of no use."""
    from tests.network.synthetic import mst, tid
    from tests.network.synthetic.blocks import CID, block_of, car, encode

    blocks, items = [], {}
    for number, record in enumerate(records):
        cid, block = block_of(record)
        items[f"garden.engram.memory/{tid(1_700_000_000_000_000 + number)}"] = cid
        blocks.append((cid, block))
    root, nodes = mst.build(items)
    unsigned = {"did": account.did, "version": 3, "data": CID(root), "rev": account.next_rev(), "prev": None}
    commit = block_of(unsigned | {"sig": account.key.sign(encode(unsigned))})
    useless = (block_of(2**32 + number) for number in range(strays))
    return car([commit[0]], chain([commit], nodes.items(), blocks, useless))


async def serve(kind: Kind) -> dict[str, float]:
    """Let a member with a large repo join a space of a running server; watch the memory of that process."""
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did
    from tests.appview.ingest.world import config
    from tests.appview.process import Appview, command, environment
    from tests.appview.test_service import opened, until_settled
    from tests.network.synthetic import Network

    async with Network() as network:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder)
            authority, member = network.account(), network.account()
            export = await asyncio.to_thread(make_repo, member, kind.records(random.Random(1)), kind.strays)
            network.pds[0].export[member.did] = export
            variables = environment(data, network.pds[0].url, network.plc.url)
            space = SpaceUri.public(Did(authority.did))
            appview = await Appview.start(variables)
            try:
                url = await appview.url()
                network.create(authority, "garden.engram.config", "self", config(model(kind.dims)))
                await until_settled(data, network, 60)
                async with opened(data) as (control, _), Probe(url) as probe:
                    with Peak(appview.process.pid) as peak:
                        await command(variables, "member", "add", str(space), member.did)
                        start = time.perf_counter()
                        pair = (space, Did(member.did))
                        async with asyncio.timeout(SECONDS):
                            while (await control.memberships()).get(pair) != "synced":  # noqa: ASYNC110
                                await asyncio.sleep(0.02)
                        seconds = time.perf_counter() - start
                        above, whole = peak.above, peak.whole
            finally:
                await appview.stop()
    failed = [entry for entry in appview.log if entry.get("level") == "error"]
    if failed:
        raise RuntimeError(f"the server was in trouble: {failed[:3]}")
    return {
        "above": above,
        "whole": whole,
        "seconds": seconds,
        "megabytes": len(export) / MEGABYTE,
        "delay": percentile(probe.delays, 0.99) * 1_000,
    }


class Probe:
    """Asks a server for something small again and again: how long whoever else asks waits meanwhile."""

    def __init__(self, url: str) -> None:
        self.delays: list[float] = []
        self._url = f"{url}/xrpc/_health"

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._ask())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                start = time.perf_counter()
                async with session.get(self._url) as response:
                    await response.read()
                self.delays.append(time.perf_counter() - start)
                await asyncio.sleep(0.02)


class Peak:
    """The most memory of a process above what it had, looked at all the time.

    `above`: its own; `whole`: with what it maps of files, which the system takes back when it likes.
    """

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._idle = self._most = self._look()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def above(self) -> float:
        """Megabytes of its own above idle."""
        return self._most[0] - self._idle[0]

    @property
    def whole(self) -> float:
        """Megabytes above idle with mapped files."""
        return self._most[1] - self._idle[1]

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            now = self._look()
            self._most = max(self._most[0], now[0]), max(self._most[1], now[1])

    def _look(self) -> tuple[float, float]:
        fields = dict(line.split(":", 1) for line in self._status.read_text().splitlines() if ":" in line)
        own, whole = (int(fields[name].split()[0]) * 1_024 / MEGABYTE for name in ("RssAnon", "VmRSS"))
        return own, whole


@benchmark("repo.memory")
async def repo() -> list[Figure]:
    """Measure the peak of a server's memory above idle, and records a second, of an ordinary repo."""
    told = await serve(ORDINARY)
    count = RECORDS * FEW // 100
    note = f"a repo of {told['megabytes']:.0f} MB and {count:,} memories, through a running server"
    return [
        Figure(
            "repo.memory",
            told["above"],
            "MB above idle",
            goal=150,
            note=f"{note}; with mapped files {told['whole']:.0f} MB",
        ),
        Figure("repo.memory.indexed", count / told["seconds"], "records/s", note=f"{note}, to the disk"),
        Figure("repo.memory.delay", told["delay"], "ms", note="p99 of a small question meanwhile"),
    ]


@benchmark("repo.hostile", explicit=True)
async def hostile() -> list[Figure]:
    """Measure the same of repos that are made to take much."""
    figures = []
    for kind in HOSTILE:
        told = await serve(kind)
        note = f"{kind.records.__doc__} {told['megabytes']:.0f} MB in {told['seconds']:.0f} s"
        figures += [
            Figure(f"repo.{kind.name}", told["above"], "MB above idle", goal=150, note=note),
            Figure(f"repo.{kind.name}.delay", told["delay"], "ms", note="p99 of a small question meanwhile"),
        ]
    return figures


def prove(path: Path, did: str, key: str) -> dict[str, float]:
    """Prove and judge a repo in chunks, and decode it without proof, in this process; records a second."""
    from atproto import CAR

    from appview.identity.keys import PublicKey
    from appview.ingest.snapshots import RepoReader
    from appview.ingest.whole import route_repo
    from appview.memory.scope import EVERYTHING
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

    author, public = Did(did), PublicKey.from_did_key(key)
    scopes = {SpaceUri.public(author): EVERYTHING}

    def read(work: Callable[[RepoSnapshot], int]) -> int:
        with RepoReader(author, public, folder=path.parent) as reader:
            for chunk in _chunks(path):
                reader.feed(chunk)
            return work(reader.finish(time.time_ns() // 1000))

    def route(snapshot: RepoSnapshot) -> int:
        routed = route_repo(snapshot, scopes, path.parent)
        return sum(len(update.changes) for update in routed.updates.values())

    def parse() -> int:
        return sum(1 for block in CAR.from_bytes(path.read_bytes()).blocks.values() if "text" in block)

    def rate(work: Callable[[], int]) -> float:
        start = time.process_time()
        count = work()
        return count / (time.process_time() - start)

    ways = {
        "proven": lambda: read(lambda snapshot: sum(1 for _ in snapshot.records())),
        "judged": lambda: read(route),
        "plain": parse,
    }
    return {name: max(rate(work) for _ in range(ROUNDS)) for name, work in ways.items()}


@benchmark("repo.rate")
async def rates() -> list[Figure]:
    """Measure records a second of an ordinary repo on one core, proven, and judged; the baseline decodes."""
    from tests.network.synthetic import Account

    account = Account()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "repo.car"
        path.write_bytes(make_repo(account, ordinary(random.Random(1))))
        output = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "tests.bench.repos", str(path), account.did, account.key.did_key],
            check=True,
            capture_output=True,
        )
    told = json.loads(output.stdout.decode().splitlines()[-1])
    note = "of 5 kB, seconds of one core; baseline: SDK CAR, unverified"
    return [
        Figure("repo.rate.proven", told["proven"], "records/s", told["plain"], 10_000, True, note=note),
        Figure("repo.rate.judged", told["judged"], "records/s", told["plain"], 10_000, True, note=note),
    ]


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


if __name__ == "__main__":
    print(json.dumps(prove(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
