"""What stands around a fact."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from appview.memory.scope import EVERYTHING, Attribute, Exact, Scope, Subtree
from appview.memory.search_reads import SearchReads
from appview.memory.superseding import Succession
from appview.memory.values import Filters
from appview.search.context import GAP_MICROS, ContextSettings, with_context
from appview.search.engine import SearchRequest
from appview.search.fusion import Component, Fused
from tests.appview.search.support import BOB, Doc, halves

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.search.engine import Searcher, SearchResult
    from appview.search.fusion import Ranked
    from appview.sqlite import Connection
    from tests.appview.search.support import Filler

EAST = halves(1, 0, 0, 0)
NORTH, SOUTH = (0.0, 1.0, 0.0, 0.0), (0.0, -1.0, 0.0, 0.0)


def joined(
    candidates: dict[int, tuple[float, float]],
    around: dict[int, list[int]],
    scores: dict[int, float],
    weight: float,
) -> list[Ranked]:
    """Join candidates, whose scores from 0 to 1 are given, with their context."""
    ids = np.array(list(candidates), np.int64)
    keyword, vector = np.array(list(candidates.values())).T
    fused = Fused(ids, keyword, vector, keyword, vector, (0.5, 0.5))
    beside = np.array(list(scores), np.int64)
    return with_context(fused, around, beside, np.array(list(scores.values())), weight).ranked()


def minute(number: int, second: int = 0) -> str:
    return f"2026-11-30T09:{number:02}:{second:02}.000Z"


def text_of(result: SearchResult) -> list[str]:
    return [hit.fact.text for hit in result.hits]


async def around(
    space: Filler, ids: Iterable[int], scope: Scope = EVERYTHING, reach: int = 2
) -> dict[int, tuple[int, ...]]:
    def work(connection: Connection) -> dict[int, tuple[int, ...]]:
        return SearchReads(connection).neighbours(ids, scope, reach, GAP_MICROS)

    return await space.store.database.read(work)


def test_a_score_takes_part_in_what_stands_around() -> None:
    first, second = joined({1: (1.0, 0.0), 2: (0.0, 1.0)}, {1: [7, 8], 2: [7]}, {7: 0.25, 8: 0.75}, 1.0)
    assert first.context == Component(0.5, 0.5, 0.5, 0.25)
    assert first.score == pytest.approx(0.5 * 0.5 + 0.25)
    assert second.context is not None
    assert second.context.raw == 0.25
    for hit in (first, second):
        assert hit.keyword is not None
        assert hit.vector is not None
        assert hit.context is not None
        parts = (hit.keyword, hit.vector, hit.context)
        assert hit.score == pytest.approx(sum(part.contribution for part in parts))
        assert sum(part.weight for part in parts) == pytest.approx(1.0)


def test_unknown_is_the_mean_of_the_others_and_not_zero() -> None:
    three = dict.fromkeys((1, 2, 3), (1.0, 1.0))
    hits = joined(three, {1: [7], 2: [8], 3: []}, {7: 0.2, 8: 0.6}, 0.35)
    assert [hit.context.raw if hit.context else None for hit in hits] == pytest.approx([0.2, 0.6, 0.4])


def test_a_neighbour_of_which_nothing_is_known_is_passed_over() -> None:
    hits = joined({1: (1.0, 1.0)}, {1: [6, 7, 8, 9]}, {7: 0.2, 8: math.nan, 9: 0.6}, 0.35)
    assert [hit.context.raw if hit.context else None for hit in hits] == pytest.approx([0.4])


def test_where_nothing_has_neighbours_context_takes_no_part() -> None:
    assert [hit.context for hit in joined({1: (1.0, 0.5)}, {1: []}, {7: 1.0}, 0.35)] == [None]
    assert [hit.context for hit in joined({1: (1.0, 0.5)}, {1: [2]}, {2: 1.0}, 0.0)] == [None]


@pytest.mark.parametrize("wrong", [{"weight": -0.1}, {"reach": 0}, {"gap": -1}, {"weight": float("nan")}])
def test_senseless_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"context|reach|gap"):
        ContextSettings(**wrong)  # type: ignore[arg-type]


async def test_neighbours_are_the_nearest_before_and_after_in_time(space: Filler) -> None:
    await space.add(*[Doc(f"turn {number}", created_at=minute(number)) for number in (3, 1, 2, 5, 4)])
    # In time: 2, 3, 1, 5, 4.
    found = await around(space, [1, 2], reach=1)
    assert {id_: set(ids) for id_, ids in found.items()} == {1: {3, 5}, 2: {3}}
    assert {id_: set(ids) for id_, ids in (await around(space, [1, 2])).items()} == {
        1: {2, 3, 5, 4},
        2: {3, 1},
    }


async def test_equal_times_follow_the_record_keys(space: Filler) -> None:
    await space.add(*[f"turn {number}" for number in range(6)])
    found = await around(space, [3], reach=2)
    assert set(found[3]) == {1, 2, 4, 5}


@pytest.mark.parametrize("reach", [1, 2, 5])
async def test_many_of_one_instant_stand_in_their_order(space: Filler, reach: int) -> None:
    """Against the plain order of all: few instants, two authors."""
    rng = random.Random(reach)
    authors = [Doc("x").author, BOB]
    docs = [
        Doc(f"turn {n}", author=rng.choice(authors), created_at=minute(rng.randrange(3))) for n in range(40)
    ]
    await space.add(*docs)
    ordered = await space.store.database.read(
        lambda connection: [
            row[0] for row in connection.execute("SELECT id FROM facts ORDER BY ordered_at, author, rkey")
        ]
    )
    found = await around(space, ordered, reach=reach)
    for at, id_ in enumerate(ordered):
        assert set(found[id_]) == {*ordered[max(0, at - reach) : at], *ordered[at + 1 : at + 1 + reach]}


async def test_another_path_and_another_time_are_no_neighbours(space: Filler) -> None:
    await space.add(
        Doc("here", ("/a",), created_at=minute(30)),
        Doc("elsewhere", ("/b",), created_at=minute(30, 1)),
        Doc("just there", ("/a",), created_at=minute(0)),
        Doc("long ago", ("/a",), created_at="2026-11-30T08:59:59.999Z"),
        Doc("somebody else's", ("/a",), author=BOB, created_at=minute(31)),
    )
    assert set((await around(space, [1]))[1]) == {3, 5}


async def test_a_hidden_fact_is_no_neighbour_and_takes_nobodys_place(space: Filler) -> None:
    """Between two visible turns stand more hidden ones than there is reach."""
    hidden = [Doc("turn", ("secret=yes",), created_at=minute(number)) for number in (2, 3, 4)]
    await space.add(Doc("first", created_at=minute(1)), *hidden, Doc("last", created_at=minute(5)))
    seen = Scope(frozenset({Subtree("/")}), frozenset({Attribute("secret", "yes")}))
    assert (await around(space, [5], seen))[5] == (1,)
    assert set((await around(space, [5]))[5]) == {3, 4}
    assert await around(space, [5], Scope(frozenset({Exact("/elsewhere")}))) == {5: ()}


async def test_the_answer_beside_the_question_comes_up(space: Filler, searcher: Searcher) -> None:
    """Two facts answer equally well on their own; one stands beside what shares the question's words."""
    for number in range(3):
        await space.add(Doc(f"weather report {number}", (f"/w{number}",), vector=SOUTH))
    await space.add(
        Doc("Which pot does the fern like?", ("/talk",), vector=NORTH, created_at=minute(1)),
        Doc("The blue one", ("/talk",), vector=(0.5, 0.5, 0, 0.5), created_at=minute(2)),
        Doc("The red one", ("/elsewhere",), vector=(0.5, 0.5, 0, 0.5), created_at=minute(3)),
        Doc("Paint dries", ("/elsewhere",), vector=SOUTH, created_at=minute(4)),
    )
    result = await searcher.search(space.store, SearchRequest("fern pot", halves(1, 1, 0, 0)), EVERYTHING)
    answers = [text for text in text_of(result) if text.endswith("one")]
    assert answers == ["The blue one", "The red one"]
    around = {hit.fact.text: hit.context.raw for hit in result.hits if hit.context is not None}
    assert around["The blue one"] > around["The red one"] + 0.3


