"""Dividing a judged set: one part to tune on, the rest to report on. Pure functions.

A set of several spaces is divided by space, so that nothing of what a figure is reported on was seen: every
other one in the order of their names. A set of one space is divided by question, by the last bit of the
SHA-256 of its text. Who gets which part never changes with the rest of the set's questions.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.evaluation.judged import JudgedQuery

Part = Literal["all", "tune", "rest"]


def part_of(queries: Sequence[JudgedQuery], part: Part) -> list[JudgedQuery]:
    """Give the questions of a part, in their order."""
    if part == "all":
        return list(queries)
    spaces = sorted({query.space for query in queries})
    if len(spaces) > 1:
        wanted = set(spaces[0::2] if part == "tune" else spaces[1::2])
        return [query for query in queries if query.space in wanted]
    return [query for query in queries if _is_even(query.text) == (part == "tune")]


def _is_even(text: str) -> bool:
    return sha256(text.encode()).digest()[-1] % 2 == 0
