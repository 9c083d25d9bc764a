"""What lies around memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from appview.memory.scope import EVERYTHING, Exact, Scope
from appview.memory.superseding import Succession
from appview.search.errors import NoSuchMemory
from appview.search.graph import Edge, around, graph, nearest_pairs
from lexicons.syntax import AtUri
from tests.appview.search.support import ALICE, BOB, Doc

if TYPE_CHECKING:
    from appview.search.graph import Around, Graph
    from tests.appview.search.support import Filler

EAST, NEAR, NORTH = (1.0, 0.0, 0.0, 0.0), (1.0, 0.5, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)
READER = Scope(frozenset({Exact("/")}))


async def drawn(
    space: Filler, scope: Scope = EVERYTHING, limit: int = 10, neighbors: int = 3, floor: float = 0.4
) -> Graph:
    return await graph(space.store, scope, limit=limit, neighbors=neighbors, floor=floor)


async def test_the_newest_are_joined_to_what_is_near(space: Filler) -> None:
    await space.add(
        Doc("north", vector=NORTH, created_at="2026-01-01T00:00:00Z"),
        Doc("near", vector=NEAR, created_at="2026-01-02T00:00:00Z"),
        Doc("east", vector=EAST, created_at="2026-01-03T00:00:00Z"),
    )
    found = await drawn(space)
    assert [node.text for node in found.nodes] == ["east", "near", "north"]
    assert found.edges == (Edge(0, 1, 894), Edge(1, 2, 447))
    assert (await drawn(space, floor=0.5)).edges == (Edge(0, 1, 894),)
    assert (await drawn(space, limit=2)).edges == (Edge(0, 1, 894),)
    assert (await drawn(space, limit=1)).edges == ()


async def test_links_are_between_nodes_and_nothing_hidden_is_a_node(space: Filler) -> None:
    (old,) = await space.add(Doc("old", created_at="2026-01-01T00:00:00Z"))
    uri = f"at://{ALICE}/garden.engram.memory/{old}"
    await space.add(
        Doc(f"see {uri}", created_at="2026-01-02T00:00:00Z"),
        Doc("hidden", tags=("/secret", f"contradicts={old}"), created_at="2026-01-03T00:00:00Z"),
    )
    assert (await drawn(space)).links == ((0, 2, "contradicts"), (1, 2, "mention"))
    found = await drawn(space, READER)
    assert [node.text for node in found.nodes] == [f"see {uri}", "old"]
    assert found.links == ((0, 1, "mention"),)
    assert found.edges == (Edge(0, 1, 1000),)


async def test_superseded_facts_are_nodes_on_request(space: Filler) -> None:
    (old,) = await space.add(Doc("old", created_at="2026-01-01T00:00:00Z"))
    await space.add(Doc("new", tags=(f"supersedes={old}",), created_at="2026-01-02T00:00:00Z"))
    assert [node.text for node in (await drawn(space)).nodes] == ["new"]
    shown = await graph(
        space.store, EVERYTHING, limit=9, neighbors=1, floor=0.1, succession=Succession(shown=True)
    )
    assert [(node.text, node.superseded) for node in shown.nodes] == [("new", False), ("old", True)]
    assert shown.links == ((0, 1, "supersedes"),)


async def at(space: Filler, rkey: str, scope: Scope = EVERYTHING, author: str = ALICE) -> Around:
    return await around(space.store, AtUri(f"at://{author}/garden.engram.memory/{rkey}"), scope, limit=10)


async def test_both_directions_of_links(space: Filler) -> None:
    (old,) = await space.add(Doc("old", tags=("/beds",)))
    (new,) = await space.add(
        Doc("[[/beds]] and [[/nowhere]]", tags=(f"derived-from={old}", "caused-by=gone"), author=ALICE)
    )
    (path_only,) = await space.add(Doc("also [[/beds]]", author=BOB))
    found = await at(space, new)
    assert [(link.link.kind, link.link.target, link.fact and link.fact.text) for link in found.links] == [
        ("caused-by", "gone", None),
        ("derived-from", old, "old"),
        ("path", "/beds", None),
        ("path", "/nowhere", None),
    ]
    back = (await at(space, old)).backlinks
    assert [(item.fact.rkey, item.kinds) for item in back] == [
        (path_only, ("path",)),
        (new, ("derived-from", "path")),
    ]


async def test_a_hidden_target_looks_like_one_that_is_not_there(space: Filler) -> None:
    (secret,) = await space.add(Doc("secret", tags=("/secret",)))
    (open_,) = await space.add(Doc("open", tags=(f"derived-from={secret}", "derived-from=absent")))
    await space.add(Doc("hidden", tags=("/secret", f"contradicts={open_}")))
    found = await at(space, open_, READER)
    assert {link.link.target: link.fact for link in found.links} == {secret: None, "absent": None}
    assert found.backlinks == ()
    assert len((await at(space, open_)).backlinks) == 1
    for rkey in (secret, "absent"):
        with pytest.raises(NoSuchMemory):
            await at(space, rkey, READER)


@given(
    arrays.arrays(
        np.float16, st.tuples(st.integers(0, 8), st.just(3)), elements=st.sampled_from([-1, 0.5, 1])
    ),
    st.integers(1, 8),
    st.sampled_from([0.1, 0.5, 1.0]),
)
def test_the_pairs_are_those_of_looking_at_every_pair(
    vectors: np.ndarray, neighbors: int, floor: float
) -> None:
    units = [row / np.linalg.norm(row) for row in vectors.astype(np.float64)]
    expected: dict[tuple[int, int], float] = {}
    for row, one in enumerate(units):
        others = [
            (round(float(one @ other), 12), -place) for place, other in enumerate(units) if place != row
        ]
        for cosine, place in sorted(others, reverse=True)[:neighbors]:
            if cosine >= floor:
                expected[min(row, -place), max(row, -place)] = cosine
    found = nearest_pairs(vectors, neighbors, floor)
    assert [(a, b) for a, b, _ in found] == sorted(expected)
    assert [cosine for *_, cosine in found] == pytest.approx([expected[key] for key in sorted(expected)])
