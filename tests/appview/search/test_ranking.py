"""Choosing the best of many."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from appview.search.ranking import best, positions_in


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 20))
def test_the_best_are_those_of_a_full_sort_and_their_equals(values: list[int], count: int) -> None:
    scores = np.array(values, np.float64)
    chosen = sorted(best(scores, count).tolist())
    threshold = sorted(values, reverse=True)[:count]
    expected = [position for position, value in enumerate(values) if not threshold or value >= threshold[-1]]
    assert chosen == expected


def test_equal_scores_stretch_to_a_limit_of_the_newest() -> None:
    chosen = best(np.array([1.0] * 50 + [2.0]), 3, limit=10)
    assert sorted(chosen.tolist()) == [*range(41, 51)]


@given(st.sets(st.integers(0, 30)), st.lists(st.integers(-5, 35)))
def test_positions_are_found_and_absence_is_told(ids: set[int], wanted: list[int]) -> None:
    known = np.array(sorted(ids), np.int64)
    positions, there = positions_in(known, np.array(wanted, np.int64))
    assert there.tolist() == [id_ in ids for id_ in wanted]
    assert [int(known[p]) for p, found in zip(positions, there, strict=True) if found] == [
        id_ for id_ in wanted if id_ in ids
    ]
