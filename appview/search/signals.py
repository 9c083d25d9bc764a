"""Signals beside the arms: how new, how fresh in memory, how important, how much pointed to. Pure.

Each signal is measured on its own scale from 0 to 1, whatever the other candidates are. A score is the
weighted mean of what is known of a candidate: a signal that is unknown for it is left out, which is not a 0.
The contributions of the arms and the signals sum to the score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from appview.memory.forgetting import DAY_MICROS
from appview.memory.signal_reads import MAX_IMPORTANCE, MIN_IMPORTANCE
from appview.search.fusion import Component, Ranked, Weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Signal = Literal["recency", "strength", "importance", "links"]
SIGNALS: Final[tuple[Signal, ...]] = get_args(Signal)
ARMS: Final = ("keyword", "vector")
NAMES: Final = (*ARMS, *SIGNALS)

HALF_LIFE_DAYS: Final = 30.0  # ours, of recency, at medium importance
MEDIUM_IMPORTANCE: Final = 5  # where it is unknown; twice as important is new for twice as long
HALF_LINKED: Final = 3  # ours: memories pointing to one that give half of what any number does


@dataclass(frozen=True, slots=True)
class Measure:
    """A signal of one candidate: `raw` in its own unit, `normalised` from 0 to 1."""

    raw: float
    normalised: float


@dataclass(frozen=True, slots=True)
class Mix:
    """How much each part counts; only the ratios matter. `keyword` and `vector` share `relevance`; None is
    the searcher's own share."""

    relevance: float = 1.0
    recency: float = 0.0
    strength: float = 0.0
    importance: float = 0.0
    links: float = 0.0
    keyword: float | None = None
    vector: float | None = None

    def __post_init__(self) -> None:
        weights = [self.relevance, self.keyword or 0.0, self.vector or 0.0, *self.signals.values()]
        if not all(0.0 <= weight < float("inf") for weight in weights) or not any(
            [self.arms_weight(Weights()), *self.signals.values()]
        ):
            raise ValueError("weights are numbers from 0 up, and not all are 0")

    @property
    def signals(self) -> dict[Signal, float]:
        """The weights of the signals."""
        return {
            "recency": self.recency,
            "strength": self.strength,
            "importance": self.importance,
            "links": self.links,
        }

    @property
    def has_signals(self) -> bool:
        """Tell whether anything counts beside the arms."""
        return any(self.signals.values())

    def arms(self, own: Weights) -> Weights:
        """Tell how the arms share; a searcher's own way where both would be 0."""
        keyword, vector = self._arms(own)
        return Weights(keyword, vector) if keyword + vector > 0.0 else own

    def arms_weight(self, own: Weights) -> float:
        """Tell how much both arms count together."""
        return sum(self._arms(own))

    def given(self, weights: Mapping[str, float]) -> Mix:
        """Change some weights by name; raise `ValueError`."""
        return replace(self, **weights)

    def _arms(self, own: Weights) -> tuple[float, float]:
        keyword, vector = own.scaled()
        return (
            self.relevance * keyword if self.keyword is None else self.keyword,
            self.relevance * vector if self.vector is None else self.vector,
        )


PROFILES: Final[Mapping[str, Mix]] = {
    "relevance": Mix(),
    "recent": Mix(relevance=0.6, recency=0.4),
    "balanced": Mix(relevance=0.7, recency=0.1, strength=0.1, importance=0.05, links=0.05),
}
RELEVANCE: Final = PROFILES["relevance"]


def recency(age: int, importance: int | None) -> Measure:
    """Measure how new a memory is from its age in microseconds; raw in days."""
    days = max(0, age) / DAY_MICROS
    half_life = HALF_LIFE_DAYS * (importance or MEDIUM_IMPORTANCE) / MEDIUM_IMPORTANCE
    return Measure(days, 0.5 ** (days / half_life))


def importance(value: int) -> Measure:
    """Measure an importance from 1 to 10."""
    return Measure(value, (value - MIN_IMPORTANCE) / (MAX_IMPORTANCE - MIN_IMPORTANCE))


def links(count: int) -> Measure:
    """Measure how many memories point to one."""
    return Measure(count, count / (count + HALF_LINKED))


def blend(
    ranked: Sequence[Ranked],
    measures: Mapping[Signal, Mapping[int, Measure]],
    mix: Mix,
    own: Weights,
) -> list[Ranked]:
    """Join the arms' scores with the signals. A signal without a weight takes no part."""
    signals = {signal: weight for signal, weight in mix.signals.items() if weight > 0.0}
    arms = mix.arms_weight(own)
    if not signals:
        return list(ranked)
    blended = []
    for candidate in ranked:
        known = {
            signal: measures[signal][candidate.id]
            for signal in signals
            if candidate.id in measures.get(signal, {})
        }
        total = arms + sum(signals[signal] for signal in known)
        if total <= 0.0:
            blended.append(replace(candidate, score=0.0, keyword=None, vector=None, context=None))
            continue
        keyword = _scaled(candidate.keyword, arms / total)
        vector = _scaled(candidate.vector, arms / total)
        context = _scaled(candidate.context, arms / total)
        parts: dict[str, Component] = {
            signal: Component(
                measure.raw,
                measure.normalised,
                signals[signal] / total,
                signals[signal] / total * measure.normalised,
            )
            for signal, measure in known.items()
        }
        score = sum(part.contribution for part in (keyword, vector, context, *parts.values()) if part)
        blended.append(Ranked(candidate.id, score, keyword, vector, parts, context))
    return blended


def _scaled(component: Component | None, share: float) -> Component | None:
    if component is None:
        return None
    return Component(
        component.raw, component.normalised, component.weight * share, component.contribution * share
    )
