"""Search inside one process: text analysis, and questions to one space by mode, size and width.

The baseline is what one would write first: FTS5 with `porter`, every word of the question ORed, `vec0` for
the vectors, and the same min-max fusion, on the same texts and vectors in the same run.
"""

from __future__ import annotations

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pysqlite3
import sqlite_vec

from appview.memory.scope import EVERYTHING
from appview.memory.store import SpaceStore
from appview.memory.values import Filters, Put, RepoUpdate
from appview.search.analysis import ANALYSIS, TextAnalysis
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest
from lexicons.configs import Config
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.bench.harness import Figure, benchmark, percentile, timed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from numpy.typing import NDArray

AUTHOR = Did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
CREATED_AT = "2026-11-30T09:15:00.000Z"
QUESTIONS = 60
CLUSTERS = 200
BATCH = 1_000
GOAL_MS = 20.0  # hybrid at 10,000 memories, of which HTTP takes a part
FUNCTION_WORDS = (  # noqa: SIM905
    "the of and to a in is it you that he was for on are"
    " with as I his they be at one have this from or had by but what"
).split()


def sentence(chance: random.Random, words: int) -> str:
    """Make text whose words are as common and as rare as those of talk.

    Four in ten are function words, the others follow Zipf's law over 20,000.
    """
    picked = []
    for _ in range(words):
        if chance.random() < 0.4:
            picked.append(FUNCTION_WORDS[min(int(chance.expovariate(0.15)), len(FUNCTION_WORDS) - 1)])
        else:
            rank = int(20_000 ** chance.random())
            picked.append(
                f"{'bcdfgklmnp'[rank % 10]}{'aeiou'[rank % 5]}{rank:x}ing" if rank % 3 else f"w{rank}"
            )
    return " ".join(picked)


class Space:
    """The same memories in a space's file and in the baseline's."""

    def __init__(self, count: int, dims: int, folder: Path, executor: ThreadPoolExecutor) -> None:
        self.count, self.dims, self.folder, self.executor = count, dims, folder, executor
        self.chance = random.Random(7)
        self.numbers = np.random.default_rng(7)
        self.centres = self.numbers.standard_normal((CLUSTERS, dims)).astype(np.float32)
        self.texts = [sentence(self.chance, 45) for _ in range(count)]
        self.vectors = self._near(count)
        self.questions = [
            (sentence(self.chance, 9), vector.tobytes()) for vector in self._near(QUESTIONS).astype("<f2")
        ]

    def _near(self, count: int) -> NDArray[np.float32]:
        noise = self.numbers.standard_normal((count, self.dims)).astype(np.float32)
        vectors = self.centres[self.numbers.integers(0, CLUSTERS, count)] + 0.6 * noise
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    async def store(self) -> SpaceStore:
        key = ModelKey("bench", "sha256:bench", self.dims)
        store = await SpaceStore.open(
            self.folder / "space.db",
            SpaceUri.public(AUTHOR),
            self.executor,
            lambda: 1_800_000_000_000_000,
            analyser=ANALYSIS,
        )
        await store.configure(Config(key, CREATED_AT))
        halves = self.vectors.astype("<f2")
        for start in range(0, self.count, BATCH):
            puts = [
                Put(
                    str(Tid.from_micros(1_000_000 + number)),
                    f"bafy{number}",
                    Memory(
                        self.texts[number],
                        CREATED_AT,
                        Embedding(key, halves[number].tobytes()),
                        tags=(f"/p/{number % 100}", f"tenth{number % 10}"),
                    ),
                )
                for number in range(start, min(start + BATCH, self.count))
            ]
            await store.apply([RepoUpdate(AUTHOR, str(Tid.from_micros(1_000_000 + start)), tuple(puts))])
        return store

    def baseline(self) -> Callable[[str, bytes, str], Sequence[str]]:
        """Make the baseline's file; answer its search."""
        connection = pysqlite3.connect(self.folder / "baseline.db", isolation_level=None)
        connection.enable_load_extension(True)
        sqlite_vec.load(connection)
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61')")
        connection.execute(f"CREATE VIRTUAL TABLE near USING vec0 (embedding float[{self.dims}])")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(self.texts, 1))
        connection.executemany(
            "INSERT INTO near (rowid, embedding) VALUES (?, ?)",
            ((number, vector.tobytes()) for number, vector in enumerate(self.vectors, 1)),
        )
        connection.execute("COMMIT")

        def search(text: str, vector: bytes, mode: str) -> Sequence[str]:
            keyword: dict[int, float] = {}
            similar: dict[int, float] = {}
            if mode != "vector":
                words = " OR ".join(f'"{word}"' for word in text.split())
                rows = connection.execute(
                    "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT 100",
                    (words,),
                )
                keyword = dict(rows.fetchall())
            if mode != "keyword":
                wide = np.frombuffer(vector, "<f2").astype(np.float32).tobytes()
                rows = connection.execute(
                    "SELECT rowid, -distance FROM near WHERE embedding MATCH ? AND k = 100", (wide,)
                )
                similar = dict(rows.fetchall())
            scores: dict[int, float] = {}
            for part in (keyword, similar):
                low, high = min(part.values(), default=0.0), max(part.values(), default=0.0)
                for id_, score in part.items():
                    scores[id_] = scores.get(id_, 0.0) + (score - low) / ((high - low) or 1.0) / 2
            ids = sorted(scores, key=lambda id_: -scores[id_])[:10]
            marks = ",".join("?" * len(ids))
            rows = connection.execute(f"SELECT text FROM words WHERE rowid IN ({marks})", ids)  # noqa: S608
            return [row[0] for row in rows]

        return search


