"""How memories fade, and what a recall does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.memory.forgetting import DAY_MICROS, MAX_STABILITY_DAYS, Trace

START = 1_764_000_000_000_000
days = st.floats(0, 4_000)


def after(number: float) -> int:
    return START + round(number * DAY_MICROS)


def recalled_on(*on: float) -> Trace:
    trace = Trace(START)
    for day in on:
        trace = trace.recalled(after(day))
    return trace


def test_a_memory_that_is_recalled_now_and_then_lasts() -> None:
    trace = recalled_on(2, 8, 30, 90)
    assert trace.stability_days == pytest.approx(120, abs=1)
    assert trace.strength(after(90 + 60)) == pytest.approx(0.60, abs=0.01)
    assert trace.recalls == 4


def test_a_memory_that_nobody_recalls_is_gone_in_days() -> None:
    trace = Trace(START)
    assert trace.strength(START) == 1.0
    assert trace.strength(after(1)) == pytest.approx(math.exp(-1))
    assert trace.strength(after(7)) < 0.001
    assert trace.strength(after(10_000)) == 0.0


def test_asking_twice_at_once_gains_nothing() -> None:
    once = recalled_on(3)
    twice = once.recalled(once.at)
    assert (twice.at, twice.stability_days) == (once.at, once.stability_days)


def test_nothing_lasts_longer_than_ten_years() -> None:
    trace = Trace(START, stability_days=3_000.0).recalled(after(3_000))
    assert trace.stability_days == MAX_STABILITY_DAYS
    assert Trace(START, stability_days=1_000.0).recalled(after(10)).stability_days < MAX_STABILITY_DAYS


def test_a_clock_that_goes_back_neither_forgets_nor_adds() -> None:
    trace = recalled_on(5)
    back = trace.recalled(after(1))
    assert trace.strength(after(1)) == 1.0
    assert (back.at, back.stability_days) == (trace.at, trace.stability_days)


@given(st.lists(days, max_size=12).map(sorted), days, days)
def test_strength_only_falls_between_recalls_and_a_recall_never_weakens(
    on: list[float], soon: float, later: float
) -> None:
    trace = recalled_on(*on)
    early, late = sorted((trace.at + round(soon * DAY_MICROS), trace.at + round(later * DAY_MICROS)))
    assert 0.0 <= trace.strength(late) <= trace.strength(early) <= 1.0
    again = trace.recalled(early)
    assert 1.0 <= trace.stability_days <= again.stability_days <= MAX_STABILITY_DAYS
    assert again.strength(late) >= trace.strength(late)
