"""Questions over HTTP to spaces of a thousand to a million memories, by mode, filter and width, beside what
one would use instead; and questions while memories arrive.

A million takes a quarter of an hour and 8 GB of disk: `--only scale.1000k` (or `scale.1000k.768`) runs it.
The appview is a process of its own; one client asks one question after the other over one connection. The
others run in this process, without HTTP.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import psutil
from aiohttp import ClientSession

from appview.clock import now
from appview.control import SpaceRow
from appview.memory.values import Put, RepoUpdate
from appview.service import short_turns
from appview.xrpc.app import make_app
from appview.xrpc.server import listening
from lexicons.configs import Config
from lexicons.embeddings import encode_query_vector
from lexicons.ids import SEARCH_MEMORIES
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.bench.corpus import CREATED_AT, FILTERS, Corpus
from tests.bench.harness import Figure, benchmark, percentile, timed
from tests.bench.queries import opened
from tests.bench.rivals import RIVALS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from appview.memory.store import SpaceStore
    from tests.bench.corpus import Question
    from tests.bench.rivals import Rival

AUTHOR: Final = Did("did:plc:z72i7hdynmk6r22z27h6tvur")
SPACE: Final = SpaceUri.public(AUTHOR)
GOALS_MS: Final = {1_000: 5.0, 10_000: 10.0, 100_000: 25.0, 1_000_000: 60.0}  # p50, hybrid, over HTTP
GOAL_RECALL, GOAL_BYTES, GOAL_FILTERED = 0.98, 1_500, 2.0
GOAL_P99_MS: Final = 250.0  # while memories arrive
BATCH: Final = 1_000
WARM_UP: Final = 10
MODES: Final = ("hybrid", "vector", "keyword")
LOAD_SECONDS, QUESTIONS_A_SECOND, MEMORIES_A_SECOND, WRITES_A_SECOND = 20, 50, 200, 10
EXPLICIT: Final = 1_000_000  # memories from which a benchmark has to be asked for


def puts(corpus: Corpus, start: int, end: int) -> RepoUpdate:
    """Make one commit of some memories."""
    changes = [
        Put(str(Tid.from_micros(1_700_000_000_000_000 + number)), f"bafy{number}", corpus.memory(number))
        for number in range(start, end)
    ]
    return RepoUpdate(AUTHOR, str(Tid.from_micros(1_700_000_000_000_000 + end)), tuple(changes))


async def fill(folder: Path, corpus: Corpus) -> None:
    """Write a space."""
    async with opened(folder) as context:
        config = Config.declare(corpus.model, created_at=CREATED_AT)
        await context.control.put_space(SpaceRow(SPACE, AUTHOR, "public", config, None, "3", now()))
        await context.access.declare_space(SPACE)
        async with context.pool.use(SPACE) as store:
            await store.configure(config)
            for start in range(0, corpus.count, BATCH):
                await store.apply([puts(corpus, start, min(start + BATCH, corpus.count))])


@dataclass(frozen=True, slots=True)
class Server:
    """An appview in a process of its own."""

    url: str
    process: asyncio.subprocess.Process

    @property
    def resident(self) -> int:
        """Bytes in memory that are its own: pages of files the system takes back when it likes."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return int(psutil.Process(self.process.pid).memory_info().rss)
        found = re.search(r"^RssAnon:\s+(\d+) kB$", status.read_text(encoding="utf-8"), re.MULTILINE)
        return 1024 * int(found[1]) if found else 0

    async def say(self, what: str) -> None:
        """Tell it something and wait until it is done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n".encode())
        await self.process.stdin.drain()
        await self.process.stdout.readline()


@asynccontextmanager
async def served(folder: Path, corpus: Corpus) -> AsyncIterator[Server]:
    """Serve a folder."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.scale", str(folder), str(corpus.count), str(corpus.dims),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield Server(f"http://127.0.0.1:{port}/xrpc/{SEARCH_MEMORIES}", process)
    finally:
        process.stdin.close()  # which ends it
        await process.wait()


def parameters(corpus: Corpus, question: Question, mode: str, tag: str | None = None) -> dict[str, str]:
    """Write a question as a request."""
    params: dict[str, str] = {"space": SPACE, "mode": mode, "limit": "10"}
    if mode != "vector":
        params["q"] = question.text
    if mode != "keyword":
        params["vector"] = encode_query_vector(question.vector)
        params["model"], params["modelDigest"] = corpus.model.model, corpus.model.digest
    if tag is not None:
        params["tags"] = tag
    return params


