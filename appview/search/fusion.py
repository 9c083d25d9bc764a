"""Putting the two arms together. Pure functions of numbers.

Convex fusion, the default: each arm's raw scores are brought to 0..1 over the candidates, and a candidate's
score is their weighted sum. Rank fusion: positions are brought to 0..1 instead, for arms whose raw scores
mean nothing to each other. In both, each number is kept beside the score it went into, and the contributions
sum to the score.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Method = Literal["convex", "rank"]
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

    keyword: float = 0.6  # see docs/evaluation.md
    vector: float = 0.4

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
    of the score, by name; `context` is that of the facts around it."""

    id: int
    score: float
    keyword: Component | None
    vector: Component | None
    signals: Mapping[str, Component] = field(default_factory=dict)
    context: Component | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """Brings raw scores to 0..1: `lowest` and what is below is 0, `highest` and what is above is 1. Where the
    two are equal there is nothing to tell scores apart by, and all have `flat`."""

    lowest: float
    highest: float
    flat: float

    @classmethod
    def of_keyword(cls, raw: Mapping[int, float]) -> Scale:
        """Scale BM25 scores: the best is 1, and no matching word is a genuine 0."""
        return cls(0.0, max(raw.values(), default=0.0), flat=0.0)

    @classmethod
    def of_vector(cls, raw: Mapping[int, float]) -> Scale:
        """Scale cosines: the best is 1, the lowest is 0."""
        return cls(min(raw.values(), default=0.0), max(raw.values(), default=0.0), flat=1.0)

    def __call__(self, score: float) -> float:
        """Scale one score."""
        spread = self.highest - self.lowest
        if spread <= 0.0:
            return self.flat
        return min(max((score - self.lowest) / spread, 0.0), 1.0)


def normalise_keyword(raw: Mapping[int, float]) -> dict[int, float]:
    """Bring BM25 scores to 0..1 over the candidates."""
    scale = Scale.of_keyword(raw)
    return {id_: scale(score) for id_, score in raw.items()}


def normalise_vector(raw: Mapping[int, float]) -> dict[int, float]:
    """Bring cosines to 0..1 over the candidates."""
    scale = Scale.of_vector(raw)
    return {id_: scale(score) for id_, score in raw.items()}


def normalise_ranks(
    raw: Mapping[int, float], constant: float = RANK_CONSTANT, *, zero: bool = False
) -> dict[int, float]:
    """Bring positions to 0..1: `(constant + 1) / (constant + position)`, so that the first is 1. Equal scores
    share the best of their positions; `zero`: what scores 0 was not found and has 0."""
    positions: dict[float, int] = {}
    for position, score in enumerate(sorted(raw.values(), reverse=True), start=1):
        positions.setdefault(score, position)
    return {
        id_: 0.0 if zero and score <= 0.0 else (constant + 1.0) / (constant + positions[score])
        for id_, score in raw.items()
    }


def fuse(
    keyword: Mapping[int, float] | None,
    vector: Mapping[int, float] | None,
    weights: Weights,
    method: Method = "convex",
) -> list[Ranked]:
    """Fuse the raw scores of one set of candidates, known to every arm that ran; the order is not decided.

    An arm that did not run is None, and the other one decides alone.
    """
    fused = Fused.of(keyword, vector, weights, method)
    return [fused.ranked(id_) for id_ in (keyword if keyword is not None else vector or {})]


@dataclass(frozen=True, slots=True)
class Fused:
    """The arms' scores of one set of candidates, raw and brought to 0..1, before any is written out."""

    keyword: Mapping[int, float] | None
    vector: Mapping[int, float] | None
    by_keyword: Mapping[int, float]
    by_vector: Mapping[int, float]
    weights: tuple[float, float]

    @classmethod
    def of(
        cls,
        keyword: Mapping[int, float] | None,
        vector: Mapping[int, float] | None,
        weights: Weights,
        method: Method = "convex",
    ) -> Fused:
        """Bring scores to one scale."""
        shares = weights.scaled() if keyword is not None and vector is not None else (1.0, 1.0)
        if method == "rank":
            by_keyword, by_vector = normalise_ranks(keyword or {}, zero=True), normalise_ranks(vector or {})
        else:
            by_keyword, by_vector = normalise_keyword(keyword or {}), normalise_vector(vector or {})
        return cls(keyword, vector, by_keyword, by_vector, shares)

    def score(self, id_: int) -> float:
        """Give a candidate's score."""
        words, meaning = self.by_keyword.get(id_, 0.0), self.by_vector.get(id_, 0.0)
        return self.weights[0] * words + self.weights[1] * meaning

    def ranked(self, id_: int) -> Ranked:
        """Write a candidate's score out, part by part."""
        words = _component(self.keyword, self.by_keyword, self.weights[0], id_)
        meaning = _component(self.vector, self.by_vector, self.weights[1], id_)
        score = (words.contribution if words else 0.0) + (meaning.contribution if meaning else 0.0)
        return Ranked(id_, score, words, meaning)


def _component(
    raw: Mapping[int, float] | None, normalised: Mapping[int, float], weight: float, id_: int
) -> Component | None:
    if raw is None or id_ not in raw:
        return None
    return Component(raw[id_], normalised[id_], weight, weight * normalised[id_])