async def spaces(executor: ThreadPoolExecutor) -> AsyncIterator[Space]:
    for count, dims in ((1_000, 384), (10_000, 384), (10_000, 768)):
        with tempfile.TemporaryDirectory() as folder:
            yield Space(count, dims, Path(folder), executor)


@benchmark("search.analysis")
async def analysis() -> Iterable[Figure]:
    """Documents of about 300 characters a second, on one core, with nothing remembered at first."""
    chance = random.Random(1)
    texts = [sentence(chance, 45) for _ in range(4_000)]
    fresh = TextAnalysis()
    with timed() as timer:
        for text in texts:
            fresh.document(text, ("/p/q", "k=v"), None)
    return [
        Figure("search.analysis", len(texts) / timer.seconds, "documents/s", goal=8_000, more_is_better=True)
    ]


@benchmark("search.engine")
async def engine() -> Iterable[Figure]:
    """Milliseconds a question: with vectors in memory, without (from the file), and with a filter."""
    figures: list[Figure] = []
    with ThreadPoolExecutor(4) as executor:
        async for space in spaces(executor):
            store = await space.store()
            plain = space.baseline()
            cache = ViewCache(ANALYSIS)
            size = f"{space.count // 1_000}k.{space.dims}"
            cached, bare = Searcher(cache=cache), Searcher()
            await cached.search(store, SearchRequest(*space.questions[0]), EVERYTHING)
            await cached.settled()
            tenth = Filters(tags=("tenth3",))
            for mode in ("keyword", "vector", "hybrid"):
                baseline = []
                for text, vector in space.questions:
                    start = perf_counter()
                    plain(text, vector, mode)
                    baseline.append(1_000 * (perf_counter() - start))
                for name, searcher, filters in (
                    (mode, cached, Filters()),
                    (f"{mode}.file", bare, Filters()),
                    (f"{mode}.tenth", cached, tenth),
                ):
                    times = []
                    for text, vector in space.questions:
                        request = SearchRequest(text, vector, mode, 10, filters)  # type: ignore[arg-type]
                        start = perf_counter()
                        await searcher.search(store, request, EVERYTHING)
                        times.append(1_000 * (perf_counter() - start))
                    goal = GOAL_MS if name == "hybrid" and space.count == 10_000 else None
                    for share in (0.5, 0.99):
                        figures.append(
                            Figure(
                                f"search.engine.{size}.{name}.p{share * 100:.0f}",
                                percentile(times, share),
                                "ms",
                                percentile(baseline, share),
                                goal if share == 0.5 else None,
                            )
                        )
            figures.append(Figure(f"search.engine.{size}.memory", cache.size / space.count, "bytes/memory"))
            await store.close()
    return figures
