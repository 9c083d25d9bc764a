"""From ranked candidates to hits: their order, their facts, what says the same, and why each is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.superseding import mark
from appview.search.collapse import collapse
from appview.search.deadline import NEVER, Deadline
from appview.search.highlights import NOTHING, highlights
from appview.search.signals import SIGNALS
from appview.search.values import Hit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from appview.memory.search_reads import Place, SearchReads
    from appview.memory.values import Fact
    from appview.search.analysis import TextAnalysis
    from appview.search.fusion import Ranked
    from appview.search.trace import Reason
    from appview.search.values import Ran, SearchRequest

MAX_SPARE: Final = 20  # ours, facts read beyond the limit to spare a read of their places


@dataclass(frozen=True, slots=True)
class Showing:
    """How the candidates of one question are shown."""

    reads: SearchReads
    analysis: TextAnalysis
    request: SearchRequest
    mode: Ran
    superseded: frozenset[int]
    has_context: bool = True
    deadline: Deadline = NEVER

    def hits(
        self,
        ranked: list[Ranked],
        terms: Collection[str],
        candidates: Mapping[str, NDArray[np.int64]],
    ) -> tuple[tuple[Hit, ...], bool]:
        """Choose the best and show them, and tell whether all were marked in time. `candidates` are the ids
        that each arm brought.

        Once the deadline is over, hits are shown without what they match: to mark a long one takes a while.
        """
        ranked, facts = self._best(ranked)
        alike: Mapping[int, list[int]] = {}
        if self.request.collapse:
            alike = self._collapsed([candidate.id for candidate in ranked], facts)
            ranked = [candidate for candidate in ranked if candidate.id in alike][: self.request.limit]
        brought = {arm: set(ids.tolist()) for arm, ids in candidates.items()}
        switched_off = {signal for signal, weight in self.request.mix.signals.items() if weight <= 0.0}
        finder = self.analysis.finder(terms)
        hits, in_time = [], True
        for candidate in ranked:
            fact, keyword, vector = facts[candidate.id], candidate.keyword, candidate.vector
            marks = NOTHING
            if keyword is not None and keyword.raw > 0.0:
                in_time = in_time and not self.deadline.passed()
                marks = highlights(finder, fact) if in_time else NOTHING
            hits.append(
                Hit(
                    fact=fact,
                    score=candidate.score,
                    similarity=similarity(vector.raw) if vector is not None else None,
                    keyword=keyword,
                    vector=vector,
                    words=marks.words,
                    signals=candidate.signals,
                    places=marks.places,
                    missing=self._missing(candidate, switched_off),
                    found_by=tuple([arm for arm, ids in brought.items() if candidate.id in ids]),
                    alike=tuple([facts[id_] for id_ in alike.get(candidate.id, ())]),
                    context=candidate.context,
                )
            )
        return tuple(hits), in_time

    def _best(self, ranked: list[Ranked]) -> tuple[list[Ranked], Mapping[int, Fact]]:
        """Put the best in order, or all where some will be collapsed, and read them."""
        limit, wanted = self.request.limit, len(ranked)
        ranked.sort(key=lambda candidate: -candidate.score)
        if not self.request.collapse and limit < len(ranked):
            last, wanted = ranked[limit - 1].score, limit
            ranked = [candidate for candidate in ranked if candidate.score >= last]
        found: Mapping[int, Fact] | None = None
        ids = [candidate.id for candidate in ranked]
        places: Mapping[int, Fact | Place]
        if len(ids) <= wanted + MAX_SPARE:
            places = found = self.reads.facts(ids)
        else:
            places = self.reads.places(ids)
        ranked = [candidate for candidate in ranked if candidate.id in places]
        ranked.sort(
            key=lambda candidate: (
                candidate.score,
                places[candidate.id].ordered_at,
                places[candidate.id].author,
                places[candidate.id].rkey,
            ),
            reverse=True,
        )
        ranked = ranked[:wanted]
        if found is None:
            found = self.reads.facts([candidate.id for candidate in ranked])
        return ranked, {fact.id: fact for fact in mark(found.values(), self.superseded)}

    def _collapsed(self, order: Sequence[int], facts: Mapping[int, Fact]) -> Mapping[int, list[int]]:
        ids = np.array(sorted(order), np.int64)
        found, vectors = self.reads.embeddings(ids)
        wide = vectors.astype(np.float64)
        wide /= np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        texts = {id_: facts[id_].text for id_ in order}
        return collapse(order, texts, dict(zip(found.tolist(), wide, strict=True)))

    def _missing(self, candidate: Ranked, switched_off: Collection[str]) -> dict[str, Reason]:
        """Tell why parts have no share in a candidate's score."""
        if self.mode == "strength":
            return {}
        missing: dict[str, Reason] = {}
        wished = self.request.mode
        if candidate.keyword is None:
            missing["keyword"] = "not-asked" if wished == "vector" else "no-words"
        elif candidate.keyword.raw <= 0.0:
            missing["keyword"] = "no-match"
        if candidate.vector is None:
            missing["vector"] = "not-asked" if wished == "keyword" else "no-vector"
        if candidate.context is None:
            known: Reason = "unknown" if self.has_context else "switched-off"
            missing["context"] = known if self.mode == "hybrid" else "not-asked"
        for signal in SIGNALS:
            if signal in switched_off:
                missing[signal] = "switched-off"
            elif signal not in candidate.signals:
                missing[signal] = "unknown"
        return missing


def similarity(cosine: float) -> int:
    """Write a cosine on the wire: thousandths of 0..1, cut off. What double precision rounds below an exact
    thousandth is that thousandth."""
    return int(min(max(cosine, 0.0), 1.0) * 1000.0 + 1e-9)