async def ask(
    session: ClientSession, url: str, asked: Iterable[dict[str, str]]
) -> tuple[list[float], list[Any]]:
    """Ask one after the other: milliseconds and answers."""
    times, answers = [], []
    for params in asked:
        start = perf_counter()
        async with session.get(url, params=params) as response:
            answer = await response.json()
            assert response.status == 200, answer
        times.append((perf_counter() - start) * 1000)
        answers.append(answer)
    return times, answers


def measure_rivals(corpus: Corpus, folder: Path, name: str) -> tuple[list[Figure], dict[str, list[float]]]:
    """Measure what is installed; the times of the plain one, by mode, are the baseline."""
    figures: list[Figure] = []
    plain: dict[str, list[float]] = {}
    for make in RIVALS:
        try:
            with timed() as built:
                rival: Rival = make(corpus, folder)
        except ImportError as error:
            print(f"{make.name} is not measured: {error}", file=sys.stderr)
            continue
        figures.append(Figure(f"{name}.{make.name}.build", built.seconds, "s"))
        for mode in MODES:
            times = []
            for question in corpus.questions[:30]:
                start = perf_counter()
                rival.search(question, mode)
                times.append((perf_counter() - start) * 1000)
            plain.setdefault(mode, times)
            for share in (0.5, 0.99):
                figures.append(
                    Figure(f"{name}.{make.name}.{mode}.p{share * 100:.0f}", percentile(times, share), "ms")
                )
        found = [set(rival.search(question, "vector")) for question in corpus.questions[:20]]
        figures.append(Figure(f"{name}.{make.name}.recall", recall(corpus, found), "of 10"))
        del rival
    return figures, plain


def recall(corpus: Corpus, found: Sequence[set[int]]) -> float:
    """Compare what was found for the first questions with the exact answer."""
    exact = [corpus.nearest(question.vector, 10) for question in corpus.questions[: len(found)]]
    return sum(len(a & b) for a, b in zip(found, exact, strict=True)) / (10 * len(found))


def number(uri: str) -> int:
    """Read which memory a hit is."""
    return Tid(uri.rsplit("/", 1)[1]).micros - 1_700_000_000_000_000


async def measure(count: int, dims: int) -> list[Figure]:
    """Measure one size."""
    name = f"scale.{count // 1_000}k.{dims}"
    corpus = Corpus(count, dims)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        data = folder / "data"
        data.mkdir()
        with timed() as written:
            await fill(data, corpus)
        figures, plain = measure_rivals(corpus, folder, name)
        figures.append(Figure(f"{name}.write", count / written.seconds, "memories/s", more_is_better=True))
        async with served(data, corpus) as server, ClientSession() as session:
            hybrid = [parameters(corpus, question, "hybrid") for question in corpus.questions]
            before = server.resident
            with timed() as built:
                await ask(session, server.url, hybrid[:1])
                await server.say("settle")
            figures.append(Figure(f"{name}.build", built.seconds, "s", note="the file answers meanwhile"))
            await ask(session, server.url, hybrid[:WARM_UP])
            figures.append(
                Figure(
                    f"{name}.memory",
                    (server.resident - before) / count,
                    "bytes/memory",
                    goal=None if count < 100_000 or dims > 384 else GOAL_BYTES,
                    note="what the process grew by",
                )
            )
            unfiltered = 0.0
            for mode in MODES:
                asked = [parameters(corpus, question, mode) for question in corpus.questions]
                times, answers = await ask(session, server.url, asked)
                goal = GOALS_MS.get(count) if mode == "hybrid" else None
                figures += _figures(f"{name}.{mode}", times, plain.get(mode), goal)
                if mode == "hybrid":
                    unfiltered = percentile(times, 0.5)
                if mode == "vector":
                    found = [{number(hit["uri"]) for hit in answer["memories"]} for answer in answers]
                    figures.append(
                        Figure(
                            f"{name}.recall",
                            recall(corpus, found),
                            "of 10",
                            goal=GOAL_RECALL,
                            more_is_better=True,
                        )
                    )
            asked = [parameters(corpus, question, "hybrid") for question in corpus.identifiers]
            times, _ = await ask(session, server.url, asked)
            figures += _figures(f"{name}.identifiers", times, None, None)
            for filtered in FILTERS:
                asked = [
                    parameters(corpus, question, "hybrid", f"{filtered}{place % 10}")
                    for place, question in enumerate(corpus.questions)
                ]
                times, _ = await ask(session, server.url, asked)
                figures.append(
                    Figure(
                        f"{name}.{filtered}.p50",
                        percentile(times, 0.5),
                        "ms",
                        unfiltered,
                        GOAL_FILTERED,
                        goal_is_ratio=True,
                        note="baseline: without the filter",
                    )
                )
    return figures


