"""Token buckets against a slow and obvious one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.xrpc.buckets import WINDOW, Buckets

SECOND = 1_000_000
START = 1_764_000_000 * SECOND


class Oracle:
    """One bucket, as one would describe it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.holds = Fraction(limit)
        self.at = START

    def take(self, now: int, cost: int) -> bool:
        self.holds = min(Fraction(self.limit), self.holds + Fraction((now - self.at) * self.limit, WINDOW))
        self.at = now
        if self.holds < cost:
            return False
        self.holds -= cost
        return True

    def drain(self, now: int, cost: int) -> None:
        self.take(now, 0)
        self.holds = max(Fraction(0), self.holds - cost)


steps = st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(1, 4), st.booleans()), max_size=40)


@given(limit=st.integers(4, 50), steps=steps)
def test_it_is_a_bucket(limit: int, steps: list[tuple[int, int, bool]]) -> None:
    buckets, oracle, now = Buckets(limit), Oracle(limit), START
    for pause, cost, drains in steps:
        now += pause
        if drains:
            buckets.drain("a", now, cost)
            oracle.drain(now, cost)
            continue
        standing = buckets.take("a", now, cost)
        assert standing.allowed == oracle.take(now, cost)
        assert standing.remaining == int(oracle.holds)
        missing = (limit - oracle.holds) * WINDOW / limit / SECOND
        assert standing.full_after - 1 < missing <= standing.full_after
        if not standing.allowed:
            wait = standing.retry_after * SECOND
            assert Buckets.take(copy_of(buckets, limit), "a", now + wait, cost).allowed
            assert not Buckets.take(copy_of(buckets, limit), "a", now + wait - SECOND, cost).allowed


def copy_of(buckets: Buckets, limit: int) -> Buckets:
    copy = Buckets(limit)
    copy._full_at.update(buckets._full_at)
    return copy


def test_a_burst_up_to_the_limit_and_then_an_even_flow() -> None:
    buckets = Buckets(60)
    assert all(buckets.take("a", START).allowed for _ in range(60))
    refused = buckets.take("a", START)
    assert (refused.allowed, refused.remaining, refused.retry_after, refused.full_after) == (False, 0, 1, 60)
    for second in range(1, 100):
        assert buckets.take("a", START + second * SECOND).allowed
        assert not buckets.take("a", START + second * SECOND).allowed


def test_a_refused_request_costs_nothing() -> None:
    buckets = Buckets(2)
    assert [buckets.take("a", START).allowed for _ in range(5)] == [True, True, False, False, False]
    assert buckets.take("a", START + 30 * SECOND).allowed


def test_callers_do_not_share_a_bucket() -> None:
    buckets = Buckets(1)
    assert buckets.take("a", START).allowed
    assert buckets.take("b", START).allowed
    assert not buckets.take("a", START).allowed


def test_odd_limits_lose_nothing_to_rounding() -> None:
    """7 a minute for 1,000 minutes, asked for every millisecond and a bit, are 7,000 and the first burst."""
    buckets, allowed, now = Buckets(7), 0, START
    while now <= START + 1_000 * WINDOW:
        standing = buckets.take("a", now)
        allowed += standing.allowed
        now += max(1, standing.retry_after) * SECOND // 3 + 1
    assert 7_000 <= allowed <= 7_007


def test_a_clock_that_is_set_back_locks_nobody_out_for_longer_than_a_window() -> None:
    buckets = Buckets(6)
    for _ in range(6):
        buckets.take("a", START)
    before = START - 3_600 * SECOND
    assert buckets.take("a", before).retry_after == 10
    assert buckets.take("a", before + 10 * SECOND).allowed


def test_a_request_that_costs_more_than_there_ever_is() -> None:
    standing = Buckets(5).take("a", START, cost=6)
    assert not standing.allowed
    assert standing.remaining == 5


@pytest.mark.parametrize("extra", [0, 1, 100])
def test_memory_is_bounded_and_the_idle_go_first(extra: int) -> None:
    buckets = Buckets(1, max_keys=100)
    buckets.take("busy", START)
    for number in range(99 + extra):
        buckets.take(f"a{number}", START)
        assert not buckets.take("busy", START).allowed
    assert len(buckets) == 100
    assert buckets.take("a0", START).allowed == (extra > 0)


def test_the_policy_as_its_header_has_it() -> None:
    assert Buckets(6_000).policy == "6000;w=60"
