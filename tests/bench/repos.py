"""Memory while a large repo is taken, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tests.bench.harness import Figure, benchmark

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS: Final = 20_000
PADDING: Final = 4_000  # bytes of text a record, so that the whole is 100 MB
CHUNK: Final = 65_536
MEGABYTE: Final = 1_000_000


def make_repo(path: Path) -> tuple[str, str]:
    """Write the CAR of a repo of 100 MB to a file; give its DID and key."""
    from tests.network.synthetic import Account, Write, tid

    rng, account = random.Random(1), Account()
    vector = {"model": "bench", "modelDigest": "sha256:bench", "dims": 384, "encoding": "f16le"}
    for start in range(0, RECORDS, 1_000):
        account.draft(
            *(
                Write(
                    "create",
                    "garden.engram.memory",
                    tid(1_700_000_000_000_000 + number),
                    {
                        "$type": "garden.engram.memory",
                        "text": rng.randbytes(PADDING // 2).hex(),
                        "createdAt": "2026-11-30T09:15:00.000Z",
                        "embedding": vector | {"vector": rng.randbytes(768)},
                    },
                )
                for number in range(start, start + 1_000)
            )
        )
    path.write_bytes(account.export())
    return account.did, account.key.did_key


def take(path: Path, did: str, key: str) -> dict[str, float]:
    """Prove the repo in chunks and write it into a space, as a backfill does; measure this process."""
    from concurrent.futures import ThreadPoolExecutor

    from appview.identity.keys import PublicKey
    from appview.ingest.route import RecordChange, route_repo
    from appview.ingest.snapshots import RepoReader
    from appview.memory.scope import EVERYTHING
    from appview.memory.store import SpaceStore
    from appview.search.analysis import ANALYSIS
    from lexicons.configs import Config
    from lexicons.data import cid_text
    from lexicons.models import ModelKey
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

    author = Did(did)
    space = SpaceUri.public(author)

    async def work() -> dict[str, float]:
        with ExitStack() as stack:
            executor = stack.enter_context(ThreadPoolExecutor(2))
            store = await SpaceStore.open(
                path.with_suffix(".db"), space, executor, lambda: time.time_ns() // 1000, analyser=ANALYSIS
            )
            await store.configure(Config(ModelKey("bench", "sha256:bench", 384), "2026-11-30T09:00:00.000Z"))
            peak = stack.enter_context(Peak())
            start = time.perf_counter()
            with RepoReader(author, PublicKey.from_did_key(key), folder=path.parent) as reader:
                for chunk in _chunks(path):
                    reader.feed(chunk)
                snapshot = reader.finish(time.time_ns() // 1000)
                records = [
                    RecordChange(each.collection, each.rkey, cid_text(each.cid), each.record)
                    for each in snapshot.records()
                ]
                proven, seconds = peak.above, time.perf_counter() - start
            updates = route_repo(author, snapshot.rev, None, records, {space: EVERYTHING})
            await store.apply([updates[space]])
            whole = time.perf_counter() - start
            await store.close()
            return {"proof": proven, "all": peak.above, "seconds": seconds, "whole": whole}

    return asyncio.run(work())


class Peak:
    """The most memory of this process itself, looked at all the time; mapped files are the system's."""

    def __init__(self) -> None:
        self.idle = self.most = _own_memory()
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
        """Megabytes above idle."""
        self.most = max(self.most, _own_memory())
        return self.most - self.idle

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.most = max(self.most, _own_memory())


def _own_memory() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1_024 / MEGABYTE


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


@benchmark("repo")
async def repo() -> list[Figure]:
    """Measure the peak of memory above idle, and records a second, of a repo of 100 MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "repo.car"
        did, key = await asyncio.to_thread(make_repo, path)
        size = path.stat().st_size / MEGABYTE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.repos", str(path), did, key, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        told = json.loads(output.decode().splitlines()[-1])
    note = f"a repo of {size:.0f} MB and {RECORDS:,} memories"
    return [
        Figure("repo.memory-proof", told["proof"], "MB above idle", goal=150, note=f"{note}, proven"),
        Figure("repo.memory", told["all"], "MB above idle", goal=150, note=f"{note}, proven and indexed"),
        Figure(
            "repo.records",
            RECORDS / told["seconds"],
            "records/s",
            goal=10_000,
            more_is_better=True,
            note=note,
        ),
        Figure("repo.indexed", RECORDS / told["whole"], "records/s", note=f"{note}, proven and indexed"),
    ]


if __name__ == "__main__":
    print(json.dumps(take(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
