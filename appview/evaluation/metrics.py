"""How good one ranking is, measured against what is known to be relevant. Pure functions.

Relevance is yes or no. What was judged relevant and is not found counts against the ranking, also where the
space does not hold it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

DEPTH: Final = 20  # hits a question that are looked at
RECALL_DEPTHS: Final = (5, 10, 20)
NDCG_DEPTH: Final = 10
MEASURES: Final = ("ndcg@10", "recall@5", "recall@10", "recall@20", "mrr")


@dataclass(frozen=True, slots=True)
class Measured:
    """One question's figures, in the order of `MEASURES`, each from 0 to 1."""

    values: tuple[float, ...]

    def of(self, measure: str) -> float:
        """Give one of them by name."""
        return self.values[MEASURES.index(measure)]


def measure(ranking: Sequence[str], relevant: Collection[str]) -> Measured:
    """Measure a ranking, best first. `relevant` is not empty."""
    return Measured(
        (
            ndcg(ranking, relevant, NDCG_DEPTH),
            *(recall(ranking, relevant, depth) for depth in RECALL_DEPTHS),
            reciprocal_rank(ranking, relevant, DEPTH),
        )
    )


def recall(ranking: Sequence[str], relevant: Collection[str], depth: int) -> float:
    """Give the share of the relevant that is among the first `depth`."""
    return len(set(ranking[:depth]) & set(relevant)) / len(set(relevant))


def ndcg(ranking: Sequence[str], relevant: Collection[str], depth: int) -> float:
    """Give the discounted gain, `1 / log2(1 + position)` a relevant hit, over that of the best ranking there
    could be."""
    wanted = set(relevant)
    gained = math.fsum(_gain(position) for position, name in _first(ranking, depth) if name in wanted)
    best = math.fsum(_gain(position) for position in range(1, min(depth, len(wanted)) + 1))
    return gained / best


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], depth: int) -> float:
    """Give one over the position of the first relevant hit, 0 where the first `depth` have none."""
    wanted = set(relevant)
    return next((1.0 / position for position, name in _first(ranking, depth) if name in wanted), 0.0)


def _first(ranking: Sequence[str], depth: int) -> list[tuple[int, str]]:
    return list(enumerate(dict.fromkeys(ranking[:depth]), start=1))


def _gain(position: int) -> float:
    return 1.0 / math.log2(1.0 + position)