async def test_a_neighbour_is_a_hit_where_nothing_else_speaks_for_it(
    space: Filler, searcher: Searcher
) -> None:
    question, answer, _ = await space.add(
        Doc("fern pot", created_at=minute(1)),
        Doc("the blue one", vector=SOUTH, created_at=minute(2)),
        Doc("soil", ("/elsewhere",), vector=SOUTH),
    )
    result = await searcher.search(space.store, SearchRequest("fern pot", EAST), EVERYTHING)
    assert [hit.fact.rkey for hit in result.hits] == [question, answer]


async def test_filters_phrases_and_left_out_words_hold_for_neighbours_too(
    space: Filler, searcher: Searcher
) -> None:
    asked, *_ = await space.add(
        Doc("fern pot", ("x",), created_at=minute(1)),
        Doc("the blue one", vector=SOUTH, created_at=minute(2)),
    )
    for text, filters in (
        ("fern", Filters(tags=("x",))),
        ("fern -blue", Filters()),
        ('"fern pot"', Filters()),
    ):
        request = SearchRequest(text, EAST, filters=filters)
        result = await searcher.search(space.store, request, EVERYTHING)
        assert [hit.fact.rkey for hit in result.hits] == [asked]


async def test_what_a_caller_may_not_read_changes_no_context(space: Filler, searcher: Searcher) -> None:
    mine = Scope(frozenset({Subtree("/mine")}))
    visible = [
        Doc("fern pot", ("/mine",), created_at=minute(1)),
        Doc("the blue one", ("/mine",), vector=(1, 1, 0, 0), created_at=minute(5)),
        Doc("soil", ("/mine",), vector=(1, 2, 0, 0), created_at=minute(9)),
    ]
    await space.add(*visible)
    request = SearchRequest("fern pot", EAST)
    before = [
        (hit.fact.uri, hit.score, hit.context)
        for hit in (await searcher.search(space.store, request, mine)).hits
    ]
    await space.add(*[Doc("fern pot", ("/other",), created_at=minute(n)) for n in range(10)])
    after = [
        (hit.fact.uri, hit.score, hit.context)
        for hit in (await searcher.search(space.store, request, mine)).hits
    ]
    assert after == before
    assert all(context is not None for _, _, context in before)


