"""Context: what stands around a fact. Pure functions of numbers.

Memories come in sequences: turns of a talk, notes of one piece of work. The answer to a question often stands
beside the memory that shares its words. So a candidate's score takes part in how well the facts written just
before and after it, at the same path, fit the question: the mean of their fused scores.

Unknown is not zero: a candidate without neighbours has the mean of those that have some, which moves it
neither up nor down among them; where no candidate has any, context takes no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.search.fusion import Component, Ranked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# See docs/evaluation.md for what these are worth.
CONTEXT_WEIGHT: Final = 0.5  # beside the arms, which together count 1
REACH: Final = 2  # facts before, and as many after
GAP_MICROS: Final = 30 * 60 * 1_000_000  # ours: what was written half an hour away belongs to something else


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How much context counts (0: not at all), and what is taken for it."""

    weight: float = CONTEXT_WEIGHT
    reach: int = REACH
    gap: int = GAP_MICROS

    def __post_init__(self) -> None:
        if not (0.0 <= self.weight < float("inf") and self.reach >= 1 and self.gap >= 0):
            raise ValueError("the weight of context is from 0 up, its reach at least 1")


def with_context(
    ranked: Sequence[Ranked],
    neighbours: Mapping[int, Sequence[int]],
    scores: Mapping[int, float],
    weight: float,
) -> list[Ranked]:
    """Join the scores of candidates with the fused `scores` of their neighbours; a neighbour without one is
    passed over."""
    known = {
        candidate.id: [scores[id_] for id_ in neighbours.get(candidate.id, ()) if id_ in scores]
        for candidate in ranked
    }
    around = {id_: _mean(values) for id_, values in known.items() if values}
    if not around or weight <= 0.0:
        return list(ranked)
    usual = _mean(list(around.values()))
    joined = []
    for candidate in ranked:
        value = around.get(candidate.id, usual)
        share = weight / (1.0 + weight)
        context = Component(value, value, share, share * value)
        keyword = _scaled(candidate.keyword, 1.0 - share)
        vector = _scaled(candidate.vector, 1.0 - share)
        score = context.contribution
        score += keyword.contribution if keyword else 0.0
        score += vector.contribution if vector else 0.0
        joined.append(Ranked(candidate.id, score, keyword, vector, candidate.signals, context))
    return joined


def _scaled(component: Component | None, share: float) -> Component | None:
    if component is None:
        return None
    weight = component.weight * share
    return Component(component.raw, component.normalised, weight, weight * component.normalised)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
