"""Which facts have been superseded, and for whom."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Scope, Subtree
from appview.memory.superseding import MAX_KNOWN, Succession, gone
from lexicons.syntax import AtUri
from tests.appview.memory.support import ALICE, BOB, commit, delete, memory, put

if TYPE_CHECKING:
    from appview.memory.store import SpaceStore

OVER_ALICE = f"supersedes={ALICE}/old"
SHOWN = Succession(shown=True)


def everybody(author: str) -> Scope:
    return EVERYTHING


async def listed(
    store: SpaceStore, scope: Scope = EVERYTHING, succession: Succession | None = None
) -> list[str]:
    return sorted(
        fact.rkey for fact in await store.list(scope, limit=50, succession=succession or Succession())
    )


async def test_an_author_supersedes_what_is_theirs(store: SpaceStore) -> None:
    await store.apply([commit(1, put("old"), put("new", memory("new", "supersedes=old")))])
    assert await listed(store) == ["new"]
    assert await listed(store, succession=SHOWN) == ["new", "old"]
    marks = {fact.rkey: fact.superseded for fact in await store.list(EVERYTHING, limit=9, succession=SHOWN)}
    assert marks == {"new": False, "old": True}


async def test_it_is_left_out_of_every_list_and_of_the_tree_and_found_by_name(store: SpaceStore) -> None:
    old = memory("old", "/a/b")
    await store.apply([commit(1, put("old", old), put("new", memory("new", "/a", "supersedes=old")))])
    assert [fact.rkey for fact in await store.path_facts(EVERYTHING, "/a/b", limit=9)] == []
    assert [f.rkey for f in await store.path_facts(EVERYTHING, "/a/b", limit=9, succession=SHOWN)] == ["old"]
    assert [node.descendants for node in await store.paths(EVERYTHING, limit=9)] == [1]
    assert [node.descendants for node in await store.paths(EVERYTHING, limit=9, succession=SHOWN)] == [2]
    found = await store.get(AtUri(f"at://{ALICE}/garden.engram.memory/old"), EVERYTHING)
    assert found is not None
    assert found.superseded


async def test_another_author_needs_the_right_to_write_over_it(store: SpaceStore) -> None:
    await store.apply([commit(1, put("old", memory("old", "/a", "kind=note")))])
    await store.apply([commit(1, put("new", memory("new", OVER_ALICE)), author=BOB)])
    allowed = [EVERYTHING, Scope(frozenset({Subtree("/a")})), Scope(frozenset({Attribute("kind", "note")}))]
    refused = [
        NOTHING,
        Scope(frozenset({Exact("/b")})),
        Scope(frozenset({Subtree("/")}), frozenset({Exact("/a")})),
    ]
    for scope in allowed:
        assert await listed(store, succession=Succession(lambda _, scope=scope: scope)) == ["new"]
    for scope in refused:
        assert await listed(store, succession=Succession(lambda _, scope=scope: scope)) == ["new", "old"]
    assert await listed(store) == ["new", "old"]
    asked: list[str] = []
    await listed(store, succession=Succession(lambda author: asked.append(author) or NOTHING))  # type: ignore[func-returns-value]
    assert asked == [BOB]


async def test_what_was_worked_out_holds_until_data_or_rules_change(store: SpaceStore) -> None:
    await store.apply([commit(1, put("old", memory("old", "/a")), put("mine"))])
    await store.apply([commit(1, put("new", memory("new", OVER_ALICE)), author=BOB)])
    everything, a = Scope(frozenset({Subtree("/")})), Scope(frozenset({Exact("/a")}))
    for _ in range(2):
        assert await listed(store, succession=Succession(lambda _: everything)) == ["mine", "new"]
        assert await listed(store, succession=Succession(lambda _: NOTHING)) == ["mine", "new", "old"]
        assert await listed(store, a, Succession(lambda _: everything)) == ["old"]
    await store.apply([commit(2, put("newer", memory("newer", "supersedes=mine")))])
    assert await listed(store, succession=Succession(lambda _: everything)) == ["new", "newer"]
    for number in range(MAX_KNOWN + 5):
        scope = Scope(frozenset({Exact("/"), Exact(f"/{number}")}))
        assert await listed(store, scope, Succession(lambda _: everything)) == ["new", "newer"]


async def test_what_a_reader_may_not_read_hides_nothing_from_them(store: SpaceStore) -> None:
    await store.apply(
        [commit(1, put("old", memory("old", "/a")), put("new", memory("n", "/b", "supersedes=old")))]
    )
    assert await listed(store, Scope(frozenset({Exact("/a")}))) == ["old"]
    assert await listed(store, Scope(frozenset({Subtree("/")}))) == ["new"]
    assert await listed(store, NOTHING) == []


async def test_what_a_reader_may_not_read_is_not_counted_for_them(store: SpaceStore) -> None:
    hidden, gone = memory("h", "/a"), memory("g", "/b")
    new = memory("n", "/b", "supersedes=hidden", "supersedes=gone")
    await store.apply([commit(1, put("hidden", hidden), put("gone", gone), put("new", new))])

    async def count(scope: Scope) -> int:
        return len(
            await store.database.read(lambda connection: store.superseding.ids(connection, scope, everybody))
        )

    assert await count(EVERYTHING) == 2
    assert await count(Scope(frozenset({Exact("/b")}))) == 1


async def test_deleting_or_changing_what_supersedes_brings_it_back(store: SpaceStore) -> None:
    await store.apply([commit(1, put("old"), put("new", memory("new", "supersedes=old")))])
    await store.apply([commit(2, put("new", memory("new")))])
    assert await listed(store) == ["new", "old"]
    await store.apply([commit(3, put("new", memory("new", "supersedes=old")))])
    assert await listed(store) == ["new"]
    await store.apply([commit(4, delete("new"))])
    assert await listed(store) == ["old"]


async def test_a_chain_leaves_its_end_and_a_circle_its_newest(store: SpaceStore) -> None:
    await store.apply(
        [
            commit(
                1,
                put("a"),
                put("b", memory("b", "supersedes=a")),
                put("c", memory("c", "supersedes=b")),
                put("x", memory("x", "supersedes=y", created_at="2026-01-01T00:00:00Z")),
                put("y", memory("y", "supersedes=x", created_at="2026-01-02T00:00:00Z")),
            )
        ]
    )
    assert await listed(store) == ["c", "y"]


@pytest.mark.parametrize("target", ["nothing", "did:plc:nobody/a"])
async def test_superseding_what_is_not_there_does_nothing(store: SpaceStore, target: str) -> None:
    await store.apply([commit(1, put("a", memory("a", f"supersedes={target}")))])
    assert await listed(store) == ["a"]


pairs = st.integers(1, 9).flatmap(
    lambda size: st.lists(st.tuples(st.integers(0, size), st.integers(0, size)), max_size=20)
)


@given(pairs, st.integers(0, 1_000))
@example([(0, 1), (1, 0), (2, 3), (3, 2), (3, 0)], 1)  # a circle that leads into another one
@example([(2, 3), (3, 2), (0, 1), (1, 0), (1, 2)], 1)
def test_everything_gone_is_led_to_from_what_stands(edges: list[tuple[int, int]], seed: int) -> None:
    supersedes: dict[int, set[int]] = {}
    for source, target in edges:
        if source != target:
            supersedes.setdefault(source, set()).add(target)
    nodes = {node for edge in edges for node in edge}
    order = sorted(nodes)
    random.Random(seed).shuffle(order)
    places = {node: (number, "", "") for number, node in enumerate(order)}
    found = gone(supersedes, places)
    targets = {target for inner in supersedes.values() for target in inner}

    def reach(start: int) -> set[int]:
        reached: set[int] = set()
        waiting = [start]
        while waiting:
            new = supersedes.get(waiting.pop(), set()) - reached
            reached |= new
            waiting.extend(new)
        return reached

    assert found <= targets
    standing = nodes - found
    assert found <= {target for node in standing for target in reach(node)}
    for node in (
        standing & targets
    ):  # stands though it is superseded: the newest of a circle nothing leads into
        circle = {other for other in reach(node) if node in reach(other)}
        assert node == max(circle, key=lambda other: places[other])
        assert all(source in circle for source, inner in supersedes.items() if inner & circle)
    assert not any(other != node and other in reach(node) for node in standing for other in standing)