def _figures(
    name: str, times: Sequence[float], plain: Sequence[float] | None, goal: float | None
) -> list[Figure]:
    return [
        Figure(
            f"{name}.p{share * 100:.0f}",
            percentile(times, share),
            "ms",
            percentile(plain, share) if plain else None,
            goal if share == 0.5 else None,
            note="over HTTP; baseline: FTS5 and sqlite-vec without",
        )
        for share in (0.5, 0.99)
    ]


def _register(count: int, dims: int) -> None:
    size = f"scale.{count // 1_000}k"

    @benchmark(f"{size}.{dims}", only_with=size if count >= EXPLICIT else "")
    async def run() -> list[Figure]:
        return await measure(count, dims)


for _count in GOALS_MS:
    for _dims in (384, 768):
        _register(_count, _dims)


@benchmark("load")
async def load() -> list[Figure]:
    """Ask a space of 100,000 fifty times a second, by the clock, while 200 memories a second arrive."""
    corpus = Corpus(100_000, 384)
    with tempfile.TemporaryDirectory() as folder:
        await fill(Path(folder), corpus)
        async with served(Path(folder), corpus) as server, ClientSession() as session:
            asked = [parameters(corpus, question, "hybrid") for question in corpus.questions]
            await ask(session, server.url, asked[:1])
            await server.say("settle")
            await ask(session, server.url, asked[:WARM_UP])
            await server.say("think up")  # what it will write: whoever sends memories has them made elsewhere
            writing = asyncio.create_task(server.say("write"))
            refused = 0

            async def once(turn: int) -> None:
                nonlocal refused
                async with session.get(server.url, params=asked[turn % len(asked)]) as response:
                    await response.read()
                    refused += response.status != 200

            times = await _by_the_clock(once)
            await writing
    return [
        Figure("load.refused", refused, "questions", goal=0),
        *[
            Figure(
                f"load.p{share * 100:.0f}",
                percentile(times, share),
                "ms",
                goal=GOAL_P99_MS if share == 0.99 else None,
                note=f"{QUESTIONS_A_SECOND} questions/s and {MEMORIES_A_SECOND} memories/s, {LOAD_SECONDS} s",
            )
            for share in (0.5, 0.99)
        ],
    ]


async def _by_the_clock(once: Callable[[int], Awaitable[object]]) -> list[float]:
    """Start a question when its time has come, whatever became of the others; milliseconds from that time."""
    times: list[float] = []
    start = perf_counter()

    async def one(turn: int) -> None:
        due = start + turn / QUESTIONS_A_SECOND
        await asyncio.sleep(max(0.0, due - perf_counter()))
        await once(turn)
        times.append((perf_counter() - due) * 1000)

    async with asyncio.TaskGroup() as group:
        for turn in range(LOAD_SECONDS * QUESTIONS_A_SECOND):
            group.create_task(one(turn))
    return times


async def write(store: SpaceStore, corpus: Corpus) -> None:
    """Let memories arrive by the clock."""
    start, count = perf_counter(), MEMORIES_A_SECOND // WRITES_A_SECOND
    for turn in range(LOAD_SECONDS * WRITES_A_SECOND):
        await asyncio.sleep(max(0.0, start + turn / WRITES_A_SECOND - perf_counter()))
        first = 100_000 + turn * count
        await store.apply([puts(corpus, first, first + count)])


async def serve(folder: Path, count: int, dims: int) -> None:
    """Serve until standard input ends; the port goes to standard output, then a line for every one read."""
    async with opened(folder) as context, listening(make_app(context), "127.0.0.1", 0) as port:
        print(port, flush=True)
        corpus = None
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip() == "think up":
                corpus = await asyncio.to_thread(Corpus, 4_000, dims)
            if line.strip() == "write" and corpus is not None:
                async with context.pool.use(SPACE) as store:
                    await write(store, corpus)
            await context.searcher.settled()
            print("done", flush=True)


if __name__ == "__main__":
    from appview.logs import configure

    configure("json", "warning")
    with short_turns():
        asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
