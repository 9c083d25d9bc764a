"""Group commits: what is written when, and what happens when it cannot be."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from appview.control import RepoRow
from appview.control_files import FileState
from appview.errors import StoreError, StoreMismatch
from appview.ingest.committer import LINGER, MAX_OPEN_BYTES, MAX_OPEN_UPDATES, Committer
from appview.ingest.fairness import MAX_PIECE, MAX_WHOLE
from appview.memory.complete import CHANGE_COST, cost
from appview.memory.values import Applied, Delete, RepoUpdate
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.test_fairness import put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from appview.memory.complete import Merge

ALICE = Did("did:plc:alice")
BOB = Did("did:plc:bob")
GARDEN = SpaceUri.public(ALICE)
SHED = SpaceUri.public(BOB)


def update(number: int, author: Did = ALICE) -> RepoUpdate:
    return RepoUpdate(author, f"{number:013}", (Delete("3jzfcijpj2z2a"),))


class Nothing:
    """A connection to a space that holds nothing."""

    def execute(self, _sql: str, _values: object) -> Nothing:
        return self

    def fetchall(self) -> list[object]:
        return []


NOTHING = Nothing()


class Disk:
    """Spaces and control.db as one journal of what reached them, with knobs for what fails."""

    def __init__(self) -> None:
        self.journal: list[tuple[str, Any]] = []
        self.batches: dict[SpaceUri, list[list[RepoUpdate]]] = defaultdict(list)
        self.errors: list[Exception] = []  # raised by the next writes
        self.damaged: set[SpaceUri] = set()
        self.poison: str | None = None  # a rev that no store can take
        self.written: dict[SpaceUri, FileState] = {}
        self.files = self
        self.slow: set[SpaceUri] | None = None  # who waits at the gate; None: everybody
        self.gate = asyncio.Event()
        self.gate.set()

    @asynccontextmanager
    async def use(self, space: SpaceUri) -> AsyncIterator[Store]:
        if space in self.damaged:
            raise StoreMismatch("not this space's file")
        yield Store(self, space)

    async def put(self, states: Mapping[SpaceUri, FileState]) -> None:
        self._fail()
        self.journal.append(("files", [state.writes for state in states.values()]))

    def noted(self, states: Mapping[SpaceUri, FileState]) -> None:
        for space in states:
            del self.written[space]

    async def put_repos(self, rows: Sequence[RepoRow]) -> None:
        self._fail()
        self.journal.append(("repos", [row.rev for row in rows]))

    async def set_cursor(self, source: str, position: int, now: int) -> None:
        self._fail()
        self.journal.append(("cursor", position))

    def _fail(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


class Store:
    """One space of the disk."""

    def __init__(self, disk: Disk, space: SpaceUri) -> None:
        self._disk = disk
        self._space = space

    async def apply(
        self, updates: Sequence[RepoUpdate], merge: Merge | None = None, most: int | None = None
    ) -> Applied:
        if self._disk.slow is None or self._space in self._disk.slow:
            await self._disk.gate.wait()
        self._disk._fail()
        if any(each.rev == self._disk.poison for each in updates):
            raise ValueError("no store can take this")
        if merge is not None:
            given = list(merge.read(NOTHING, most))  # type: ignore[arg-type]
            updates = [replace(updates[0], changes=tuple(given), partial=not merge.is_over)]
        self._disk.journal.append(("space", [each.rev for each in updates]))
        self._disk.batches[self._space].append(list(updates))
        return Applied(created=len(updates))


@asynccontextmanager
async def committing(disk: Disk) -> AsyncIterator[Committer]:
    async def sleep(_seconds: float) -> None:
        await asyncio.sleep(0)

    committer = Committer(disk, disk, lambda: 1, random=lambda: 0.5, sleep=sleep)  # type: ignore[arg-type]
    task = asyncio.create_task(committer.run())
    try:
        yield committer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def revs(disk: Disk, space: SpaceUri = GARDEN) -> list[int]:
    return [int(each.rev) for batch in disk.batches[space] for each in batch]


async def test_what_a_file_was_is_noted_before_the_cursor_that_stands_for_it() -> None:
    disk = Disk()
    disk.errors = [StoreError("full")]
    async with committing(disk) as committer:
        disk.written[GARDEN] = FileState("a", 7)
        committer.note(RepoRow(ALICE, 1, rev="3"))
        committer.reached("source", 1)
        await committer.flush()
        assert disk.journal == [("files", [7]), ("repos", ["3"]), ("cursor", 1)]
        committer.reached("source", 2)
        await committer.flush()
        assert disk.journal[3:] == [("cursor", 2)]


async def test_updates_are_written_before_repos_and_repos_before_the_cursor() -> None:
    disk = Disk()
    async with committing(disk) as committer:
        committer.add({GARDEN: update(1)}, 10)
        committer.note(RepoRow(ALICE, 1, rev="1"))
        committer.reached("source", 7)
        await committer.flush()
    assert [what for what, _ in disk.journal] == ["space", "repos", "cursor"]


async def test_an_update_alone_is_written_soon() -> None:
    loop, disk = asyncio.get_running_loop(), Disk()
    async with committing(disk) as committer:
        for number in range(1, 30):  # a machine that is busy may need more than one attempt
            began = loop.time()
            committer.add({GARDEN: update(number)}, 10)
            while len(revs(disk)) < number:  # noqa: ASYNC110 - the store signals nothing
                await asyncio.sleep(0.001)
            if loop.time() - began < 0.05:
                return
    raise AssertionError


async def test_updates_gather_while_a_batch_is_written() -> None:
    disk = Disk()
    async with committing(disk) as committer:
        disk.gate.clear()
        committer.add({GARDEN: update(0)}, 10)
        await asyncio.sleep(LINGER * 2)
        for number in range(1, 100):
            committer.add({GARDEN: update(number)}, 10)
            await asyncio.sleep(0)
        disk.gate.set()
        await committer.flush()
    assert revs(disk) == list(range(100))
    assert len(disk.batches[GARDEN]) == 2


@pytest.mark.parametrize(("count", "size"), [(MAX_OPEN_UPDATES, 1), (16, MAX_OPEN_BYTES // 16)])
async def test_too_much_that_is_not_written_makes_the_sender_wait(count: int, size: int) -> None:
    disk = Disk()
    async with committing(disk) as committer:
        disk.gate.clear()
        for number in range(count - 1):
            committer.add({GARDEN: update(number)}, size)
        async with asyncio.timeout(1):
            await committer.room()
        committer.add({GARDEN: update(count - 1)}, size)
        room = asyncio.create_task(committer.room())
        await asyncio.sleep(LINGER * 2)
        assert not room.done()
        disk.gate.set()
        await room
        await committer.flush()
    assert revs(disk) == list(range(count))
    assert max(len(batch) for batch in disk.batches[GARDEN]) <= MAX_OPEN_UPDATES


async def test_a_space_that_takes_long_delays_no_other() -> None:
    disk = Disk()
    disk.slow = {GARDEN}
    async with committing(disk) as committer:
        disk.gate.clear()
        committer.add({GARDEN: update(0), SHED: update(0)}, 10)
        committer.reached("source", 1)
        for number in range(1, 20):
            await asyncio.sleep(LINGER)
            committer.add({SHED: update(number)}, 10)
            committer.reached("source", number + 1)
        async with asyncio.timeout(2):
            while revs(disk, SHED) != list(range(20)):  # noqa: ASYNC110 - the store signals nothing
                await asyncio.sleep(0.001)
        assert revs(disk) == []
        assert not [what for what, _ in disk.journal if what == "cursor"]
        disk.gate.set()
        await committer.flush()
    assert revs(disk) == [0]
    assert disk.journal[-1] == ("cursor", 20)


async def test_who_comes_with_little_does_not_wait_for_who_came_with_much() -> None:
    disk = Disk()
    much = tuple(put(number, 20_000) for number in range(200))
    async with committing(disk) as committer:
        disk.gate.clear()
        for number in range(10):
            committer.add({GARDEN: RepoUpdate(ALICE, f"{number:013}", much)}, 10)
        assert committer.is_full(ALICE)
        assert not committer.is_full(BOB)
        await asyncio.sleep(LINGER * 3)
        committer.add({GARDEN: update(10, BOB)}, 10)
        committer.reached("source", 1)
        await asyncio.sleep(LINGER * 3)
        disk.gate.set()
        await committer.flush()
        assert not committer.is_full(ALICE)
    first = next(
        place for place, group in enumerate(disk.batches[GARDEN]) for each in group if each.author == BOB
    )
    assert first <= 2
    assert len(disk.batches[GARDEN]) > 20
    hers = [each for group in disk.batches[GARDEN] for each in group if each.author == ALICE]
    assert [each.rev for each in hers if not each.partial] == [f"{number:013}" for number in range(10)]
    assert [each.rev for each in hers] == sorted(each.rev for each in hers)
    assert [change for each in hers for change in each.changes] == 10 * list(much)
    assert [what for what, _ in disk.journal if what == "cursor"] == ["cursor"]
    assert disk.journal[-1] == ("cursor", 1)


@pytest.mark.parametrize("failures", [0, 1, 3])
async def test_others_go_between_the_parts_of_what_is_complete(failures: int) -> None:
    disk = Disk()
    whole = tuple(put(number, 20_000) for number in range(200))
    async with committing(disk) as committer:
        disk.gate.clear()
        disk.errors = [StoreError("database or disk is full")] * failures
        committer.add({GARDEN: RepoUpdate(ALICE, f"{1:013}", whole, complete=True)}, 0)
        committer.add({GARDEN: update(2)}, 10)
        await asyncio.sleep(LINGER * 3)
        committer.add({GARDEN: update(3, BOB)}, 10)
        committer.reached("source", 1)
        await asyncio.sleep(LINGER * 3)
        disk.gate.set()
        await committer.flush()
    order = [each for group in disk.batches[GARDEN] for each in group]
    parts = [each for each in order if each.rev == f"{1:013}"]
    assert len(parts) > 3
    assert [each.partial for each in parts] == [True] * (len(parts) - 1) + [False]
    assert [change for each in parts for change in each.changes] == list(whole)
    assert [each.author for each in order].index(BOB) <= 2
    assert order[-1].rev == f"{2:013}"
    assert disk.journal[-1] == ("cursor", 1)


@pytest.mark.parametrize("complete", [True, False], ids=["repo", "commit"])
async def test_what_does_not_take_long_is_seen_at_once(complete: bool) -> None:
    most = MAX_WHOLE if complete else MAX_PIECE
    one = cost(put(0, 1_000))
    fits = tuple(put(number, 1_000) for number in range((most - CHANGE_COST) // one))
    for changes, parts in ((fits, 1), ((*fits, put(len(fits), 1_000), put(len(fits) + 1, 1_000)), 2)):
        disk = Disk()
        async with committing(disk) as committer:
            committer.add({GARDEN: RepoUpdate(ALICE, f"{1:013}", changes, complete=complete)}, 0)
            await committer.flush()
        written = [each for group in disk.batches[GARDEN] for each in group]
        assert [each.partial for each in written] == [True] * (parts - 1) + [False]
        assert [change for each in written for change in each.changes] == list(changes)


async def test_a_cursor_never_passes_what_is_not_written() -> None:
    disk = Disk()
    async with committing(disk) as committer:
        disk.gate.clear()
        committer.add({GARDEN: update(1)}, 10)
        committer.reached("source", 1)
        await asyncio.sleep(LINGER * 2)
        committer.add({GARDEN: update(2)}, 10)
        committer.reached("source", 2)
        await asyncio.sleep(LINGER * 2)
        assert disk.journal == []
        disk.gate.set()
        await committer.flush()
    for at, (what, value) in enumerate(disk.journal):
        if what == "cursor":
            written = [int(rev) for kind, each in disk.journal[:at] if kind == "space" for rev in each]
            assert value in written


@pytest.mark.parametrize("failures", [1, 3])
async def test_a_disk_that_fails_is_tried_again_and_nothing_is_lost(failures: int) -> None:
    disk = Disk()
    disk.errors = [StoreError("database or disk is full")] * failures
    async with committing(disk) as committer:
        for number in range(5):
            committer.add({GARDEN: update(number)}, 10)
            committer.reached("source", number)
        await committer.flush()
        assert committer.failing is None
    assert revs(disk) == [0, 1, 2, 3, 4]
    assert disk.journal[-1] == ("cursor", 4)


async def test_a_control_file_that_fails_holds_the_cursor_only() -> None:
    disk = Disk()
    async with committing(disk) as committer:
        disk.gate.clear()
        committer.add({GARDEN: update(1)}, 10)
        committer.note(RepoRow(ALICE, 1, rev="1"))
        committer.reached("source", 1)
        flushed = asyncio.create_task(committer.flush())
        await asyncio.sleep(LINGER * 2)
        disk.gate.set()
        await asyncio.sleep(0)
        disk.errors = []
        await flushed
        disk.errors = [StoreError("read-only")]
        committer.reached("source", 2)
        await committer.flush()
    assert revs(disk) == [1]
    assert [value for what, value in disk.journal if what == "cursor"] == [1, 2]


async def test_a_space_beyond_use_is_set_apart() -> None:
    disk = Disk()
    disk.damaged = {GARDEN}
    async with committing(disk) as committer:
        committer.add({GARDEN: update(1), SHED: update(1)}, 10)
        committer.reached("source", 1)
        await committer.flush()
        assert committer.outcomes["space set apart"] == 1
    assert revs(disk, SHED) == [1]
    assert disk.journal[-1] == ("cursor", 1)


async def test_an_update_that_no_store_can_take_is_left_out_alone() -> None:
    disk = Disk()
    disk.poison = update(2).rev
    async with committing(disk) as committer:
        for number in range(5):
            committer.add({GARDEN: update(number)}, 10)
        await committer.flush()
        assert committer.outcomes["refused by the store"] == 1
    assert revs(disk) == [0, 1, 3, 4]


async def test_positions_alone_are_written_now_and_then() -> None:
    disk = Disk()
    async with committing(disk) as committer:
        for number in range(50):
            committer.reached("source", number)
            await asyncio.sleep(0.002)
        await committer.flush()
    cursors = [value for what, value in disk.journal if what == "cursor"]
    assert cursors[-1] == 49
    assert len(cursors) <= 4
