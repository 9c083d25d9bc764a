"""Phrases and left-out words: which of the facts that may be found hold exact words one after the other.

Nothing is looked at but what may be found. Few facts that hold all words of a phrase are read and analysed;
where that would take longer than the file's own index takes for the whole file, that one is asked. Both
answer alike, so what may not be found decides nothing but which of two amounts of work is the smaller one.
Where the analysis that the index was made with is gone, the index is asked alone.

Where time runs out, facts are left of which nobody knows whether they hold a phrase: `Held` keeps them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.errors import IndexDamaged
from appview.memory.stopping import Stopped
from appview.search.chunks import EXACT_MARK
from appview.search.own_words import FACTS_A_READ, OCCURRENCES_A_WORD, kept_words
from appview.search.ranking import positions_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from appview.memory.analyser import Analyser
    from appview.memory.search_reads import SearchReads
    from appview.search.corpus import Corpus
    from appview.search.deadline import Deadline
    from appview.search.query import Phrase, Question
    from appview.search.view import View

    Ids = NDArray[np.int64]
    Mask = NDArray[np.bool_]

FEW: Final = 32  # facts that are sooner read than looked up under another word


@dataclass(frozen=True, slots=True)
class Held:
    """Facts of a mask that hold a phrase, and those that still may: there was no time to look at them."""

    sure: Mask
    open: Mask


def within(question: Question, mask: Mask, holding: Callable[[Phrase, Mask], Held]) -> Mask:
    """Leave what phrases and left-out words let through of what `mask` marks; `holding` tells which facts of
    a mask hold a phrase.

    Where some could not be looked at, those that are sure to hold all phrases are left, or, without any,
    those that may; what may hold a left-out word is left out.
    """
    for phrase in question.excluded:
        held = holding(phrase, mask)
        mask = mask & ~(held.sure | held.open)
    sure = possible = mask
    for phrase in question.required:
        held = holding(phrase, possible)
        sure, possible = sure & held.sure, held.sure | held.open
    # A phrase that nothing holds is most often a title or a stray pair of quotes: its words still count.
    return next((found for found in (sure, possible) if found.any()), mask)


class PhrasesInMemory:
    """Phrases of a view's facts."""

    def __init__(self, view: View, reads: SearchReads, analysis: Analyser | None, deadline: Deadline) -> None:
        self._view = view
        self._reads = reads
        self._analysis = analysis
        self._deadline = deadline
        self.cut = False  # whether there was no time for all

    def holding(self, phrase: Phrase, mask: Mask) -> Held:
        """Find the slots of a phrase among those of a mask."""
        view = self._view
        held, open_ = np.zeros(view.count, np.bool_), np.zeros(view.count, np.bool_)
        words = [word[len(EXACT_MARK) :] for word in dict.fromkeys(phrase.words)]
        counts = {word: view.words.exact_at_most(word) for word in words}
        rarest, *others = sorted(words, key=counts.__getitem__)
        slots = view.words.exact(rarest)
        slots = slots[mask[slots]]
        for word in others:
            if len(slots) > FEW:
                slots = slots[positions_in(view.words.exact(word), slots)[1]]
        if len(phrase.words) > 1 and len(slots):
            sure, seen = self._in_order(phrase.words, slots, sum(counts.values()))
            open_[slots[~seen]] = True
            slots = slots[sure]
            self.cut |= not seen.all()
        held[slots] = True
        return Held(held, open_)

    def _in_order(
        self, words: Sequence[str], slots: NDArray[np.int32], occurrences: int
    ) -> tuple[Mask, Mask]:
        """Mark those that hold the words one after the other, and those that were looked at."""
        ids = self._view.ids[slots]
        worth = OCCURRENCES_A_WORD * float(self._view.lengths[slots].sum(dtype=np.float64))
        analysis = self._analysis
        try:
            if analysis is None or occurrences <= worth:
                found, looked_at = _of_index(self._reads, words, ids, self._deadline)
            else:
                found, looked_at = in_order(self._reads, analysis, words, ids, self._deadline)
        except IndexDamaged:
            if analysis is None:
                found, looked_at = ids[:0], 0
            else:
                found, looked_at = in_order(self._reads, analysis, words, ids, self._deadline)
        return positions_in(found, ids)[1], np.arange(len(ids)) < looked_at


