"""Signals beside the arms: their scales, and scores that are sums of what is known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.memory.forgetting import DAY_MICROS
from appview.search.fusion import Component, Ranked, Weights
from appview.search.signals import (
    HALF_LINKED,
    PROFILES,
    RELEVANCE,
    SIGNALS,
    Measure,
    Mix,
    blend,
    importance,
    links,
    recency,
)
from tests.appview.search.support import fuse

OWN = Weights(0.5, 0.5)
unit = st.floats(0, 1)
weights = st.floats(0, 10).map(lambda value: round(value, 3))


def test_recency_halves_and_important_memories_are_new_for_longer() -> None:
    month = 30 * DAY_MICROS
    assert recency(0, None) == Measure(0.0, 1.0)
    assert recency(month, None) == recency(month, 5) == Measure(30.0, 0.5)
    assert recency(month, 10).normalised == pytest.approx(math.sqrt(0.5))
    assert recency(6 * DAY_MICROS, 1).normalised == pytest.approx(0.5)
    assert recency(-month, None) == Measure(0.0, 1.0)


def test_importance_and_links_have_scales_of_their_own() -> None:
    assert (importance(1).normalised, importance(10).normalised) == (0.0, 1.0)
    assert importance(7).raw == 7
    assert (links(0).normalised, links(HALF_LINKED).normalised) == (0.0, 0.5)
    assert links(1_000).normalised < 1.0


def test_relevance_alone_is_what_the_arms_gave() -> None:
    ranked = fuse({1: 2.0, 2: 1.0}, {1: 0.1, 2: 0.9}, OWN)
    assert blend(ranked, {}, RELEVANCE, OWN) == ranked
    assert PROFILES["relevance"] == RELEVANCE


def test_what_is_unknown_is_left_out_and_is_not_zero() -> None:
    ranked = fuse({1: 1.0, 2: 1.0, 3: 1.0}, None, OWN)
    measures = {"importance": {1: importance(1), 2: importance(10)}}
    mix = Mix(relevance=0.5, importance=0.5)
    lowest, highest, unknown = blend(ranked, measures, mix, OWN)  # type: ignore[arg-type]
    assert (lowest.score, highest.score, unknown.score) == (0.5, 1.0, 1.0)
    assert "importance" not in unknown.signals
    assert unknown.keyword == Component(1.0, 1.0, 1.0, 1.0)


def test_a_candidate_of_which_nothing_counts_has_no_score() -> None:
    ranked = fuse({1: 1.0}, None, OWN)
    (only,) = blend(ranked, {}, Mix(relevance=0.0, importance=1.0), OWN)
    assert only == Ranked(1, 0.0, None, None)


def test_weights_replace_those_of_the_profile() -> None:
    assert PROFILES["recent"].given({}) == PROFILES["recent"]
    mix = PROFILES["recent"].given({"recency": 0.1, "keyword": 0.2})
    assert mix.arms_weight(OWN) == pytest.approx(0.2 + 0.3)
    assert mix.arms(OWN).scaled() == pytest.approx((0.4, 0.6))
    assert RELEVANCE.given({"keyword": 0.0}).arms(OWN).scaled() == (0.0, 1.0)
    signals_alone = RELEVANCE.given({"keyword": 0.0, "vector": 0.0, "recency": 1.0})
    assert signals_alone.arms_weight(OWN) == 0.0
    assert signals_alone.arms(OWN) == OWN


@pytest.mark.parametrize(
    "wrong", [{"recency": -0.1}, {"keyword": 0.0, "vector": 0.0}, {"links": float("inf")}]
)
def test_weights_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        RELEVANCE.given(wrong)


@given(
    st.dictionaries(st.integers(0, 5), st.tuples(st.floats(0, 20), unit), min_size=1),
    st.dictionaries(st.sampled_from(SIGNALS), st.dictionaries(st.integers(0, 5), unit)),
    st.dictionaries(st.sampled_from(["keyword", "vector", *SIGNALS]), weights),
    st.sampled_from(["both", "keyword", "vector"]),
)
def test_the_parts_sum_to_the_score_and_the_weights_to_one(
    arms: dict[int, tuple[float, float]],
    known: dict[str, dict[int, float]],
    given_weights: dict[str, float],
    arm: str,
) -> None:
    try:
        mix = RELEVANCE.given(given_weights)
    except ValueError:
        return
    keyword = {id_: value for id_, (value, _) in arms.items()} if arm != "vector" else None
    vector = {id_: value for id_, (_, value) in arms.items()} if arm != "keyword" else None
    measures = {signal: {id_: Measure(v, v) for id_, v in values.items()} for signal, values in known.items()}
    for candidate in blend(fuse(keyword, vector, mix.arms(OWN)), measures, mix, OWN):  # type: ignore[arg-type]
        parts = [part for part in (candidate.keyword, candidate.vector, *candidate.signals.values()) if part]
        assert candidate.score == pytest.approx(sum(part.contribution for part in parts), abs=1e-12)
        assert all(part.contribution == pytest.approx(part.weight * part.normalised) for part in parts)
        assert -1e-12 <= candidate.score <= 1 + 1e-9
        if parts:
            assert sum(part.weight for part in parts) == pytest.approx(1.0)
        for signal in candidate.signals:
            assert candidate.id in known[signal]
