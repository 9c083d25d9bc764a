"""Questions over HTTP, as a client asks them: an appview in a process of its own, one client, one connection.

The baseline of a search is the same question put to the same files without HTTP, in this process. Texts have
words as rare and as common as those of a language (Zipf), vectors lie in clusters.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from aiohttp import ClientSession

from appview.access.access import Access
from appview.clock import now
from appview.control import Control, SpaceRow
from appview.memory.pool import SpacePool
from appview.memory.scope import EVERYTHING
from appview.memory.values import Put, RepoUpdate
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Mode, Searcher, SearchRequest
from appview.service import short_turns
from appview.settings import MAX_RATE, Settings
from appview.xrpc.app import make_app
from appview.xrpc.context import Context
from appview.xrpc.server import listening
from lexicons.configs import Config
from lexicons.data import cid_of, cid_text
from lexicons.embeddings import Embedding, encode_query_vector
from lexicons.ids import DESCRIBE_SERVICE, LIST_MEMORIES, SEARCH_MEMORIES
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.bench.harness import Figure, benchmark, percentile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

AUTHOR = Did("did:plc:z72i7hdynmk6r22z27h6tvur")
SPACE = SpaceUri.public(AUTHOR)
CREATED_AT = "2026-11-30T09:15:00.000Z"
SIZES, WIDTHS = (1_000, 10_000), (384, 768)
MODES: tuple[Mode, ...] = ("hybrid", "vector", "keyword")
GOAL_MS = 20.0  # p50 of hybrid at 10,000 memories
QUESTIONS, WARM_UP, REQUESTS = 150, 10, 1_000
WORDS, CLUSTERS = 20_000, 100


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    vector: bytes


class World:
    """Texts and vectors, the same in every run."""

    def __init__(self, dims: int) -> None:
        self.model = ModelKey("bench", "sha256:bench", dims)
        self._random = random.Random(7)
        self._numbers = np.random.default_rng(7)
        self._weights = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))
        self._centres = self._numbers.normal(size=(CLUSTERS, dims))

    def text(self, words: int) -> str:
        found = self._random.choices(range(WORDS), cum_weights=self._weights, k=words)
        return " ".join(f"w{number:x}" for number in found)

    def vector(self) -> bytes:
        centre = self._centres[self._random.randrange(CLUSTERS)]
        values = centre + self._numbers.normal(scale=0.7, size=self.model.dims)
        return bytes((values / np.linalg.norm(values)).astype("<f2").tobytes())

    def memories(self, count: int) -> Iterator[Put]:
        for number in range(count):
            text = self.text(25)
            memory = Memory(text, CREATED_AT, Embedding(self.model, self.vector()))
            rkey = str(Tid.from_micros(1_700_000_000_000_000 + number))
            yield Put(rkey, cid_text(cid_of(text.encode())), memory)

    def questions(self) -> list[Question]:
        return [Question(self.text(8), self.vector()) for _ in range(QUESTIONS)]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Context]:
    """Open the parts of an appview on a folder."""
    settings = Settings(data=folder, rate_address=MAX_RATE)  # counted, and never refused
    with ThreadPoolExecutor(8) as executor:
        control = await Control.open(settings.control_file, executor)
        pool = SpacePool(settings.spaces_folder, executor, now, analyser=ANALYSIS)
        try:
            access = await Access.open(control, now)
            yield Context.of(settings, control, access, pool, clock=now)
        finally:
            await pool.close()
            await control.close()


async def fill(context: Context, world: World, count: int) -> None:
    """Declare the space and write its memories."""
    config = Config.declare(world.model, created_at=CREATED_AT)
    await context.control.put_space(SpaceRow(SPACE, AUTHOR, "public", config, None, "3", now()))
    await context.access.declare_space(SPACE)
    async with context.pool.use(SPACE) as store:
        await store.configure(config)
        await store.apply([RepoUpdate(AUTHOR, "3", tuple(world.memories(count)))])


async def ask_directly(context: Context, world: World, questions: list[Question], mode: Mode) -> list[float]:
    """Ask without HTTP; milliseconds each."""
    searcher, times = Searcher(cache=ViewCache(ANALYSIS)), []
    async with context.pool.use(SPACE) as store:
        await searcher.search(store, SearchRequest(questions[0].text), EVERYTHING)
        await searcher.settled()
        for question in [*questions[:WARM_UP], *questions]:
            text = None if mode == "vector" else question.text
            vector = None if mode == "keyword" else question.vector
            start = perf_counter()
            await searcher.search(
                store,
                SearchRequest(text, vector, mode, 10, model=world.model),
                EVERYTHING,
            )
            times.append((perf_counter() - start) * 1000)
    return times[WARM_UP:]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[str, Callable[[], Awaitable[None]]]]:
    """Serve a folder from a process of its own; give its base URL, and what waits until nothing is built."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.queries", str(folder),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    told, heard = process.stdin, process.stdout

    async def settle() -> None:
        told.write(b"settle\n")
        await told.drain()
        await heard.readline()

    try:
        yield f"http://127.0.0.1:{int(await heard.readline())}", settle
    finally:
        process.stdin.close()  # which ends it
        await process.wait()


