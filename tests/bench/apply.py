"""Writing a space's file: facts, keywords, vectors and tags of a batch in one durable transaction."""

from __future__ import annotations

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pysqlite3
import structlog

from appview.memory.store import SpaceStore
from appview.memory.values import RepoUpdate
from lexicons.configs import Config
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.syntax import Did, Tid
from tests.appview.memory.support import CREATED_AT, SPACE, Clock, WordAnalyser, put
from tests.bench.harness import Figure, benchmark, timed

if TYPE_CHECKING:
    from collections.abc import Iterable

DIMS, MEMORIES, BATCH, WORDS = 384, 10_000, 1_000, 30
GOAL = 4_000  # memories/s: leaves most of a core to what is before it on the way from socket to search


def commits() -> list[RepoUpdate]:
    """Make one commit a memory, of twenty authors, with words as common as in a language."""
    chance, numbers = random.Random(1), np.random.default_rng(1)
    key = ModelKey("bench", "sha256:bench", DIMS)
    words = [f"w{number}" for number in numbers.zipf(1.3, MEMORIES * WORDS) % 20_000]
    vectors = numbers.standard_normal((MEMORIES, DIMS)).astype("<f2")
    result = []
    for number in range(MEMORIES):
        text = " ".join(words[number * WORDS : (number + 1) * WORDS])
        tags = (f"/projects/p{number % 50}", f"kind=k{number % 5}", chance.choice(["note", "rule"]))
        memory = Memory(text, CREATED_AT, Embedding(key, vectors[number].tobytes()), tags=tags)
        author = Did(f"did:plc:author{number % 20}")
        rev = str(Tid.from_micros(1_000_000 + number))
        result.append(RepoUpdate(author, rev, (put(rev, memory, f"bafy{number}"),)))
    return result


def insert_bare(path: Path, updates: list[RepoUpdate]) -> float:
    """Write the same texts to FTS5 alone, in the same groups; return memories/s."""
    connection = pysqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
    texts = [(update.changes[0].memory.text,) for update in updates]  # type: ignore[union-attr]
    with timed() as timer:
        for start in range(0, len(texts), BATCH):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO words VALUES (?)", texts[start : start + BATCH])
            connection.execute("COMMIT")
    connection.close()
    return len(texts) / timer.seconds


@benchmark("apply")
async def apply() -> Iterable[Figure]:
    """Apply batches of commits to an empty space."""
    updates = commits()
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(2) as executor,
        structlog.testing.capture_logs(),
    ):
        path = Path(folder) / "space.db"
        store = await SpaceStore.open(path, SPACE, executor, Clock(), analyser=WordAnalyser())
        key = updates[0].changes[0].memory.embedding.key  # type: ignore[union-attr]
        await store.configure(Config(key, CREATED_AT))
        with timed() as timer:
            for start in range(0, MEMORIES, BATCH):
                await store.apply(updates[start : start + BATCH])
        with timed() as again:
            await store.apply(updates[:BATCH])
        await store.database.checkpoint()
        size = path.stat().st_size
        await store.close()
        bare = insert_bare(Path(folder) / "bare.db", updates)
    return [
        Figure(
            "apply.batch",
            MEMORIES / timer.seconds,
            "memories/s",
            baseline=bare,
            goal=GOAL,
            more_is_better=True,
            note=f"{DIMS} dims, batches of {BATCH}, synchronous; baseline: their texts into FTS5 alone",
        ),
        Figure("apply.replay", BATCH / again.seconds, "memories/s", note="commits that were applied before"),
        Figure("apply.disk", size / MEMORIES, "bytes a memory", note=f"{DIMS} dims, {WORDS} words"),
    ]
