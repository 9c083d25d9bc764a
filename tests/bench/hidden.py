"""What hidden memories cost those who may not read them: words, beginnings, phrases and left-out words of a
caller who sees 1,000 memories, beside 100,000 hidden ones that hold all that is asked.

The baseline is the same question to a space that holds the 1,000 alone; of `all`, the same question of
somebody who may read everything.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appview.memory.scope import EVERYTHING, Scope, Subtree
from appview.memory.store import SpaceStore
from appview.memory.values import Put, RepoUpdate
from appview.search.analysis import ANALYSIS
from appview.search.derived import MAX_CACHE_BYTES, ViewCache
from appview.search.engine import Searcher, SearchRequest
from lexicons.configs import Config
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.bench.harness import Figure, benchmark, percentile, timed
from tests.bench.search import sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

AUTHOR: Final = Did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
CREATED_AT: Final = "2026-11-30T09:15:00.000Z"
SHOWN, HIDDEN, BATCH, DIMS = 1_000, 100_000, 1_000, 8
OPEN: Final = Scope(frozenset({Subtree("/open")}))
ROUNDS: Final = 20
AT_ONCE: Final = 20
QUESTIONS: Final = {
    "word": "what became of the compost",
    "prefix": "aa*",
    "phrase": '"of the compost"',
    "without": "compost -heap",
}
GOAL_RATIO: Final = 1.2  # of what one waits who may read everything


def memory(chance: random.Random, number: int, path: str) -> Memory:
    """Make one that holds what is asked: many words that begin alike, a phrase, a word to leave out."""
    begun = " ".join(f"aa{chance.randrange(20_000):x}" for _ in range(10))
    heap = " heap" if number % 2 else ""
    text = f"{sentence(chance, 30)} of the compost {begun}{heap}"
    return Memory(text, CREATED_AT, Embedding.of(ModelKey("b", "sha256:b", DIMS), [1.0] * DIMS), tags=(path,))


async def filled(path: Path, executor: ThreadPoolExecutor, hidden: int) -> SpaceStore:
    """Make a space of the shown memories, behind so many hidden ones."""
    chance = random.Random(5)
    store = await SpaceStore.open(
        path, SpaceUri.public(AUTHOR), executor, lambda: 1_800_000_000_000_000, analyser=ANALYSIS
    )
    await store.configure(Config(ModelKey("b", "sha256:b", DIMS), CREATED_AT))
    for start in range(HIDDEN - hidden, HIDDEN + SHOWN, BATCH):
        if start == HIDDEN:
            chance = random.Random(6)  # the same ones whatever is hidden
        puts = tuple(
            Put(
                str(Tid.from_micros(1_000_000 + number)),
                f"bafy{number}",
                memory(chance, number, "/open" if number >= HIDDEN else "/secret"),
            )
            for number in range(start, start + BATCH)
        )
        await store.apply([RepoUpdate(AUTHOR, str(Tid.from_micros(1_000_000 + start)), puts)])
    return store


async def milliseconds(searcher: Searcher, store: SpaceStore, text: str, scope: Scope = OPEN) -> float:
    """Ask once."""
    with timed() as timer:
        await searcher.search(store, SearchRequest(text, mode="keyword"), scope)
    return 1_000 * timer.seconds


async def answer(searcher: Searcher, store: SpaceStore, text: str) -> list[tuple[str, float]]:
    """Ask, and tell what was found."""
    result = await searcher.search(store, SearchRequest(text, mode="keyword"), OPEN)
    assert not result.approximate
    return [(hit.fact.rkey, hit.score) for hit in result.hits]


async def bystander(searcher: Searcher, store: SpaceStore) -> float:
    """Ask for a word while many ask for a beginning."""
    others = [asyncio.create_task(milliseconds(searcher, store, "aa*")) for _ in range(AT_ONCE)]
    await asyncio.sleep(0)
    waited = await milliseconds(searcher, store, "compost")
    await asyncio.gather(*others)
    return waited


@benchmark("access.hidden")
async def hidden() -> Iterable[Figure]:
    """Milliseconds a question, from memory and from the file, and of one that is asked beside many."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as executor:
        alone = await filled(Path(folder) / "alone.db", executor, 0)
        whole = await filled(Path(folder) / "whole.db", executor, HIDDEN)
        for way, room in (("memory", MAX_CACHE_BYTES), ("file", 0)):
            searcher = Searcher(cache=ViewCache(ANALYSIS, room))
            for store in (alone, whole):
                await milliseconds(searcher, store, "aa*")
                await searcher.settled()
            for name, text in QUESTIONS.items():
                assert await answer(searcher, whole, text) == await answer(searcher, alone, text)
                baseline, times, everything = [], [], []
                for _ in range(ROUNDS):  # one after the other, so that all meet the same machine
                    baseline.append(await milliseconds(searcher, alone, text))
                    times.append(await milliseconds(searcher, whole, text))
                    everything.append(await milliseconds(searcher, whole, text, EVERYTHING))
                title, median = f"access.hidden.{way}.{name}", percentile(times, 0.5)
                note = f"{SHOWN} shown, {HIDDEN} hidden; baseline: the shown alone"
                figures += [
                    Figure(f"{title}.p50", median, "ms", percentile(baseline, 0.5), note=note),
                    Figure(
                        f"{title}.p99", percentile(times, 0.99), "ms", percentile(baseline, 0.99), note=note
                    ),
                    Figure(
                        f"{title}.all",
                        median,
                        "ms",
                        percentile(everything, 0.5),
                        GOAL_RATIO,
                        goal_is_ratio=True,
                        note="baseline: who may read everything",
                    ),
                ]
            figures.append(
                Figure(
                    f"access.hidden.{way}.bystander",
                    await bystander(searcher, whole),
                    "ms",
                    await bystander(searcher, alone),
                    note=f"a word, asked beside {AT_ONCE} beginnings",
                )
            )
        await alone.close()
        await whole.close()
    return figures
