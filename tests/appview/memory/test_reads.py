"""Lists, the tree and the counts: order, pages, and nothing that the scope hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Scope, Subtree
from appview.memory.values import Filters, PathNode
from lexicons.ids import MEMORY
from lexicons.syntax import AtUri
from tests.appview.memory.support import (
    ALICE,
    BOB,
    CONFIG,
    NEW,
    OTHER,
    commit,
    memory,
    put,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.memory.store import SpaceStore
    from appview.memory.values import Fact

PUBLIC = Scope(frozenset({Subtree("/")}), frozenset({Subtree("/secret"), Attribute("kind", "secret")}))


def position(fact: Fact) -> tuple[int, str, str]:
    return fact.ordered_at, fact.author, fact.rkey


def names(facts: Sequence[Fact]) -> list[str]:
    return [fact.rkey for fact in facts]


async def fill_tree(store: SpaceStore) -> None:
    await store.apply(
        [
            commit(
                1,
                put("r1", memory("x", "/a")),
                put("r2", memory("x", "/a/b")),
                put("r3", memory("x", "/a/b/c")),
                put("r4", memory("x", "/a/d", "kind=secret")),
                put("r5", memory("x", "/secret/plan")),
                put("r6", memory("x", "/z")),
                put("r7", memory("x")),
            )
        ]
    )


async def test_a_list_is_newest_first_then_by_author_and_key_descending(store: SpaceStore) -> None:
    day = "2026-01-0{}T00:00:00Z".format
    await store.apply(
        [
            commit(
                1,
                put("a", memory(created_at=day(2))),
                put("b", memory(created_at=day(2))),
                put("c", memory(created_at=day(3))),
            ),
            commit(1, put("a", memory(created_at=day(2))), put("z", memory(created_at=day(1))), author=BOB),
        ]
    )
    listed = await store.list(EVERYTHING, limit=9)
    assert [(fact.author, fact.rkey) for fact in listed] == [
        (ALICE, "c"),
        (BOB, "a"),
        (ALICE, "b"),
        (ALICE, "a"),
        (BOB, "z"),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_pages_show_each_memory_once_while_others_arrive(store: SpaceStore, size: int) -> None:
    await store.apply([commit(1, *(put(f"m{number}") for number in range(7)))])
    seen: list[str] = []
    before = None
    for page in range(20):
        facts = await store.list(EVERYTHING, limit=size, before=before)
        if not facts:
            break
        seen += names(facts)
        before = position(facts[-1])
        newer = memory(created_at="2026-12-01T00:00:00Z")
        await store.apply([commit(2 + page, put(f"new{page}", newer))])
    assert seen == [f"m{number}" for number in reversed(range(7))]


async def test_a_list_keeps_to_its_filters(store: SpaceStore) -> None:
    await store.apply(
        [
            commit(1, put("a", memory("x", "/p/q", "k=v", "note")), put("b", memory("x", "/p", "note"))),
            commit(1, put("c", memory("x", "note", created_at="2020-01-01T00:00:00Z")), author=BOB),
        ]
    )

    async def found(filters: Filters) -> set[str]:
        return set(names(await store.list(EVERYTHING, filters, limit=9)))

    assert await found(Filters()) == {"a", "b", "c"}
    assert await found(Filters(author=BOB)) == {"c"}
    assert await found(Filters(tags=("note",))) == {"a", "b", "c"}
    assert await found(Filters(tags=("note", "k=v"))) == {"a"}
    assert await found(Filters(tags=("/p",))) == {"b"}  # as written, not the subtree
    assert await found(Filters(path="/p")) == {"a", "b"}
    assert await found(Filters(since=1_600_000_000_000_000)) == {"a", "b"}
    assert await found(Filters(tags=("nothing",))) == set()


async def test_one_level_of_the_tree_counts_facts_at_it_below_it_and_paths(store: SpaceStore) -> None:
    await fill_tree(store)
    assert await store.paths(EVERYTHING, limit=9) == [
        PathNode("/a", "a", facts=1, descendants=4, children=2),
        PathNode("/secret", "secret", facts=0, descendants=1, children=1),
        PathNode("/z", "z", facts=1, descendants=1, children=0),
    ]
    assert await store.paths(EVERYTHING, "/a", limit=9) == [
        PathNode("/a/b", "b", facts=1, descendants=2, children=1),
        PathNode("/a/d", "d", facts=1, descendants=1, children=0),
    ]
    assert await store.paths(EVERYTHING, "/nowhere", limit=9) == []


async def test_levels_come_in_pages_by_segment(store: SpaceStore) -> None:
    await store.apply([commit(1, *(put(f"r{n}", memory("x", f"/p{n}")) for n in range(5)))])
    first = await store.paths(EVERYTHING, limit=2)
    second = await store.paths(EVERYTHING, limit=9, after=first[-1].segment)
    assert [node.path for node in first] == ["/p0", "/p1"]
    assert [node.path for node in second] == ["/p2", "/p3", "/p4"]


async def test_the_tree_shows_what_the_scope_shows(store: SpaceStore) -> None:
    await fill_tree(store)
    assert await store.paths(PUBLIC, limit=9) == [
        PathNode("/a", "a", facts=1, descendants=3, children=1),
        PathNode("/z", "z", facts=1, descendants=1, children=0),
    ]
    assert await store.paths(PUBLIC, "/secret", limit=9) == []
    assert await store.paths(NOTHING, limit=9) == []


async def test_a_path_lists_its_own_facts_oldest_first_in_pages(store: SpaceStore) -> None:
    changes = [put(f"r{n}", memory("x", "/p", created_at=f"2026-01-0{5 - n}T00:00:00Z")) for n in range(4)]
    await store.apply([commit(1, *changes, put("below", memory("x", "/p/q")))])
    first = await store.path_facts(EVERYTHING, "/p", limit=3)
    rest = await store.path_facts(EVERYTHING, "/p", limit=3, after=position(first[-1]))
    assert (names(first), names(rest)) == (["r3", "r2", "r1"], ["r0"])
    assert await store.path_facts(Scope(frozenset({Exact("/p/q")})), "/p", limit=9) == []
    assert await store.path_facts(EVERYTHING, "/nowhere", limit=9) == []


async def test_a_hidden_memory_is_not_there_by_name_either(store: SpaceStore) -> None:
    await fill_tree(store)
    assert await store.get(AtUri.of_record(ALICE, MEMORY, "r1"), PUBLIC) is not None
    assert await store.get(AtUri.of_record(ALICE, MEMORY, "r4"), PUBLIC) is None
    assert await store.get(AtUri.of_record(ALICE, MEMORY, "r5"), PUBLIC) is None


async def test_the_status_counts_what_the_scope_shows(store: SpaceStore) -> None:
    await store.configure(CONFIG.with_next(NEW))
    await store.apply(
        [
            commit(
                1,
                put("a", memory("x", next_key=NEW)),
                put("b", memory("x", "/secret", next_key=NEW)),
                put("c", memory("x", "/secret/plan", key=OTHER)),
                put("d", memory("x", "kind=secret", key=OTHER)),
                put("e", memory("x", "/open", key=OTHER)),
            ),
            commit(
                1,
                refuse("f"),
                refuse("g", "record", ("/open",)),
                refuse("h", "record", ("/secret",)),
                author=BOB,
            ),
        ]
    )
    everything = await store.status(EVERYTHING)
    public = await store.status(PUBLIC)
    bob = await store.status(Scope(frozenset({Attribute("owner", BOB)})))
    assert (everything.memories, public.memories, bob.memories) == (2, 1, 0)
    assert (everything.building_memories, public.building_memories) == (2, 1)
    assert [(each.author, each.reasons) for each in everything.skipped] == [
        (ALICE, {"model": 3}),
        (BOB, {"blank": 1, "record": 2}),
    ]
    # Where a record would be whose tags are unknown, nobody can tell.
    assert [(each.author, each.reasons) for each in public.skipped] == [
        (ALICE, {"model": 1}),
        (BOB, {"record": 1}),
    ]
    assert [(each.author, each.reasons) for each in bob.skipped] == [(BOB, {"blank": 1, "record": 2})]
    assert (await store.status(NOTHING)).skipped == ()


async def test_a_hidden_row_changes_nothing_that_a_caller_sees(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory("x", "/a")), put("b", memory("x", "/a/b")))])

    async def seen() -> object:
        return (
            await store.list(PUBLIC, limit=9),
            await store.paths(PUBLIC, limit=9),
            await store.paths(PUBLIC, "/a", limit=9),
            await store.path_facts(PUBLIC, "/a", limit=9),
            await store.status(PUBLIC),
        )

    before = await seen()
    await store.apply(
        [
            commit(
                2,
                put("h1", memory("x", "/secret/a")),
                put("h2", memory("x", "/a", "kind=secret")),
                put("h3", memory("x", "/a/hidden", "kind=secret")),
                put("h4", memory("x", "/secret", key=OTHER)),
            )
        ]
    )
    assert await seen() == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT f.id FROM facts AS f WHERE f.invalidated_at IS NULL"
        " ORDER BY f.ordered_at DESC, f.author DESC, f.rkey DESC LIMIT 5",
        "SELECT f.id FROM facts AS f WHERE f.invalidated_at IS NULL AND"
        " (f.ordered_at, f.author, f.rkey) < (1, 'x', 'y')"
        " ORDER BY f.ordered_at DESC, f.author DESC, f.rkey DESC LIMIT 5",
        "SELECT f.id FROM facts AS f WHERE f.invalidated_at IS NULL AND f.path_id = 1"
        " ORDER BY f.ordered_at, f.author, f.rkey LIMIT 5",
    ],
)
async def test_lists_are_read_from_an_index_without_sorting(store: SpaceStore, sql: str) -> None:
    plan = await store.database.read(lambda c: [row[3] for row in c.execute(f"EXPLAIN QUERY PLAN {sql}")])
    assert "USING INDEX" in plan[0] or "USING COVERING INDEX" in plan[0]
    assert not any("TEMP B-TREE" in step for step in plan)
