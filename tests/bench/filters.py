"""What filters cost: the same questions with filters of every kind that keep 10 %, 1 % and 0.1 %.

The space has 100,000 memories; a tenth of them is at one path, by one author, of late, and so on. Each
question is asked without a filter and then with one, so that both meet the same machine.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from appview.memory.scope import EVERYTHING
from appview.memory.store import SpaceStore
from appview.memory.superseding import Succession
from appview.memory.values import Filters
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest
from lexicons.datetimes import parse_micros
from lexicons.syntax import Did
from tests.bench.access import MEMORIES, SPACE, fill, now, questions, rkey
from tests.bench.harness import Figure, benchmark, percentile, timed

GOAL_RATIO: Final = 2.0
SHARES: Final = {10: "tenth", 100: "hundredth", 1_000: "thousandth"}
OTHERS: Final = Did("did:plc:bbbbbbbbbbbbbbbbbbbbbbbb")
AUTHORS: Final = {share: Did(f"did:web:{name}.example") for share, name in SHARES.items()}
DAY: Final = 86_400_000_000  # microseconds
START: Final = parse_micros("2024-01-01T00:00:00Z")


def tags(number: int) -> tuple[str, ...]:
    path = f"/a/{number % 10}/{number % 100}/{number % 1_000}"
    labels = [f"{name}{number % share}" for share, name in SHARES.items()]
    old = (f"supersedes={author(number - 1)}/{rkey(number - 1)}",) if number % 100 == 99 else ()
    return path, *labels, f"kind=k{number % 10}", *old


def author(number: int) -> Did:
    """A tenth, a hundredth and a thousandth are by one author each."""
    for share in sorted(SHARES, reverse=True):
        if number % share == 5:
            return AUTHORS[share]
    return OTHERS


def created_at(number: int) -> str:
    minutes = number
    days, minutes = divmod(minutes, 1_440)
    return f"2024-{1 + days // 28:02}-{1 + days % 28:02}T{minutes // 60:02}:{minutes % 60:02}:00.000Z"


def filters() -> dict[str, Filters]:
    """Filters by name."""
    made: dict[str, Filters] = {}
    for share, name in SHARES.items():
        path = "/a" + "".join(f"/{5 % step}" for step in SHARES if step <= share)
        made[f"tags.{name}"] = Filters(tags=(f"{name}5",))
        made[f"path.{name}"] = Filters(path=path)
        made[f"author.{name}"] = Filters(author=AUTHORS[share])
        made[f"since.{name}"] = Filters(since=parse_micros(created_at(MEMORIES - MEMORIES // share)))
    made["together"] = Filters(author=OTHERS, tags=("tenth4",), path="/a/4", since=START)
    return made


@benchmark("filters")
async def run() -> list[Figure]:
    """Milliseconds a hybrid question by filter."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as executor:
        store = await SpaceStore.open(Path(folder) / "space.db", SPACE, executor, now, analyser=ANALYSIS)
        await fill(store, tags, author, created_at)
        searcher = Searcher(cache=ViewCache(ANALYSIS))
        asked = questions()

        async def ask(request: SearchRequest) -> float:
            with timed() as timer:
                await searcher.search(store, request, EVERYTHING)
            return 1_000 * timer.seconds

        await ask(asked[0])
        await searcher.settled()
        for request in asked[:5]:
            await ask(request)
        for name, narrow in filters().items():
            plain, times = [], []
            for request in asked:
                plain.append(await ask(request))
                times.append(await ask(replace(request, filters=narrow)))
            figures.append(_figure(f"filters.{name}", times, plain))
        plain, times = [], []
        for request in asked:
            plain.append(await ask(replace(request, succession=Succession(shown=True))))
            times.append(await ask(request))
        figures.append(_figure("filters.superseded", times, plain))
        await store.close()
    return figures


def _figure(name: str, times: list[float], plain: list[float]) -> Figure:
    baseline = percentile(plain, 0.5)
    return Figure(name, percentile(times, 0.5), "ms", baseline, GOAL_RATIO, goal_is_ratio=True)
