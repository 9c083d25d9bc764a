"""Context: what stands around a fact. Pure functions of arrays.

Memories come in sequences: turns of a talk, notes of one piece of work. The answer to a question often stands
beside the memory that shares its words. So a candidate's score takes part in how well the facts written just
before and after it, at the same path, fit the question: the mean of their fused scores.

Unknown is not zero: a candidate without neighbours has the mean of those that have some, which moves it
neither up nor down among them; where no candidate has any, context takes no part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.search.ranking import positions_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from appview.search.fusion import Fused

    Scores = NDArray[np.float64]
    Ids = NDArray[np.int64]

# See docs/evaluation.md for what these are worth.
CONTEXT_WEIGHT: Final = 0.5  # beside the arms, which together count 1
REACH: Final = 2  # facts before, and as many after
MAX_WEIGHT: Final = 1_000.0  # ours; more leaves nothing of the arms
MAX_REACH: Final = 100  # ours; what stands further away is no context
MAX_GAP_MICROS: Final = (
    10_000 * 365 * 24 * 3_600 * 1_000_000
)  # 10,000 years: no two datetimes are further apart
GAP_MICROS: Final = 30 * 60 * 1_000_000  # ours: what was written half an hour away belongs to something else


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How much context counts (0: not at all), and what is taken for it."""

    weight: float = CONTEXT_WEIGHT
    reach: int = REACH
    gap: int = GAP_MICROS

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= MAX_WEIGHT:
            raise ValueError(f"the weight of context is from 0 to {MAX_WEIGHT:,.0f}")
        if not 1 <= self.reach <= MAX_REACH:
            raise ValueError(f"reach is from 1 to {MAX_REACH}")
        if not 0 <= self.gap <= MAX_GAP_MICROS:
            raise ValueError("gap is from 0 to 10,000 years, in seconds")


def with_context(
    fused: Fused, around: Mapping[int, Sequence[int]], beside: Ids, scores: Scores, weight: float
) -> Fused:
    """Join the scores of candidates with those of the facts `around` each. `scores` are the fused ones of the
    facts `beside`, ascending; a neighbour that is not there, or of which nothing is known (NaN), is passed
    over."""
    if weight <= 0.0:
        return fused
    near = [around.get(id_, ()) for id_ in fused.ids.tolist()]
    ids = np.array([id_ for group in near for id_ in group], np.int64)
    whose = np.repeat(np.arange(len(near)), [len(group) for group in near])
    positions, there = positions_in(beside, ids)
    values = scores[positions[there]]
    known = ~np.isnan(values)
    owners = whose[there][known]
    counts = np.bincount(owners, minlength=len(near))
    has = counts > 0
    if not has.any():
        return fused
    means = np.bincount(owners, values[known], minlength=len(near))[has] / counts[has]
    context = np.full(len(near), sum(means.tolist()) / len(means))
    context[has] = means
    return replace(fused, context=context, share=weight / (1.0 + weight))
