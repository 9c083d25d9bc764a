"""Phrases and left-out words: which of the facts that may be found hold exact words one after the other.

Nothing is looked at but what may be found. Few facts that hold all words of a phrase are read and analysed;
where that would take longer than the file's own index takes for the whole file, that one is asked. Both
answer alike, so what may not be found decides nothing but which of two amounts of work is the smaller one.
Where the analysis that the index was made with is gone, the index is asked alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

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
    Holding = Callable[[Phrase, Mask], Mask]

FEW: Final = 32  # facts that are sooner read than looked up under another word


def within(question: Question, mask: Mask, holding: Holding) -> Mask:
    """Leave what phrases and left-out words let through of what `mask` marks; `holding` marks the facts of a
    phrase among those of a mask."""
    for phrase in question.excluded:
        mask = mask & ~holding(phrase, mask)
    with_phrases = mask
    for phrase in question.required:
        with_phrases = holding(phrase, with_phrases)
    # A phrase that nothing holds is most often a title or a stray pair of quotes: its words still count.
    return with_phrases if with_phrases.any() else mask


class PhrasesInMemory:
    """Phrases of a view's facts."""

    def __init__(self, view: View, reads: SearchReads, analysis: Analyser | None, deadline: Deadline) -> None:
        self._view = view
        self._reads = reads
        self._analysis = analysis
        self._deadline = deadline

    def holding(self, phrase: Phrase, mask: Mask) -> Mask:
        """Mark the slots of a phrase among those of a mask."""
        view, held = self._view, np.zeros(self._view.count, np.bool_)
        words = [word[len(EXACT_MARK) :] for word in dict.fromkeys(phrase.words)]
        counts = {word: view.words.exact_at_most(word) for word in words}
        rarest, *others = sorted(words, key=counts.__getitem__)
        slots = view.words.exact(rarest)
        slots = slots[mask[slots]]
        for word in others:
            if len(slots) > FEW:
                slots = slots[positions_in(view.words.exact(word), slots)[1]]
        if len(phrase.words) > 1 and len(slots):
            slots = slots[self._in_order(phrase.words, slots, sum(counts.values()))]
        held[slots] = True
        return held

    def _in_order(self, words: Sequence[str], slots: NDArray[np.int32], occurrences: int) -> Mask:
        ids = self._view.ids[slots]
        worth = OCCURRENCES_A_WORD * float(self._view.lengths[slots].sum(dtype=np.float64))
        if self._analysis is None or occurrences <= worth:
            found = self._reads.phrase(words)
        else:
            found = in_order(self._reads, self._analysis, words, ids, self._deadline)
        return positions_in(found, ids)[1]


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

    def holding(self, phrase: Phrase, mask: Mask) -> Mask:
        """Mark the facts of a phrase among those of a mask."""
        ids, corpus, analysis = self._base[mask], self._corpus, self._analysis
        own = kept_words(self._reads, analysis, corpus, self._deadline)
        if analysis is None:
            ids = self._reads.phrase(phrase.words)
        elif own is not None:
            for word in phrase.words:
                ids = np.intersect1d(ids, own.postings(word).ids)
            if len(phrase.words) > 1:
                ids = in_order(self._reads, analysis, phrase.words, ids, self._deadline)
        elif corpus.hidden and self._is_less(phrase, ids):
            ids = np.intersect1d(ids, corpus.with_words, assume_unique=True)
            ids = in_order(self._reads, analysis, phrase.words, ids, self._deadline)
        else:
            ids = self._reads.phrase(phrase.words)
        return positions_in(ids, self._base)[1] & mask

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
) -> Ids:
    """Read ascending facts and leave those that hold marked exact words one after the other; raise
    `Stopped`."""
    wanted = f" {' '.join(words)} "
    found: list[int] = []
    for start in range(0, len(ids), FACTS_A_READ):
        if deadline.passed():
            raise Stopped
        found += [
            text.id
            for text in reads.bulk.sources(ids[start : start + FACTS_A_READ])
            if wanted in f" {analysis.document(text.text, text.tags, text.source).exact} "
        ]
    return np.array(found, np.int64)
