"""Looking for cycles seldom, and as before afterwards."""

from __future__ import annotations

import gc
import weakref

from appview.collector import YOUNG, rare_collections


class Knot:
    """An object that holds itself: only a collection finds that nobody else does."""

    def __init__(self) -> None:
        self.itself = self


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_objects_that_stay_a_while_are_seldom_looked_through() -> None:
    with rare_collections():
        before = collections()
        kept = [[] for _ in range(YOUNG // 2)]  # type: ignore[var-annotated]
        assert collections() == before
    assert len(kept) == YOUNG // 2


def test_garbage_is_found_all_the_same() -> None:
    with rare_collections():
        knot = weakref.ref(Knot())
        kept = [[] for _ in range(2 * YOUNG)]  # type: ignore[var-annotated]
        assert knot() is None
    assert len(kept) == 2 * YOUNG


def test_afterwards_all_is_as_before() -> None:
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == threshold
    assert gc.get_freeze_count() == frozen
