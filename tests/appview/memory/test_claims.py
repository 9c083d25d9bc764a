"""Claims to supersede follow the file, and those that are hidden from a reader cost the reader nothing."""

from __future__ import annotations

import asyncio
import random
from threading import Event
from typing import TYPE_CHECKING

import pytest

from appview.memory import claims
from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Scope, Subtree
from appview.memory.stopping import Stopped, stopping
from appview.memory.superseding import Superseding
from tests.appview.memory.support import ALICE, BOB, commit, delete, memory, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.memory.store import SpaceStore
    from appview.memory.superseding import WriteScope
    from appview.sqlite import Connection

SCOPES = [
    EVERYTHING,
    NOTHING,
    Scope(frozenset({Subtree("/open")})),
    Scope(frozenset({Subtree("/")}), frozenset({Subtree("/secret")})),
    Scope(frozenset({Subtree("/")}), frozenset({Attribute("level", "top")})),
    Scope(frozenset({Attribute("owner", ALICE), Exact("/secret")})),
]
OPEN = SCOPES[3]
HIDDEN = 3_000


def everybody(author: str) -> Scope:
    return EVERYTHING


async def found(
    store: SpaceStore, known: Superseding, scope: Scope, may_write: WriteScope = everybody
) -> frozenset[int]:
    return await store.database.read(lambda connection: known.ids(connection, scope, may_write))


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_kept_is_what_the_file_says_after_every_change(
    store: SpaceStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MIN_FOLLOWED", (1, 1_000)[seed % 2])
    monkeypatch.setattr(claims, "MAX_KEPT", (1_000, 5)[seed // 4])
    chance = random.Random(seed)
    keys = [f"r{number}" for number in range(12)]
    some = 0
    for number in range(1, 60):
        author = chance.choice([ALICE, BOB])
        changes = []
        for key in chance.sample(keys, chance.choice([1, 1, 3])):
            target = f"{chance.choice([ALICE, BOB])}/{chance.choice(keys)}"
            tags = [chance.choice(["/open", "/secret", "/open/deep"]), *([f"supersedes={target}"] * 1)]
            tags += ["level=top"] if chance.random() < 0.2 else []
            plain = memory(f"{number}", tags[0])
            value = memory(f"{number}", *tags) if chance.random() < 0.6 else plain
            changes.append(delete(key) if chance.random() < 0.2 else put(key, value))
        await store.apply([commit(number, *changes, author=author)])
        if chance.random() < 0.1:
            await store.set_path_tag("/open", "level", chance.choice(["top", "low"]))
        for scope in chance.sample(SCOPES, 3):
            expected = await found(store, Superseding(), scope)
            assert await found(store, store.superseding, scope) == expected
            some += len(expected)
            kept = store.superseding._claims._kept
            assert kept is None or kept.claims.keys() <= set(kept.claiming.tolist())
    assert some > 50


async def test_a_reader_of_an_older_state_sees_that_state(store: SpaceStore) -> None:
    await store.apply([commit(1, put("old"), put("new", memory("new", "supersedes=old")))])
    begun, written = Event(), Event()

    def older(connection: Connection) -> int:
        connection.execute("SELECT count(*) FROM facts").fetchone()
        begun.set()
        assert written.wait(30)
        return len(store.superseding.ids(connection, EVERYTHING, everybody))

    reading = asyncio.create_task(store.database.read(older))
    await asyncio.to_thread(begun.wait, 30)
    await store.apply([commit(2, put("newer", memory("newer", "supersedes=new")))])
    assert len(await found(store, store.superseding, EVERYTHING)) == 2
    written.set()
    assert await reading == 1
    assert len(await found(store, store.superseding, EVERYTHING)) == 2


async def test_changes_that_are_not_known_any_more_are_read_anew(store: SpaceStore) -> None:
    await store.apply([commit(1, put("old"), put("new", memory("new", "supersedes=old")))])
    assert len(await found(store, store.superseding, EVERYTHING)) == 1
    await store.apply([commit(2, put("newer", memory("newer", "supersedes=new")))])
    await store.database.write(lambda connection: connection.execute("DELETE FROM changes").fetchall())
    assert len(await found(store, store.superseding, EVERYTHING)) == 2


async def test_what_was_read_until_time_was_over_is_kept(
    store: SpaceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "READ_AT_ONCE", 10)
    monkeypatch.setattr("appview.memory.stopping.STEPS", 100)
    puts = [put(f"k{n}", memory(str(n), f"supersedes=k{n - 1}")) for n in range(300)]
    await store.apply([commit(1, *puts)])
    known = Superseding()
    held: list[int] = []

    def work(connection: Connection) -> None:
        looks = 0

        def over() -> bool:
            nonlocal looks
            looks += 1
            return looks > 60

        with stopping(connection, over):
            known.ids(connection, EVERYTHING, everybody)

    for _ in range(100):
        try:
            await store.database.read(work)
            break
        except Stopped:
            kept = known._claims._kept
            held.append(0 if kept is None else len(kept.claims))
    else:
        pytest.fail("it never ends")
    assert 0 < held[0] < 300
    assert held == sorted(held)
    assert await found(store, known, EVERYTHING) == await found(store, Superseding(), EVERYTHING)


def counting(connection: Connection, work: Callable[[], object]) -> int:
    """Count the steps of SQLite, by the ten."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(step, 10)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 0)
    return steps


async def test_hidden_claims_cost_nothing_after_a_write(store: SpaceStore) -> None:
    """The same space with and without them: as many steps after every write, and the same answer."""
    shown = [put(f"o{n}", memory(str(n), "/open", f"supersedes=o{n - 1}")) for n in range(40)]
    await store.apply([commit(1, *shown)])

    async def steps() -> int:
        def work(connection: Connection) -> int:
            return counting(connection, lambda: store.superseding.ids(connection, OPEN, everybody))

        return await store.database.read(work)

    first = await steps()
    await store.apply([commit(2, put("p0", memory("p", "/open", "supersedes=o39")))])
    alone = await steps()
    gone = await found(store, store.superseding, OPEN)
    assert len(gone) == 40
    hidden = [put(f"s{n}", memory(str(n), "/secret", f"supersedes=s{n - 1}")) for n in range(HIDDEN)]
    for start in range(0, HIDDEN, 500):
        await store.apply([commit(3 + start, *hidden[start : start + 500])])
    fresh = Superseding()

    def cold(connection: Connection) -> int:
        return counting(connection, lambda: fresh.ids(connection, OPEN, everybody))

    # The first time they are passed over, each in no more steps than finding out that it is hidden takes.
    assert await store.database.read(cold) < first + 3 * HIDDEN
    kept = fresh._claims._kept
    assert kept is not None
    assert len(kept.claims) == 41
    assert len(kept.ends) == 41
    await steps()
    for number, path in enumerate(("/secret", "/open", "/secret")):
        tags = (path, f"supersedes={'p0' if path == '/open' else 's7'}")
        await store.apply([commit(9_000 + number, put(f"q{number}", memory("q", *tags)))])
        assert await steps() <= alone + 40, path
    assert gone < await found(store, store.superseding, OPEN)
    assert await found(store, store.superseding, OPEN) == await found(store, Superseding(), OPEN)
