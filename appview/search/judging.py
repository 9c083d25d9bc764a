"""From the candidates of the arms to ranked ones: what is too far, fusion, and what stands around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.search.context import with_context
from appview.search.fusion import Fused, Scale, fuse
from appview.search.vector import too_far

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from appview.search.arms import Arms
    from appview.search.fusion import Ranked, Weights
    from appview.search.tuning import Tuning
    from appview.search.values import SearchRequest
    from appview.search.vector import QueryVector

MIN_RERANKED: Final = 50  # ours, candidates whose context is looked at; where it counts, others are no hits
RERANKED_A_HIT: Final = 2
JOINED: Final = 5  # ours: the best candidates, whose neighbours become candidates too


@dataclass(frozen=True, slots=True)
class Judge:
    """How the candidates of one question are ranked: `by_words` and `vector` tell which arms ran."""

    arms: Arms
    request: SearchRequest
    tuning: Tuning
    weights: Weights
    by_words: bool
    vector: QueryVector | None

    def ranked(self, ids: NDArray[np.int64]) -> list[Ranked]:
        """Fuse what the arms say of candidates, and, where both speak, what stands around them."""
        tuning = self.tuning
        words, cosines = self._words(ids), self._cosines(ids)
        if cosines is not None:
            far = too_far(cosines, words or {}, tuning.floor, tuning.cut)
            cosines = {id_: cosine for id_, cosine in cosines.items() if id_ not in far}
            words = None if words is None else {id_: score for id_, score in words.items() if id_ not in far}
        if words is None or cosines is None or tuning.context.weight <= 0.0:
            return fuse(words, cosines, self.weights, tuning.method)
        fused = Fused.of(words, cosines, self.weights, tuning.method)
        kept = sorted(words, key=lambda id_: (-fused.score(id_), id_))
        kept = kept[: max(MIN_RERANKED, RERANKED_A_HIT * self.request.limit)]
        around = self._around(kept)
        beside = np.setdiff1d(_together(around.get(id_, ()) for id_ in kept[:JOINED]), list(words))
        beside = self.arms.found_among(beside)
        if len(beside):
            words |= self._words(beside) or {}
            cosines |= self._cosines(beside) or {}
            fused = Fused.of(words, cosines, self.weights, tuning.method)
            around |= self._around(beside.tolist())
        ranked = [fused.ranked(id_) for id_ in words if id_ in around]
        near = _together(around.values())
        near_words, near_cosines = self._words(near) or {}, self._cosines(near) or {}
        by_keyword, by_vector = self.weights.scaled()
        of_keyword, of_vector = Scale.of_keyword(words), Scale.of_vector(cosines)
        scores = {
            id_: by_keyword * of_keyword(near_words[id_]) + by_vector * of_vector(near_cosines[id_])
            for id_ in near_cosines
        }
        return with_context(ranked, around, scores, tuning.context.weight)

    def _words(self, ids: NDArray[np.int64]) -> dict[int, float] | None:
        return self.arms.keyword_scores(ids) if self.by_words else None

    def _cosines(self, ids: NDArray[np.int64]) -> dict[int, float] | None:
        return self.arms.cosines(self.vector, ids) if self.vector is not None else None

    def _around(self, ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """Find the neighbours of facts; what is left out of the answer stands beside nothing."""
        settings = self.tuning.context
        return self.arms.neighbours(ids, settings.reach, settings.gap)


def _together(groups: Iterable[tuple[int, ...]]) -> NDArray[np.int64]:
    return np.unique(np.array([id_ for group in groups for id_ in group], np.int64))