class PhrasesOfFile:
    """Phrases of some facts of a corpus, `base`, ascending, without a view."""

    def __init__(
        self, base: Ids, corpus: Corpus, reads: SearchReads, analysis: Analyser | None, deadline: Deadline
    ) -> None:
        self._base = base
        self._corpus = corpus
        self._reads = reads
        self._analysis = analysis
        self._deadline = deadline
        self.cut = False  # whether there was no time for all

    def holding(self, phrase: Phrase, mask: Mask) -> Held:
        """Find the facts of a phrase among those of a mask."""
        ids = self._base[mask]
        try:
            with self._reads.until(self._deadline.passed):
                left, by_facts = self._narrowed(phrase, ids)
            found, looked_at = self._in_order(phrase.words, left, by_facts=by_facts)
        except IndexDamaged:
            left = ids
            found, looked_at = self._in_order(phrase.words, left, by_facts=True)
        except Stopped:
            self.cut = True
            return Held(np.zeros(len(mask), np.bool_), mask)
        ids = left
        self.cut |= looked_at < len(ids)
        open_ = positions_in(ids[looked_at:], self._base)[1]
        return Held(positions_in(found, self._base)[1] & mask, open_ & mask)

    def _in_order(self, words: Sequence[str], ids: Ids, *, by_facts: bool) -> tuple[Ids, int]:
        if by_facts and self._analysis is not None:
            return in_order(self._reads, self._analysis, words, ids, self._deadline)
        if by_facts:
            return ids[:0], 0  # neither index nor facts can tell
        return _of_index(self._reads, words, ids, self._deadline)

    def _narrowed(self, phrase: Phrase, ids: Ids) -> tuple[Ids, bool]:
        """Leave the facts that may hold a phrase, as far as that is told at once; and tell whether they are
        sooner read than looked up in the index."""
        corpus, analysis = self._corpus, self._analysis
        own = kept_words(self._reads, analysis, corpus, self._deadline)
        if own is not None:
            for word in phrase.words:
                ids = np.intersect1d(ids, own.postings(word).ids)
            return ids, True
        if analysis is not None and corpus.hidden and self._is_less(phrase, ids):
            return np.intersect1d(ids, corpus.with_words, assume_unique=True), True
        return ids, False

    def _is_less(self, phrase: Phrase, ids: Ids) -> bool:
        """Tell whether reading facts is less than reading what the file holds of a phrase's words."""
        found = self._reads.frequencies(tuple(dict.fromkeys(phrase.words)))
        if len(found) < len(set(phrase.words)):
            return False  # nothing holds one of them, which the index tells at once
        positions, _ = self._corpus.positions(ids)
        words = float(self._corpus.lengths[positions].sum(dtype=np.float64))
        return OCCURRENCES_A_WORD * words < sum(frequency.facts for frequency in found.values())


def in_order(
    reads: SearchReads, analysis: Analyser, words: Sequence[str], ids: Ids, deadline: Deadline
) -> tuple[Ids, int]:
    """Read ascending facts and leave those that hold marked exact words one after the other; and tell how
    many of the first there was time for."""
    wanted = f" {' '.join(words)} "
    found: list[int] = []
    for start in range(0, len(ids), FACTS_A_READ):
        if deadline.passed():
            return np.array(found, np.int64), start
        found += [
            text.id
            for text in reads.bulk.sources(ids[start : start + FACTS_A_READ])
            if wanted in f" {analysis.document(text.text, text.tags, text.source).exact} "
        ]
    return np.array(found, np.int64), len(ids)


def _of_index(reads: SearchReads, words: Sequence[str], ids: Ids, deadline: Deadline) -> tuple[Ids, int]:
    """Ask the file's index which facts hold marked exact words one after the other: all, or none in time."""
    if not deadline.passed():
        try:
            with reads.until(deadline.passed):
                return reads.phrase(words), len(ids)
        except Stopped:
            pass
    return np.empty(0, np.int64), 0
