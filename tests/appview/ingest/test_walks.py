"""Turns of computing: short work is done soon whatever else is to be done, long work comes to its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from appview.ingest.errors import Rejected
from appview.ingest.walks import Line, Walk, Walks, finish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from appview.ingest.walks import Work


class Desk:
    """Work whose steps take a second each of a clock that nothing else moves; a turn has four."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []  # whose step it was
        self.walks = Walks(seconds=4.0, monotonic=lambda: self.now)
        self.tasks: list[asyncio.Task[str]] = []

    def steps(self, name: str, count: int | None, error: Exception | None = None) -> Work[str]:
        """Do so many steps, or go on for ever."""
        while count is None or count > 0:
            self.now += 1.0
            self.done.append(name)
            count = None if count is None else count - 1
            yield
        if error is not None:
            raise error
        return name

    def want(
        self, name: str, count: int | None, *, site: str | None = None, error: Exception | None = None
    ) -> asyncio.Task[str]:
        task = asyncio.create_task(self.walks.run(site or name, self.steps(name, count, error)))
        self.tasks.append(task)
        return task

    async def until_done(self, name: str, count: int) -> None:
        async with asyncio.timeout(10):
            while self.done.count(name) < count:  # noqa: ASYNC110 - a thread signals nothing
                await asyncio.sleep(0.001)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_what_is_short_is_done_beside_what_never_ends(desk: Desk) -> None:
    for name in ("one", "two", "three"):
        desk.want(name, None)
    await desk.until_done("three", 8)
    before = len(desk.done)
    async with asyncio.timeout(10):
        assert await desk.want("newcomer", 3) == "newcomer"
    first = desk.done.index("newcomer", before)
    assert desk.done[first : first + 3] == ["newcomer"] * 3, "it has its turn for itself"


async def test_what_is_long_comes_to_its_end_beside_many_that_are_short(desk: Desk) -> None:
    long = desk.want("long", 40)
    async with asyncio.timeout(20):
        while not long.done():
            await asyncio.gather(*(desk.want(f"short {number}", 2) for number in range(5)))
    assert long.result() == "long"


async def test_an_error_ends_its_own_work_alone(desk: Desk) -> None:
    failing = desk.want("failing", 6, error=Rejected("bad-node", "no tree"))
    other = desk.want("other", 20)
    async with asyncio.timeout(10):
        with pytest.raises(Rejected):
            await failing
        assert await other == "other"


async def test_whoever_is_cancelled_gives_the_turn_to_others(desk: Desk) -> None:
    running, waiting = desk.want("running", None), desk.want("waiting", None)
    await desk.until_done("waiting", 4)
    running.cancel()
    waiting.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    async with asyncio.timeout(10):
        assert await desk.want("other", 20) == "other"


async def test_a_turn_that_comes_at_the_moment_of_being_cancelled_is_not_lost(desk: Desk) -> None:
    async def first() -> None:
        await desk.walks.run("first", desk.steps("first", 3))
        second.cancel()  # whose turn it is now, which it does not know yet

    task = asyncio.create_task(first())
    await asyncio.sleep(0)
    second = desk.want("second", 3)
    async with asyncio.timeout(10):
        await task
        assert await desk.want("third", 3) == "third"
    assert second.cancelled()
    assert "second" not in desk.done


def test_work_can_be_done_at_once() -> None:
    assert finish(Desk().steps("all", 100)) == "all"


# Who is next


def only(walk: Walk | None) -> Walk:
    assert walk is not None
    return walk


def turns(walks: Iterable[Walk], count: int) -> Iterator[Walk]:
    """Give turns to walks that never end."""
    line = Line()
    for walk in walks:
        line.enter(walk)
    for _ in range(count):
        walk = only(line.next())
        line.enter(walk)
        yield walk


@pytest.mark.parametrize("site", ["a", "new"])
def test_a_newcomer_waits_for_one_turn_of_others_at_most(site: str) -> None:
    line, before = Line(), 0
    old = [Walk("abc"[number % 3]) for number in range(12)]
    for walk in old:
        line.enter(walk)
    while not all(walk.turns for walk in old):
        line.enter(only(line.next()))
    for _ in range(50):
        newcomer = Walk(site)
        line.enter(newcomer)
        waited = 0
        while (walk := only(line.next())) is not newcomer:
            line.enter(walk)
            waited += 1
        assert waited <= 1
        for _ in range(before := before % 3 + 1):
            line.enter(only(line.next()))


def test_sites_share_alike_however_many_walks_they_have() -> None:
    given = Counter(walk.site for walk in turns([Walk("one"), *(Walk("many") for _ in range(9))], 400))
    assert given["one"] >= 100, "a half of the turns that go by site, at least"


@over(st.lists(st.sampled_from("abc"), min_size=1, max_size=8))
def test_nobody_is_left_out(sites: list[str]) -> None:
    walks = [Walk(site) for site in sites]
    given = Counter(turns(walks, 40 * len(walks)))
    assert set(given) == set(walks)


@over(st.lists(st.booleans(), max_size=40))
def test_each_turn_is_of_one_that_waits(steps: list[bool]) -> None:
    line, waiting = Line(), set()
    for enters in steps:
        if enters:
            walk = Walk("site")
            waiting.add(walk)
            line.enter(walk)
        else:
            found = line.next()
            assert (found is None) == (not waiting)
            waiting.discard(found)
