"""What access rules cost: searches with many of them, compiling them, and the first question after a change.

The space has 100,000 memories at 20,000 paths. The baseline is the same search where everybody may read all.
"""

from __future__ import annotations

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from appview.access.access import Access
from appview.access.policy import Policy
from appview.access.rules import Grant, Permission, to_rules
from appview.access.subjects import EVERYONE, Account, Anonymous, Role
from appview.control import Control
from appview.memory.scope import EVERYTHING, Attribute, Scope, Subtree
from appview.memory.store import SpaceStore
from appview.memory.values import Put, RepoUpdate
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
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
    from collections.abc import Callable, Iterable

    from appview.access.rules import Statement
    from appview.memory.scope import Pattern

AUTHOR = Did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
SPACE = SpaceUri.public(AUTHOR)
CREATED_AT = "2026-11-30T09:15:00.000Z"
MEMORIES = 100_000
PATHS = 20_000
DIMS = 384
MODEL = ModelKey("bench", "sha256:bench", DIMS)
CLUSTERS = 200
BATCH = 1_000
QUESTIONS = 30
GOAL_RATIO = 1.2
GOAL_FIRST_MS = 50.0


def now() -> int:
    return 1_800_000_000_000_000


def without(*patterns: Pattern) -> Scope:
    """Everything but what these patterns hold."""
    return Scope(frozenset({Subtree("/")}), frozenset(patterns))


SCOPES = {
    "none": EVERYTHING,
    "deny10": without(*(Subtree(f"/p/{number}") for number in range(10))),
    "deny1k": without(*(Subtree(f"/p/{number}") for number in range(1_000))),
    "deny10k": without(*(Subtree(f"/p/{number}") for number in range(10_000))),
    "allow1k": Scope(frozenset(Subtree(f"/p/{number}") for number in range(1_000))),
    "allow10k": Scope(frozenset(Subtree(f"/p/{number}") for number in range(10_000))),
    "tag": without(Attribute("kind", "k3")),
    "deny100tags": without(*(Attribute("team", f"t{number}") for number in range(100))),
    "allow100tags": Scope(frozenset(Attribute("team", f"t{number}") for number in range(100))),
}


async def filled(folder: Path, executor: ThreadPoolExecutor) -> SpaceStore:
    """Make the space."""
    store = await SpaceStore.open(folder / "space.db", SPACE, executor, now, analyser=ANALYSIS)
    await fill(store)
    return store


def tags_of(number: int) -> tuple[str, ...]:
    return f"/p/{number % PATHS}", f"kind=k{number % 10}", f"team=t{number % 1_000}"


async def fill(
    store: SpaceStore,
    tags: Callable[[int], tuple[str, ...]] = tags_of,
    author: Callable[[int], Did] = lambda _: AUTHOR,
    created_at: Callable[[int], str] = lambda _: CREATED_AT,
) -> None:
    """Write the memories of a space; their tags, authors and times are given by number."""
    chance, numbers = random.Random(7), np.random.default_rng(7)
    centres = numbers.standard_normal((CLUSTERS, DIMS)).astype(np.float32)
    await store.configure(Config(MODEL, CREATED_AT))
    for start in range(0, MEMORIES, BATCH):
        near = centres[numbers.integers(0, CLUSTERS, BATCH)]
        halves = (near + 0.6 * numbers.standard_normal((BATCH, DIMS))).astype("<f2")
        puts: dict[Did, list[Put]] = {}
        for number in range(start, start + BATCH):
            embedding = Embedding(MODEL, halves[number - start].tobytes())
            memory = Memory(sentence(chance, 45), created_at(number), embedding, tags=tags(number))
            put = Put(rkey(number), f"bafy{number}", memory)
            puts.setdefault(author(number), []).append(put)
        rev = rkey(start)
        await store.apply([RepoUpdate(who, rev, tuple(changes)) for who, changes in puts.items()])


def rkey(number: int) -> str:
    """Name a memory."""
    return str(Tid.from_micros(1_000_000 + number))


