"""Putting the two arms together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.search.fusion import Weights, fuse, normalise_keyword, normalise_ranks, normalise_vector

RAW = st.dictionaries(
    st.integers(1, 50),
    st.tuples(st.floats(0, 100, allow_nan=False), st.floats(-1, 1, allow_nan=False)),
    min_size=1,
)


def test_the_best_keyword_score_is_one_and_no_match_is_zero() -> None:
    assert normalise_keyword({1: 8.0, 2: 2.0, 3: 0.0}) == {1: 1.0, 2: 0.25, 3: 0.0}
    assert normalise_keyword({1: 0.0}) == {1: 0.0}
    assert normalise_keyword({}) == {}


def test_cosines_spread_over_the_candidates() -> None:
    assert normalise_vector({1: 0.75, 2: 0.5, 3: 0.25}) == {1: 1.0, 2: 0.5, 3: 0.0}


def test_equal_cosines_and_a_lone_candidate_are_all_best() -> None:
    assert normalise_vector({1: 0.3, 2: 0.3}) == {1: 1.0, 2: 1.0}
    assert normalise_vector({7: -0.5}) == {7: 1.0}
    assert normalise_vector({}) == {}


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
    assert normalise_ranks({1: 9.0, 2: 7.0, 3: 1.0}, constant=10.0) == {1: 1.0, 2: 11 / 12, 3: 11 / 13}


def test_equal_scores_share_the_best_of_their_positions() -> None:
    assert normalise_ranks({1: 7.0, 2: 9.0, 3: 7.0, 4: 1.0}, constant=10.0) == {
        1: 11 / 12,
        2: 1.0,
        3: 11 / 12,
        4: 11 / 14,
    }


def test_what_no_word_matches_has_no_position() -> None:
    assert normalise_ranks({1: 2.0, 2: 0.0}, zero=True) == {1: 1.0, 2: 0.0}
    assert normalise_ranks({1: 0.2, 2: 0.0}) == {1: 1.0, 2: 11 / 12}


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
