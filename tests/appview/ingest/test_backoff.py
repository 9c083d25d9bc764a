"""How long is waited before trying again."""

from __future__ import annotations

import pytest

from appview.ingest.backoff import Backoff

BACKOFF = Backoff(base=1.0, cap=60.0)


@pytest.mark.parametrize(("attempt", "longest"), [(0, 1), (1, 1), (2, 2), (5, 16), (7, 60), (10_000, 60)])
def test_waits_double_up_to_the_cap(attempt: int, longest: float) -> None:
    assert BACKOFF.seconds(attempt, lambda: 0.999999) == pytest.approx(longest, rel=1e-3)


def test_no_two_wait_equally_long_and_none_less_than_half() -> None:
    assert BACKOFF.seconds(3, lambda: 0.0) == 2.0
    assert 2.0 < BACKOFF.seconds(3, lambda: 0.5) < 4.0
