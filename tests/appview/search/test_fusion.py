"""Putting the two arms together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.search.fusion import Scale, Weights, by_rank
from tests.appview.search.support import fuse, fused_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.search.fusion import Method, Scores

RAW = st.dictionaries(
    st.integers(1, 50),
    st.tuples(st.floats(0, 100, allow_nan=False), st.floats(-1, 1, allow_nan=False)),
    min_size=1,
)


def scaled(scale: Callable[[Scores], Scale], *raw: float) -> list[float]:
    scores = np.array(raw, np.float64)
    return [float(score) for score in scale(scores)(scores)]


def test_the_best_keyword_score_is_one_and_no_match_is_zero() -> None:
    assert scaled(Scale.of_keyword, 8.0, 2.0, 0.0) == [1.0, 0.25, 0.0]
    assert scaled(Scale.of_keyword, 0.0) == [0.0]
    assert scaled(Scale.of_keyword) == []


def test_cosines_spread_over_the_candidates() -> None:
    assert scaled(Scale.of_vector, 0.75, 0.5, 0.25) == [1.0, 0.5, 0.0]


def test_equal_cosines_and_a_lone_candidate_are_all_best() -> None:
    assert scaled(Scale.of_vector, 0.3, 0.3) == [1.0, 1.0]
    assert scaled(Scale.of_vector, -0.5) == [1.0]
    assert scaled(Scale.of_vector) == []


def test_what_is_unknown_moves_no_other_and_has_nothing() -> None:
    assert scaled(Scale.of_vector, 0.75, math.nan, 0.5, 0.25) == [1.0, 0.0, 0.5, 0.0]
    assert scaled(Scale.of_vector, math.nan, 0.5) == [0.0, 1.0]
    assert scaled(Scale.of_vector, math.nan) == [0.0]
    (known, unknown) = fuse({1: 1.0, 2: 0.5}, {1: 0.2}, Weights(0.5, 0.5))
    assert known.vector is not None
    assert unknown.vector is None
    assert (known.score, unknown.score) == (1.0, 0.25)


def test_what_is_outside_of_a_scale_is_at_its_end() -> None:
    assert Scale(0.25, 0.75, 0.0)(np.array([0.0, 0.5, 1.0])).tolist() == [0.0, 0.5, 1.0]


def test_a_score_is_the_weighted_sum_of_what_the_arms_give() -> None:
    first, second = fuse({1: 4.0, 2: 0.0}, {1: 0.1, 2: 0.9}, Weights(0.5, 0.5))
    assert (first.score, second.score) == (0.5, 0.5)
    assert first.keyword is not None
    assert first.vector is not None
    assert (first.keyword.raw, first.keyword.normalised, first.keyword.weight) == (4.0, 1.0, 0.5)
    assert (first.vector.raw, first.vector.normalised, first.vector.contribution) == (0.1, 0.0, 0.0)


def test_only_the_ratio_of_weights_counts() -> None:
    assert Weights(3, 1).scaled() == Weights(0.75, 0.25).scaled() == (0.75, 0.25)


@pytest.mark.parametrize("weights", [(0, 0), (-1, 2), (math.nan, 1), (math.inf, 1)])
def test_senseless_weights_are_refused(weights: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        Weights(*weights)


def test_an_arm_alone_decides_alone() -> None:
    (hit,) = fuse(None, {1: 0.4}, Weights(1, 3))
    assert hit.keyword is None
    assert hit.score == 1.0
    (hit,) = fuse({1: 4.0}, None, Weights(1, 3))
    assert hit.vector is None
    assert hit.score == 1.0


@given(RAW, st.floats(0.01, 10), st.floats(0.01, 10))
def test_contributions_sum_to_the_score(
    raw: dict[int, tuple[float, float]], one: float, other: float
) -> None:
    keyword = {id_: pair[0] for id_, pair in raw.items()}
    vector = {id_: pair[1] for id_, pair in raw.items()}
    for hit in fuse(keyword, vector, Weights(one, other)):
        assert hit.keyword is not None
        assert hit.vector is not None
        assert hit.score == hit.keyword.contribution + hit.vector.contribution
        assert 0.0 <= hit.score <= 1.0 + 1e-12
        for part in (hit.keyword, hit.vector):
            assert part.contribution == part.weight * part.normalised
            assert 0.0 <= part.normalised <= 1.0


def test_a_position_counts_the_less_the_further_down_it_is() -> None:
    assert by_rank(np.array([9.0, 7.0, 1.0]), 10.0).tolist() == [1.0, 11 / 12, 11 / 13]


def test_equal_scores_share_the_best_of_their_positions() -> None:
    assert by_rank(np.array([7.0, 9.0, 7.0, 1.0]), 10.0).tolist() == [11 / 12, 1.0, 11 / 12, 11 / 14]


def test_what_no_word_matches_has_no_position() -> None:
    assert by_rank(np.array([2.0, 0.0]), zero=True).tolist() == [1.0, 0.0]
    assert by_rank(np.array([0.2, 0.0])).tolist() == [1.0, 11 / 12]
    assert by_rank(np.array([math.nan, 0.2, 0.0])).tolist() == [0.0, 1.0, 11 / 12]


@given(RAW, st.integers(1, 60), st.sampled_from(["convex", "rank"]))
def test_the_best_are_those_that_all_would_have_at_the_top(
    raw: dict[int, tuple[float, float]], count: int, method: Method
) -> None:
    fused = fused_of({id_: pair[0] for id_, pair in raw.items()}, {id_: pair[1] for id_, pair in raw.items()})
    every = sorted(fused.ranked(), key=lambda hit: -hit.score)
    assert [hit.score for hit in every] == sorted(fused.scores.tolist(), reverse=True)
    last = every[:count][-1].score
    best = {hit.id: hit for hit in fused.ranked(count)}
    assert best == {hit.id: hit for hit in every if hit.score >= last}


@given(RAW, st.floats(0.01, 10), st.floats(0.01, 10))
def test_rank_fusion_sees_the_order_alone_and_sums_up_too(
    raw: dict[int, tuple[float, float]], one: float, other: float
) -> None:
    keyword = {id_: pair[0] for id_, pair in raw.items()}
    vector = {id_: pair[1] for id_, pair in raw.items()}
    weights = Weights(one, other)
    found = fuse(keyword, vector, weights, "rank")
    for hit in found:
        assert hit.keyword is not None
        assert hit.vector is not None
        assert hit.score == hit.keyword.contribution + hit.vector.contribution
        assert (hit.keyword.normalised == 0.0) == (hit.keyword.raw == 0.0)
    doubled = fuse({id_: 2 * score for id_, score in keyword.items()}, vector, weights, "rank")
    assert [hit.score for hit in doubled] == [hit.score for hit in found]
