"""Saying the same thing now and then."""

from __future__ import annotations

from appview.occasional import INTERVAL, Occasional


def test_the_first_time_is_told_and_the_next_ones_are_counted() -> None:
    said = Occasional()
    assert [said.due("a", now) for now in (0, 1, INTERVAL - 1)] == [1, None, None]
    assert said.due("a", INTERVAL) == 3
    assert said.due("a", 2 * INTERVAL, 5) == 5


def test_different_things_are_told_apart() -> None:
    said = Occasional()
    assert said.due(("bob", "model"), 0) == said.due(("bob", "blank"), 0) == 1


def test_only_so_many_things_are_told_in_one_interval() -> None:
    said = Occasional(max_keys=2)
    assert [said.due(name, 0) for name in "abc"] == [1, 1, None]
    assert said.due("c", INTERVAL) == 1
    assert len(said._said) == 1


def test_what_was_told_while_the_clock_was_ahead_silences_nothing() -> None:
    occasional = Occasional(max_keys=1)
    assert occasional.due("a", 1_000 * INTERVAL) == 1
    assert occasional.due("a", 0) == 1
    assert occasional.due("b", INTERVAL) == 1
