"""Intervals and comparisons."""

from __future__ import annotations

import random

import pytest

from appview.evaluation.statistics import RESAMPLES, compare, estimate


def test_the_interval_holds_the_mean_and_is_as_wide_as_theory_has_it() -> None:
    chance = random.Random(1)
    values = [float(chance.random() < 0.3) for _ in range(400)]
    found = estimate(values)
    mean = sum(values) / 400
    error = 1.96 * (mean * (1 - mean) / 400) ** 0.5
    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - error, abs=0.01)
    assert found.high == pytest.approx(mean + error, abs=0.01)


def test_the_seed_is_fixed() -> None:
    values = [0.1, 0.5, 0.9, 0.2]
    assert estimate(values) == estimate(values)
    assert compare(values, values[::-1]) == compare(values, values[::-1])


def test_what_is_equal_everywhere_has_no_width() -> None:
    found = estimate([0.25] * 9)
    assert (found.mean, found.low, found.high) == (0.25, pytest.approx(0.25), pytest.approx(0.25))


def test_a_comparison_is_paired() -> None:
    """Hard and easy questions differ by far more than the two ways of answering do, and that says nothing."""
    hard_and_easy = [0.0, 0.9] * 50
    better = [value + 0.05 for value in hard_and_easy]
    found = compare(hard_and_easy, better)
    assert found.estimate.mean == pytest.approx(0.05)
    assert found.estimate.low > 0.04
    assert (found.better, found.worse) == (100, 0)
    assert found.chance == pytest.approx(1 / (RESAMPLES + 1))


def test_no_difference_is_no_finding() -> None:
    found = compare([0.5, 0.25], [0.5, 0.25])
    assert (found.estimate.mean, found.better, found.worse, found.chance) == (0.0, 0, 0, 1.0)


def test_one_question_more_is_chance() -> None:
    found = compare([0.0] * 10, [1.0] + [0.0] * 9)
    assert found.chance == 1.0


def test_chances_are_those_of_flipped_signs() -> None:
    """Three differences of one size: only all plus or all minus are as far off, 2 of 8."""
    assert compare([0.0, 0.0, 0.0], [0.5, 0.5, 0.5]).chance == pytest.approx(0.25, abs=0.03)
