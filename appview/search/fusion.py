"""Putting the two arms together. Pure functions of arrays.

Convex fusion, the default: each arm's raw scores are brought to 0..1 over the candidates, and a candidate's
score is their weighted sum. Rank fusion: positions are brought to 0..1 instead, for arms whose raw scores
mean nothing to each other. In both, each number is kept beside the score it went into, and the contributions
sum to the score.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Scores = NDArray[np.float64]
    Ids = NDArray[np.int64]

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
    two are equal there is nothing to tell scores apart by, and all have `flat`; what is unknown (NaN) has
    0."""

    lowest: float
    highest: float
    flat: float

    @classmethod
    def of_keyword(cls, raw: Scores) -> Scale:
        """Scale BM25 scores: the best is 1, and no matching word is a genuine 0."""
        return cls(0.0, float(raw.max(initial=0.0)), flat=0.0)

    @classmethod
    def of_vector(cls, raw: Scores) -> Scale:
        """Scale cosines: the best is 1, the lowest is 0."""
        known = raw[~np.isnan(raw)]
        if not len(known):
            return cls(0.0, 0.0, flat=1.0)
        return cls(float(known.min()), float(known.max()), flat=1.0)

    def __call__(self, raw: Scores) -> Scores:
        """Scale scores."""
        spread = self.highest - self.lowest
        if spread <= 0.0:
            return np.where(np.isnan(raw), 0.0, self.flat)
        return np.nan_to_num(np.clip((raw - self.lowest) / spread, 0.0, 1.0), copy=False)


def by_rank(raw: Scores, constant: float = RANK_CONSTANT, *, zero: bool = False) -> Scores:
    """Bring positions to 0..1: `(constant + 1) / (constant + position)`, so that the first is 1. Equal scores
    share the best of their positions; `zero`: what scores 0 was not found and has 0. So has what is
    unknown (NaN)."""
    known = ~np.isnan(raw)
    positions = 1.0 + np.searchsorted(np.sort(-raw[known]), -raw)
    return np.where(known & ~(zero & (raw <= 0.0)), (constant + 1.0) / (constant + positions), 0.0)


@dataclass(frozen=True, slots=True)
class Fused:
    """The scores of one set of candidates, by position: what the arms gave, raw and brought to 0..1. An arm
    that did not run is None, and the other one decides alone; what an arm does not know of one is NaN.

    `context` is what the facts around each are worth, with its `share` in every score.
    """

    ids: Ids
    keyword: Scores | None
    vector: Scores | None
    by_keyword: Scores
    by_vector: Scores
    weights: tuple[float, float]
    context: Scores | None = None
    share: float = 0.0

    @classmethod
    def of(
        cls,
        ids: Ids,
        keyword: Scores | None,
        vector: Scores | None,
        weights: Weights,
        method: Method = "convex",
    ) -> Fused:
        """Bring scores to one scale."""
        shares = weights.scaled() if keyword is not None and vector is not None else (1.0, 1.0)
        words = keyword if keyword is not None else np.zeros(len(ids))
        cosines = vector if vector is not None else np.full(len(ids), np.nan)
        if method == "rank":
            by_keyword, by_vector = by_rank(words, zero=True), by_rank(cosines)
        else:
            by_keyword, by_vector = Scale.of_keyword(words)(words), Scale.of_vector(cosines)(cosines)
        return cls(ids, keyword, vector, by_keyword, by_vector, shares)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def scores(self) -> Scores:
        """The score of each: the sum of the contributions that `ranked` writes out."""
        left = 1.0 - self.share
        scores = self.share * self.context if self.context is not None else 0.0
        scores = scores + (self.weights[0] * left) * self.by_keyword
        return np.asarray(scores + (self.weights[1] * left) * self.by_vector)

    @property
    def shares(self) -> dict[str, float]:
        """The weight of each part that takes part, by name; they sum to 1."""
        left = 1.0 - self.share
        parts = (
            ("keyword", self.keyword, self.weights[0] * left),
            ("vector", self.vector, self.weights[1] * left),
            ("context", self.context, self.share),
        )
        return {name: weight for name, values, weight in parts if values is not None}

    def at(self, positions: NDArray[np.intp] | NDArray[np.bool_]) -> Fused:
        """Leave some of the candidates, with the scores they have."""
        return replace(
            self,
            ids=self.ids[positions],
            keyword=None if self.keyword is None else self.keyword[positions],
            vector=None if self.vector is None else self.vector[positions],
            by_keyword=self.by_keyword[positions],
            by_vector=self.by_vector[positions],
            context=None if self.context is None else self.context[positions],
        )

    def ranked(self, count: int | None = None) -> list[Ranked]:
        """Write candidates out, part by part, in no order: those with the `count` highest scores and those
        equal to the last of them, or all."""
        scores = self.scores
        chosen = np.arange(len(scores))
        if count is not None and count < len(scores):
            chosen = np.flatnonzero(scores >= np.partition(scores, len(scores) - count)[len(scores) - count])
        left = 1.0 - self.share
        keyword, vector = self.weights[0] * left, self.weights[1] * left
        found = []
        for place in chosen.tolist():
            around = None
            if self.context is not None:
                value = float(self.context[place])
                around = Component(value, value, self.share, self.share * value)
            found.append(
                Ranked(
                    int(self.ids[place]),
                    float(scores[place]),
                    _component(self.keyword, self.by_keyword, keyword, place),
                    _component(self.vector, self.by_vector, vector, place),
                    context=around,
                )
            )
        return found


def _component(raw: Scores | None, normalised: Scores, weight: float, place: int) -> Component | None:
    if raw is None or np.isnan(raw[place]):
        return None
    value = float(normalised[place])
    return Component(float(raw[place]), value, weight, weight * value)