async def test_a_superseded_fact_stands_beside_nothing_unless_it_is_shown(
    space: Filler, searcher: Searcher
) -> None:
    (old,) = await space.add(Doc("fern pot, painted green", vector=(1, 0, 0, 0), created_at=minute(2)))
    await space.add(
        Doc("fern pot", created_at=minute(1)),
        Doc("the blue one", ("/later", f"supersedes={old}"), vector=SOUTH, created_at=minute(3)),
        Doc("terracotta", vector=(1, 1, 0, 0), created_at=minute(4)),
    )

    async def context_of(succession: Succession) -> tuple[set[str], float]:
        request = SearchRequest("fern pot", EAST, succession=succession)
        hits = (await searcher.search(space.store, request, EVERYTHING)).hits
        (asked,) = [hit for hit in hits if hit.fact.text == "fern pot"]
        assert asked.context is not None
        return {hit.fact.text for hit in hits}, asked.context.raw

    standing, alone = await context_of(Succession())
    shown, beside = await context_of(Succession(shown=True))
    assert "fern pot, painted green" not in standing
    assert "fern pot, painted green" in shown
    assert beside > alone + 0.3


@pytest.mark.parametrize("mode", ["keyword", "vector"])
async def test_an_arm_alone_has_no_context(space: Filler, searcher: Searcher, mode: str) -> None:
    await space.add("moon", "moon and tides")
    request = SearchRequest("moon", EAST, mode)  # type: ignore[arg-type]
    result = await searcher.search(space.store, request, EVERYTHING)
    assert [hit.context for hit in result.hits] == [None, None]