def questions() -> list[SearchRequest]:
    chance, numbers = random.Random(9), np.random.default_rng(9)
    centres = np.random.default_rng(7).standard_normal((CLUSTERS, DIMS))
    made = []
    for _ in range(QUESTIONS):
        vector = centres[numbers.integers(0, CLUSTERS)] + 0.6 * numbers.standard_normal(DIMS)
        made.append(SearchRequest(sentence(chance, 9), vector.astype("<f2").tobytes()))
    return made


@benchmark("access.search")
async def search() -> Iterable[Figure]:
    """Milliseconds a hybrid question by rules, and of the first one asked under them."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as executor:
        store = await filled(Path(folder), executor)
        searcher = Searcher(cache=ViewCache(ANALYSIS))
        asked = questions()

        async def seconds(scope: Scope, request: SearchRequest) -> float:
            with timed() as timer:
                await searcher.search(store, request, scope)
            return timer.seconds

        await seconds(EVERYTHING, asked[0])
        await searcher.settled()
        for request in asked[:5]:
            await seconds(EVERYTHING, request)
        for name, scope in SCOPES.items():
            first = await seconds(scope, asked[0])
            plain, times = [], []
            for request in asked:  # one after the other, so that both meet the same machine
                plain.append(await seconds(EVERYTHING, request))
                times.append(await seconds(scope, request))
            baseline = 1_000 * percentile(plain, 0.5)
            figures.append(
                Figure(
                    f"access.search.{name}",
                    1_000 * percentile(times, 0.5),
                    "ms",
                    baseline,
                    GOAL_RATIO,
                    goal_is_ratio=True,
                )
            )
            again = await seconds(EVERYTHING, asked[0])
            figures.append(
                Figure(f"access.search.{name}.first", 1_000 * first, "ms", 1_000 * again, note="not kept yet")
            )
        await store.close()
    return figures


def many(count: int) -> list[Statement]:
    """Rules of one space: a tenth of them grants, of 1,000 roles."""
    rules: list[Statement] = []
    for number in range(count):
        role = Role(f"r{number % 1_000}")
        if number % 10 == 0:
            rules.append(Grant(Account(Did(f"did:web:a{number}.example")), role, SPACE))
        elif number % 10 == 1:
            rules.append(Permission(EVERYONE, SPACE, Subtree(f"/p/{number}"), "read", allow=False))
        else:
            rules.append(Permission(role, SPACE, Subtree(f"/p/{number}"), "read"))
    return rules


@benchmark("access.rules")
async def rules() -> Iterable[Figure]:
    """Reading and compiling rules, and the first question after one more, by this and another process."""
    figures: list[Figure] = []
    for count in (10_000, 100_000):
        statements = many(count)
        size = f"{count // 1_000}k"
        with timed() as timer:
            policy = Policy(to_rules(statements))
        figures.append(Figure(f"access.rules.{size}.read", 1_000 * timer.seconds, "ms"))
        with timed() as timer:
            policy.scope(Anonymous(), SPACE, "read")
        figures.append(Figure(f"access.rules.{size}.compile", 1_000 * timer.seconds, "ms"))
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as executor:
            control = await Control.open(Path(folder) / "control.db", executor)
            other = await Control.open(Path(folder) / "control.db", executor)
            access, elsewhere = await Access.open(control, now), await Access.open(other, now)
            await access.change(statements, actor="operator", action="bench")
            await elsewhere.refresh()
            changes, firsts, unchanged = [], [], []
            for number in range(20):
                one = Permission(EVERYONE, SPACE, Subtree(f"/new/{number}"), "read", allow=False)
                start = perf_counter()
                await access.change([one], actor="operator", action="bench")
                changes.append(perf_counter() - start)
                for times in (firsts, unchanged):
                    start = perf_counter()
                    await elsewhere.refresh()
                    elsewhere.scope(Anonymous(), SPACE, "read")
                    times.append(perf_counter() - start)
            figures += [
                Figure(f"access.rules.{size}.change", 1_000 * percentile(changes, 0.5), "ms"),
                Figure(
                    f"access.rules.{size}.first",
                    1_000 * percentile(firsts, 0.5),
                    "ms",
                    goal=GOAL_FIRST_MS,
                ),
                Figure(f"access.rules.{size}.unchanged", 1_000 * percentile(unchanged, 0.5), "ms"),
            ]
            await control.close()
            await other.close()
    return figures
