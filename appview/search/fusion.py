"""Putting the two arms together. Pure functions of numbers.

Convex fusion: each arm's raw scores are brought to 0..1 over the candidates, and a candidate's score is their
weighted sum. Each number is kept beside the score it went into, and the contributions sum to the score.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RANK_CONSTANT: Final = 10.0  # rank fusion; on talk over months 10 finds more than the customary 60


@dataclass(frozen=True, slots=True)
class Component:
    """One arm's part of a score: `contribution` is `weight * normalised`."""

    raw: float
    normalised: float
    weight: float
    contribution: float


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each arm counts. Only their ratio matters: they are scaled to sum to 1."""

    keyword: float = 0.5
    vector: float = 0.5

    def __post_init__(self) -> None:
        if not (
            self.keyword >= 0.0 and self.vector >= 0.0 and 0.0 < self.keyword + self.vector < float("inf")
        ):
            raise ValueError("weights are numbers from 0 up, and not both are 0")

    def scaled(self) -> tuple[float, float]:
        """Give the weights of the keyword and the vector arm, summing to 1."""
        total = self.keyword + self.vector
        return self.keyword / total, self.vector / total


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score. A component is None where that arm did not run; `signals` are other parts
    of the score, by name."""

    id: int
    score: float
    keyword: Component | None
    vector: Component | None
    signals: Mapping[str, Component] = field(default_factory=dict)


def normalise_keyword(raw: Mapping[int, float]) -> dict[int, float]:
    """Bring BM25 scores to 0..1: the best is 1, and no matching word is a genuine 0."""
    highest = max(raw.values(), default=0.0)
    return {id_: score / highest if highest > 0.0 else 0.0 for id_, score in raw.items()}


def normalise_vector(raw: Mapping[int, float], floor: float | None = None) -> dict[int, float]:
    """Bring cosines to 0..1: the best is 1, the lowest (or `floor`, where given) is 0. Where all are equal
    there is nothing to tell them apart by, and all are 1."""
    if not raw:
        return {}
    highest = max(raw.values())
    lowest = min(raw.values()) if floor is None else min(floor, highest)
    spread = highest - lowest
    if spread <= 0.0:
        return dict.fromkeys(raw, 1.0)
    return {id_: max(0.0, (score - lowest) / spread) for id_, score in raw.items()}


def fuse(
    keyword: Mapping[int, float] | None,
    vector: Mapping[int, float] | None,
    weights: Weights,
    floor: float | None = None,
) -> list[Ranked]:
    """Fuse the raw scores of one set of candidates, known to every arm that ran; the order is not decided.

    An arm that did not run is None, and the other one decides alone.
    """
    keyword_weight, vector_weight = weights.scaled()
    if keyword is None or vector is None:
        keyword_weight = vector_weight = 1.0
    keyword_parts = _components(keyword, normalise_keyword(keyword or {}), keyword_weight)
    vector_parts = _components(vector, normalise_vector(vector or {}, floor), vector_weight)
    candidates = keyword if keyword is not None else vector or {}
    ranked = []
    for id_ in candidates:
        by_keyword, by_vector = keyword_parts.get(id_), vector_parts.get(id_)
        score = (by_keyword.contribution if by_keyword else 0.0) + (
            by_vector.contribution if by_vector else 0.0
        )
        ranked.append(Ranked(id_, score, by_keyword, by_vector))
    return ranked


def fuse_ranks(
    rankings: Sequence[Sequence[int]], weights: Sequence[float], constant: float = RANK_CONSTANT
) -> dict[int, float]:
    """Fuse by position alone: each ranking gives `weight / (constant + position)`, the first position being
    1.

    For arms whose raw scores mean nothing to each other; convex fusion finds more where they do.
    """
    scores: dict[int, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for position, id_ in enumerate(ranking, start=1):
            scores[id_] = scores.get(id_, 0.0) + weight / (constant + position)
    return scores


def _components(
    raw: Mapping[int, float] | None, normalised: Mapping[int, float], weight: float
) -> dict[int, Component]:
    if raw is None:
        return {}
    return {
        id_: Component(score, normalised[id_], weight, weight * normalised[id_]) for id_, score in raw.items()
    }
