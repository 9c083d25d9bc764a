"""BM25 from memory: the scores of `keyword`, without looking at every fact that holds a common word.

Words are taken from rare to common. A word can add no more to a score than its rarity times the most that its
occurrences saturate to; once the words that are left cannot lift a fact that has none of the rarer ones among
the best, they are only looked up in the facts that still can be. So nothing is missed, and every score is the
sum that `keyword` makes, in the same order. Where all words together stand in more facts than the budget
allows, the commonest do not count for whoever cannot read everything, as in `keyword`; for others they are
looked up in what the rarer ones found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.search import keyword
from appview.search.chunks import PREFIX_MARK
from appview.search.ranking import best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appview.search.deadline import Deadline
    from appview.search.query import Question
    from appview.search.view import View

    Mask = NDArray[np.bool_]

SLACK: Final = 1.0 + 1e-9  # of a bound, for what sums in another order round differently


@dataclass(frozen=True, slots=True)
class Term:
    """A word with the facts of the corpus that hold it. `kinds` is None where a fact counts once."""

    name: str
    slots: NDArray[np.int32]
    kinds: NDArray[np.uint16] | None
    rarity: float
    bound: float  # the most it adds to a score


class KeywordsInMemory:
    """The keyword scores of one question. `corpus` marks what statistics are of, None for all slots;
    `everything` tells that the scope leaves nothing out, whatever the space holds."""

    def __init__(
        self,
        view: View,
        question: Question,
        corpus: Mask | None,
        deadline: Deadline,
        settings: keyword.KeywordSettings = keyword.DEFAULT,
        *,
        everything: bool = False,
    ) -> None:
        self._view = view
        self._settings = settings
        self._corpus = corpus
        self._deadline = deadline
        lengths = view.lengths if corpus is None else view.lengths[corpus]
        self._count = len(lengths)
        self._shortest = lengths.min() if len(lengths) else np.float32(0.0)
        self.approximate = question.cut
        self._weights = view.words.kinds.weights(keyword.FIELD_WEIGHTS)
        self.found: dict[str, int] = {}  # all words that the corpus holds, and how many of its facts do
        self._terms = self._read(question)
        if not everything:
            counting = keyword.affordable([len(term.slots) for term in self._terms])
            self.approximate |= counting < len(self._terms)
            self._terms = self._terms[:counting]

    @property
    def terms(self) -> frozenset[str]:
        """The words that count (exact words and beginnings marked)."""
        return frozenset(term.name for term in self._terms)

    def best(self, count: int, found: Mask | None) -> NDArray[np.int64]:
        """Choose the slots of the `count` highest scores above 0 among those that `found` marks, and of those
        equal to the last; in no order."""
        scores = np.zeros(self._view.count)
        touched: list[NDArray[np.int32]] = []  # the slots above 0, each once
        left = keyword.MAX_POSTINGS
        bounds = np.cumsum([term.bound for term in reversed(self._terms)])[::-1] * SLACK
        reached = 0.0  # no score is above this yet
        for number, term in enumerate(self._terms):
            if self._deadline.passed():
                self.approximate = True
                break
            threshold = _threshold(scores, touched, count) if bounds[number] < reached else 0.0
            if bounds[number] < threshold or (left < len(term.slots) and touched):
                if bounds[number] >= threshold:
                    self.approximate = True
                    threshold = _threshold(scores, touched, count)
                touched = [self._completed(scores, np.concatenate(touched), number, bounds, threshold, count)]
                break
            reached += term.bound * SLACK
            left -= len(term.slots)
            slots, kinds = term.slots, term.kinds
            if found is not None:
                kept = found[slots]
                slots, kinds = slots[kept], None if kinds is None else kinds[kept]
            gains = self._contributions(term, slots, kinds)
            touched.append(slots[(scores[slots] == 0.0) & (gains > 0.0)])
            scores[slots] += gains
        candidates = np.concatenate(touched) if touched else np.empty(0, np.int32)
        threshold = _threshold(scores, touched, count)
        candidates = np.sort(candidates[scores[candidates] >= threshold])
        chosen: NDArray[np.int64] = candidates[best(scores[candidates], count)].astype(np.int64)
        return chosen

    def _completed(
        self,
        scores: NDArray[np.float64],
        candidates: NDArray[np.int32],
        first: int,
        bounds: NDArray[np.float64],
        threshold: float,
        count: int,
    ) -> NDArray[np.int32]:
        """Look the words from `first` on up in the candidates that can still be among the best, which are the
        answer."""
        for number in range(first, len(self._terms)):
            candidates = candidates[scores[candidates] + bounds[number] >= threshold]
            self._complete(scores, candidates, self._terms[number])
            threshold = max(threshold, _threshold(scores, [candidates], count))
        return candidates

    def scores(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Score some facts, by ascending slot."""
        scores = np.zeros(len(slots))
        for term in self._terms:
            positions, there = _places(term.slots, slots)
            held = positions[there]
            kinds = None if term.kinds is None else term.kinds[held]
            scores[there] += self._contributions(term, term.slots[held], kinds)
        return scores

    def _complete(self, scores: NDArray[np.float64], candidates: NDArray[np.int32], term: Term) -> None:
        positions, there = _places(term.slots, candidates)
        held = positions[there]
        slots = term.slots[held]
        scores[slots] += self._contributions(term, slots, None if term.kinds is None else term.kinds[held])

    def _contributions(
        self, term: Term, slots: NDArray[np.int32], kinds: NDArray[np.uint16] | None
    ) -> NDArray[np.float64]:
        weights = np.ones(len(slots)) if kinds is None else self._weights[kinds]
        return term.rarity * self._settings.saturation(weights, self._view.lengths[slots])

    def _read(self, question: Question) -> tuple[Term, ...]:
        terms: list[Term | None] = []
        for name in question.terms:
            found = self._view.words.find(name)
            if found is not None:
                heaviest = float(found.peak @ keyword.FIELD_WEIGHTS[: len(found.peak)])
                terms.append(self._term(name, found.slots, found.kinds, heaviest))
        for prefix in question.prefixes:
            if self._deadline.passed():
                self.approximate = True
                break
            for start in prefix.starts:
                slots = self._beginning(start)
                terms.append(self._term(start + PREFIX_MARK, slots, None, 1.0))
        there = [term for term in terms if term is not None]
        self.found = {term.name: len(term.slots) for term in there}
        common = self._settings.common(self._count)
        rarer = [term for term in there if len(term.slots) <= common]
        return tuple(sorted(rarer or there, key=lambda term: (len(term.slots), term.name)))

    def _beginning(self, start: str) -> NDArray[np.int32]:
        """Find the slots that hold a word with a beginning, ascending."""
        mark = np.zeros(self._view.count, np.bool_)
        for slots in self._view.words.beginning(start):
            mark[slots] = True
        return np.flatnonzero(mark).astype(np.int32)

    def _term(
        self, name: str, slots: NDArray[np.int32], kinds: NDArray[np.uint16] | None, heaviest: float
    ) -> Term | None:
        if self._corpus is not None:
            kept = self._corpus[slots]
            slots, kinds = slots[kept], None if kinds is None else kinds[kept]
        if not len(slots):
            return None
        rarity = keyword.rarity(self._count, len(slots))
        most = self._settings.saturation(np.array([heaviest]), np.array([self._shortest]))[0]
        return Term(name, slots, kinds, rarity, rarity * float(most))


def _threshold(scores: NDArray[np.float64], touched: list[NDArray[np.int32]], count: int) -> float:
    """The score that the `count` best have so far, 0 where there are fewer."""
    total = sum(map(len, touched))
    if total < count:
        return 0.0
    reached = scores[np.concatenate(touched)]
    return float(np.partition(reached, total - count)[total - count])


def _places(
    slots: NDArray[np.int32], wanted: NDArray[np.int32] | NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    positions = np.searchsorted(slots, wanted.astype(np.int32))
    positions[positions == len(slots)] = 0
    return positions, slots[positions] == wanted
