"""Measures against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.evaluation.metrics import MEASURES, measure, ndcg, recall, reciprocal_rank

IDS = st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), unique=True, max_size=26)


def test_recall_is_the_share_found_among_the_first() -> None:
    assert recall(["a", "b", "c"], ["a", "c", "z"], 2) == pytest.approx(1 / 3)
    assert recall(["a", "b", "c"], ["a", "c", "z"], 3) == pytest.approx(2 / 3)
    assert recall([], ["a"], 10) == 0.0


def test_ndcg_of_hits_at_the_first_and_third_of_two_relevant() -> None:
    found = 1 / math.log2(2) + 1 / math.log2(4)
    best = 1 / math.log2(2) + 1 / math.log2(3)
    assert ndcg(["a", "x", "b"], ["a", "b"], 10) == pytest.approx(found / best)
    assert found / best == pytest.approx(0.91972079)


def test_ndcg_looks_no_further_than_its_depth_on_either_side() -> None:
    many = [f"r{number}" for number in range(12)]
    assert ndcg(many, many, 10) == pytest.approx(1.0)
    assert ndcg(["x", "a"], ["a"], 1) == 0.0


def test_mrr_is_one_over_the_first_position_that_is_right() -> None:
    assert reciprocal_rank(["x", "y", "a", "b"], ["a", "b"], 20) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x", "a"], ["a"], 1) == 0.0
    assert reciprocal_rank(["a"], ["a"], 1) == 1.0


def test_a_judged_memory_that_nothing_can_find_counts() -> None:
    assert measure(["a"], ["a", "gone"]).of("recall@10") == 0.5


def test_a_hit_that_comes_twice_counts_once() -> None:
    assert measure(["a", "a", "b"], ["a", "b"]).of("ndcg@10") <= 1.0


@given(IDS, st.sets(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=1))
def test_measures_are_shares_and_a_right_hit_never_harms(ranking: list[str], relevant: set[str]) -> None:
    measured = measure(ranking, relevant)
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in measured.values)
    missing = sorted(relevant - set(ranking))
    if missing:
        better = measure([missing[0], *ranking], relevant)
        assert better.of("ndcg@10") >= measured.of("ndcg@10") - 1e-12
        assert better.of("mrr") == 1.0
    assert measured.of("recall@5") <= measured.of("recall@10") <= measured.of("recall@20")
    assert len(measured.values) == len(MEASURES)