async def get(
    session: ClientSession, url: str, params: dict[str, str], headers: dict[str, str] | None = None
) -> float:
    """Ask once; milliseconds."""
    start = perf_counter()
    async with session.get(url, params=params, headers=headers) as response:
        await response.read()
        assert response.status == 200
    return (perf_counter() - start) * 1000


def parameters(world: World, question: Question, mode: str) -> dict[str, str]:
    params: dict[str, str] = {"space": SPACE, "mode": mode}
    if mode != "vector":
        params["q"] = question.text
    if mode != "keyword":
        params |= {"vector": encode_query_vector(question.vector)}
        params |= {"model": world.model.model, "modelDigest": world.model.digest}
    return params


@benchmark("queries")
async def queries() -> list[Figure]:
    """Search by mode, size and width, then what HTTP itself costs."""
    figures = []
    for count in SIZES:
        for dims in WIDTHS:
            world = World(dims)
            questions = world.questions()
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                async with opened(folder) as context:
                    await fill(context, world, count)
                    direct = {mode: await ask_directly(context, world, questions, mode) for mode in MODES}
                async with served(folder) as (base, settle), ClientSession() as session:
                    for mode in MODES:
                        asked = [parameters(world, question, mode) for question in questions]
                        url = f"{base}/xrpc/{SEARCH_MEMORIES}"
                        for params in asked[:WARM_UP]:
                            await get(session, url, params)
                        await settle()
                        times = [await get(session, url, params) for params in asked]
                        figures += _figures(f"queries.search.{count}.{dims}.{mode}", times, direct[mode])
                    if (count, dims) == (SIZES[0], WIDTHS[0]):
                        figures += await _overhead(session, base)
    return figures


def _figures(name: str, times: list[float], direct: list[float]) -> list[Figure]:
    goal = GOAL_MS if name.endswith("hybrid") and ".10000." in name else None
    return [
        Figure(f"{name}.p50", percentile(times, 0.5), "ms", percentile(direct, 0.5), goal, note="over HTTP"),
        Figure(f"{name}.p99", percentile(times, 0.99), "ms", percentile(direct, 0.99), note="over HTTP"),
    ]


async def _overhead(session: ClientSession, base: str) -> list[Figure]:
    figures = []
    for name, path in (("health", "_health"), ("describeService", DESCRIBE_SERVICE), ("list", LIST_MEMORIES)):
        params = {"space": str(SPACE)} if name == "list" else {}
        times = [await get(session, f"{base}/xrpc/{path}", params) for _ in range(REQUESTS)]
        figures.append(Figure(f"queries.{name}.p50", percentile(times, 0.5), "ms", note="one connection"))
    return figures


async def serve(folder: Path) -> None:
    """Serve until standard input ends; the port goes to standard output."""
    async with opened(folder) as context, listening(make_app(context), "127.0.0.1", 0) as port:
        print(port, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            await context.searcher.settled()
            print("settled", flush=True)


if __name__ == "__main__":
    from appview.logs import configure

    configure("json", "warning")
    with short_turns():
        asyncio.run(serve(Path(sys.argv[1])))
