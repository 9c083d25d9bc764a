"""Near-duplicates as one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from appview.search.collapse import SAME_COSINE, collapse


def unit(degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    return np.array([np.cos(angle), np.sin(angle)])


def test_the_same_text_joins_whatever_its_vector() -> None:
    texts = {1: "Water  the tomatoes", 2: "water the\nTomatoes", 3: "water the roses"}
    vectors = {1: unit(0), 2: unit(90), 3: unit(180)}
    assert collapse([1, 2, 3], texts, vectors) == {1: [2], 3: []}


def test_what_is_near_joins_the_better_and_never_through_another() -> None:
    step = np.degrees(np.arccos(SAME_COSINE)) * 0.9
    texts = {number: f"text {number}" for number in range(3)}
    vectors = {number: unit(number * step) for number in range(3)}
    assert collapse([0, 1, 2], texts, vectors) == {0: [1], 2: []}
    assert collapse([1, 0, 2], texts, vectors) == {1: [0, 2]}


def test_a_memory_without_a_vector_is_like_its_own_text_alone() -> None:
    assert collapse([1, 2, 3], {1: "a", 2: "b", 3: "A"}, {2: unit(0)}) == {1: [3], 2: []}
    assert collapse([], {}, {}) == {}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 360)), max_size=12))
def test_it_is_what_looking_at_every_pair_gives(given_: list[tuple[str, float]]) -> None:
    texts = {number: text for number, (text, _) in enumerate(given_)}
    vectors = {number: unit(round(angle)) for number, (_, angle) in enumerate(given_)}
    kept: dict[int, list[int]] = {}
    for number in texts:
        same = [leader for leader in kept if texts[leader] == texts[number]]
        near = [leader for leader in kept if vectors[leader] @ vectors[number] >= SAME_COSINE]
        if same or near:
            kept[(same or near)[0]].append(number)
        else:
            kept[number] = []
    assert collapse(list(texts), texts, vectors) == kept
