"""From the candidates of the arms to ranked ones: what is too far, fusion, and what stands around."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.search.context import with_context
from appview.search.fusion import Fused, Scale
from appview.search.ranking import positions_in
from appview.search.vector import too_far

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from appview.search.arms import Arms
    from appview.search.fusion import Weights
    from appview.search.tuning import Tuning
    from appview.search.values import SearchRequest
    from appview.search.vector import QueryVector

    Ids = NDArray[np.int64]
    Scores = NDArray[np.float64]

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

    def fused(self, ids: Ids) -> Fused:
        """Fuse what the arms say of candidates, ascending, and, where both speak, what stands around them."""
        tuning = self.tuning
        words = self.arms.keyword_scores(ids) if self.by_words else None
        cosines = self.arms.cosines(self.vector, ids) if self.vector is not None else None
        if cosines is not None:
            kept = ~too_far(cosines, words, tuning.floor, tuning.cut)
            if words is None:
                kept &= ~np.isnan(cosines)
            ids, cosines = ids[kept], cosines[kept]
            words = None if words is None else words[kept]
        fused = Fused.of(ids, words, cosines, self.weights, tuning.method)
        if words is None or cosines is None or self.vector is None or tuning.context.weight <= 0.0:
            return fused
        return self._in_context(fused, words, cosines, self.vector)

    def _in_context(self, fused: Fused, words: Scores, cosines: Scores, vector: QueryVector) -> Fused:
        ids, limit = fused.ids, max(MIN_RERANKED, RERANKED_A_HIT * self.request.limit)
        best = ids[np.lexsort((ids, -fused.scores))[:limit]].tolist()
        around = self._around(best)
        beside = _apart([around.get(id_, ()) for id_ in best[:JOINED]], ids)
        joined = self.arms.found_among(beside)
        if len(joined):
            around |= self._around(joined.tolist())
        # Measured at once: what stands around, and what of it becomes a candidate.
        new = _apart([joined.tolist(), *around.values()], ids)
        every = np.concatenate((ids, new))
        in_order = np.argsort(every)
        every = every[in_order]
        words = np.concatenate((words, self.arms.keyword_scores(new)))[in_order]
        cosines = np.concatenate((cosines, self.arms.cosines(vector, new)))[in_order]
        ours = positions_in(ids, every)[1] | positions_in(joined, every)[1]
        fused = Fused.of(every[ours], words[ours], cosines[ours], self.weights, self.tuning.method)
        fused = fused.at(positions_in(np.array(sorted(around), np.int64), fused.ids)[1])
        by_keyword, by_vector = self.weights.scaled()
        of_keyword, of_vector = Scale.of_keyword(words[ours]), Scale.of_vector(cosines[ours])
        near = by_keyword * of_keyword(words) + by_vector * of_vector(cosines)
        near[np.isnan(cosines)] = np.nan
        return with_context(fused, around, every, near, self.tuning.context.weight)

    def _around(self, ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """Find the neighbours of facts; what is left out of the answer stands beside nothing."""
        settings = self.tuning.context
        return self.arms.neighbours(ids, settings.reach, settings.gap)


def _apart(groups: Iterable[Sequence[int]], ids: Ids) -> Ids:
    """List the facts of groups that are not among `ids`; both ascend."""
    together = np.array(sorted(set(chain.from_iterable(groups))), np.int64)
    return together[~positions_in(ids, together)[1]]
