"""The keyword arm: BM25 over what the caller may read.

The number of facts, their lengths and each word's frequency are those of the facts inside the caller's scope,
so a fact that is hidden from a caller changes no score that the caller sees. Filters narrow the answer and
leave the statistics alone.

The rarest words count first, up to a budget; the answer then says that it is approximate. Words that most
facts hold are left out where rarer ones are there. Who may read everything has a smaller budget where the
file answers, and reading stops at it. Everybody else has one and the same, of what they may read, in memory
and in the file: which of the two answers may depend on what is hidden, and the answer must not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.search_reads import Postings
from appview.memory.stopping import Stopped
from appview.search.chunks import PREFIX_MARK
from appview.search.deadline import NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from appview.memory.search_reads import SearchReads
    from appview.search.corpus import Corpus
    from appview.search.deadline import Deadline
    from appview.search.own_words import OwnWords
    from appview.search.query import Question

# See docs/evaluation.md. Length is held against a constant, not the average of the space: a word says as much
# about a fact of 25 words whether the others are longer or shorter. With an average, short talk wants other
# constants (0.6 and 0.3) than long abstracts (2 and 0.75).
K1: Final = 1.2  # how soon a word that comes again stops counting
B: Final = 0.6  # how much long facts are held back
PIVOT_WORDS: Final = 100.0  # of a fact that is neither long nor short
MAX_CONSTANT: Final = 1_000_000.0  # ours, of K1 and the pivot
MIN_PIVOT: Final = 0.01  # words; ours: with less, all facts are endlessly long
FIELD_WEIGHTS: Final = np.array([1.0, 1.0, 0.5, 1.0])  # text, tags, source, exact words (for beginnings)
COMMON_SHARE: Final = 0.5  # of the facts: a word that more of them hold tells little
COMMON_FACTS: Final = 2_000  # facts up to which no word is too common to look at: 1 ms of reading
MAX_OCCURRENCES: Final = 100_000  # ours, of one question in a file without rules: about 50 ms of reading
MAX_POSTINGS: Final = 4_000_000  # ours, of one question, a fact once a word: about 60 ms in memory


@dataclass(frozen=True, slots=True)
class KeywordSettings:
    """The constants of BM25, and when a word is too common to look at."""

    k1: float = K1
    b: float = B
    pivot: float = PIVOT_WORDS
    common_share: float = COMMON_SHARE
    common_facts: float = COMMON_FACTS

    def __post_init__(self) -> None:
        if not (0.0 <= self.k1 <= MAX_CONSTANT and 0.0 <= self.b <= 1.0):
            raise ValueError(f"k1 is from 0 up to {MAX_CONSTANT:,.0f}, b from 0 to 1")
        if not MIN_PIVOT <= self.pivot <= MAX_CONSTANT:
            raise ValueError(f"pivot is from {MIN_PIVOT} to {MAX_CONSTANT:,.0f}")
        if not self.common_facts >= 0:
            raise ValueError("common_facts is from 0 up")

    def common(self, count: int) -> float:
        """Give the number of facts, of `count`, from which a word is too common."""
        return max(self.common_share * count, self.common_facts)

    def saturation(self, weights: NDArray[np.float64], lengths: NDArray[np.float32]) -> NDArray[np.float64]:
        """Count occurrences of `weights` in facts of so many words: ever less the more there are."""
        relative = lengths.astype(np.float64) / self.pivot
        return weights * (self.k1 + 1.0) / (weights + self.k1 * (1.0 - self.b + self.b * relative))


DEFAULT: Final = KeywordSettings()


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """BM25 of every fact of the corpus, by its position there; 0 where no word matches. `terms` are those
    that counted (exact words and beginnings marked); `found` are all that the corpus holds, with the number
    of its facts that do, where that was asked."""

    scores: NDArray[np.float64]
    terms: frozenset[str]
    approximate: bool
    found: Mapping[str, int] = field(default_factory=dict)


def score_keywords(
    reads: SearchReads,
    question: Question,
    corpus: Corpus,
    settings: KeywordSettings = DEFAULT,
    deadline: Deadline = NEVER,
    *,
    own: OwnWords | None = None,
    explain: bool = False,
    everything: bool = False,
) -> KeywordScores:
    """Score the corpus for a question; past the deadline with the words that were read before it. Words come
    from the corpus' `own` where there are some, from the file's index otherwise, and are the same. To
    `explain`, words that are too common to count are counted too. `everything` tells that nothing can be
    outside of the corpus."""
    scorer = _Scorer(reads, corpus, settings, own)
    reading = _Reading(reads, question, corpus, scorer, explain, everything, approximate=question.cut)
    try:
        reading.run(deadline)
    except Stopped:
        reading.approximate = True
    used = _telling(reading.matched, settings.common(len(corpus.ids)))
    if not everything:
        counting = affordable([len(matches.positions) for _, matches in used])
        reading.approximate |= counting < len(used)
        used = used[:counting]
    for _, matches in used:
        reading.scorer.add(matches)
    return KeywordScores(
        reading.scorer.scores,
        frozenset(term for term, _ in used),
        reading.approximate,
        reading.found if explain else {},
    )


@dataclass(slots=True)
class _Reading:
    """Reading the words of a question, as far as budget and time reach."""

    reads: SearchReads
    question: Question
    corpus: Corpus
    scorer: _Scorer
    explain: bool
    everything: bool
    approximate: bool
    matched: list[tuple[str, _Matches]] = field(default_factory=list)
    found: dict[str, int] = field(default_factory=dict)

    def run(self, deadline: Deadline) -> None:
        reads, corpus, scorer = self.reads, self.corpus, self.scorer
        # What is outside of the corpus takes none of the budget; the deadline bounds reading past it.
        left = MAX_OCCURRENCES if self.everything else None
        words = _words(reads, self.question.terms, corpus, scorer, every=self.explain)
        self.found = {word.term: word.facts for word in words}
        most = scorer.settings.common(len(corpus.ids))
        rarer = [word for word in words if word.facts <= most]
        # The order is that of what the corpus holds, so that sums round alike whatever else the file holds.
        for word in sorted(rarer or words, key=lambda word: (word.occurrences, word.term)):
            if (left is not None and word.occurrences > left) or deadline.passed():
                self.approximate = True
                if self.matched or deadline.passed():
                    break
            postings = word.postings or scorer.postings(word.term, left)
            self.matched.append((word.term, scorer.match(postings)))
            left = None if left is None else left - min(left, word.occurrences)
        for prefix in self.question.prefixes:
            for start in prefix.starts:
                postings = scorer.postings_of_prefix(start, left)
                if left is not None:
                    self.approximate |= len(postings.ids) == left
                    left -= len(postings.ids)
                matches = scorer.match(postings.by_id(), once=True)
                self.matched.append((start + PREFIX_MARK, matches))
                if len(matches.positions):
                    self.found[start + PREFIX_MARK] = len(matches.positions)


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the question with what the corpus holds of it. `postings` are there where the file may
    hold more, and all of it had to be read to tell."""

    term: str
    facts: int
    occurrences: int
    postings: Postings | None = None


def _words(
    reads: SearchReads, terms: Sequence[str], corpus: Corpus, scorer: _Scorer, *, every: bool
) -> list[_Word]:
    """Count each word in the corpus; those that are too common to count only where `every` one is wished, or
    there are no others.

    The file's own counts are the corpus's where that is the whole file. Elsewhere they only bound them, and
    nothing that is decided may show them: a word is counted without being read only where the bound tells
    what counting would.
    """
    if scorer.own is not None:
        counted = [_counted(term, scorer) for term in terms]
        return [word for word in counted if word.facts]
    counted = []
    most = scorer.settings.common(len(corpus.ids))
    too_common: list[str] = []
    for term, frequency in reads.frequencies(terms).items():
        if not corpus.hidden:
            counted.append(_Word(term, frequency.facts, frequency.occurrences))
        elif max(frequency.facts - corpus.hidden, corpus.counts.get(term, 0)) > most:
            too_common.append(term)  # at least so many of its facts are in the corpus
        else:
            counted.append(_counted(term, scorer))
    counted = [word for word in counted if word.facts]
    if every or not any(word.facts <= most for word in counted):
        # There are no others: now the common ones count, and so their numbers do.
        counted.extend(_counted(term, scorer) for term in too_common)
    return counted


def _counted(term: str, scorer: _Scorer) -> _Word:
    kept = scorer.corpus.places.get(term)
    postings = kept or scorer.postings(term, None)
    facts = int(np.count_nonzero(np.diff(postings.ids, prepend=-1)))
    if kept is None and scorer.own is None:
        scorer.corpus.keep(term, facts, postings)
    return _Word(term, facts, len(postings.ids), postings)


def affordable(facts: Sequence[int]) -> int:
    """Tell how many words count, of those that so many facts each hold, from the rarest on: one at least."""
    return max(1, int(np.searchsorted(np.cumsum(facts), MAX_POSTINGS, side="right"))) if facts else 0


def rarity(count: int, frequency: int) -> float:
    """Weigh a word that `frequency` of `count` facts hold."""
    return float(np.log1p((count - frequency + 0.5) / (frequency + 0.5)))


@dataclass(frozen=True, slots=True)
class _Matches:
    positions: NDArray[np.intp]
    weights: NDArray[np.float64]  # of the occurrences in each fact, by field


class _Scorer:
    def __init__(
        self, reads: SearchReads, corpus: Corpus, settings: KeywordSettings, own: OwnWords | None
    ) -> None:
        self._reads = reads
        self.own = own
        self.corpus = corpus
        self.settings = settings
        self.scores = np.zeros(len(corpus.ids))

    def postings(self, term: str, limit: int | None) -> Postings:
        """Find where the corpus holds a word, by fact; at most `limit` occurrences where that is the file."""
        if self.own is not None:
            return self.own.postings(term)
        return self._inside(self._reads.postings(term, limit))

    def postings_of_prefix(self, start: str, limit: int | None) -> Postings:
        """Find where the corpus holds words that start so, by word; at most `limit` occurrences where that is
        the file."""
        if self.own is not None:
            return self.own.postings_of_prefix(start)
        return self._inside(self._reads.postings_of_prefix(start, limit))

    def _inside(self, postings: Postings) -> Postings:
        if not self.corpus.hidden:
            return postings
        _, inside = self.corpus.positions(postings.ids)
        return Postings(postings.ids[inside], postings.columns[inside])

    def match(self, postings: Postings, *, once: bool = False) -> _Matches:
        """Add up the occurrences in each fact of the corpus, or, `once`, count a fact once."""
        positions, inside = self.corpus.positions(postings.ids)
        positions, columns = positions[inside], postings.columns[inside]
        if not len(positions):
            return _Matches(positions, np.empty(0))
        starts = np.flatnonzero(np.diff(positions, prepend=-1))
        weights = np.ones(len(starts)) if once else np.add.reduceat(FIELD_WEIGHTS[columns], starts)
        return _Matches(positions[starts], weights)

    def add(self, matches: _Matches) -> None:
        count, frequency = len(self.corpus.ids), len(matches.positions)
        gains = self.settings.saturation(matches.weights, self.corpus.lengths[matches.positions])
        self.scores[matches.positions] += rarity(count, frequency) * gains


def _telling(matched: Sequence[tuple[str, _Matches]], common: float) -> list[tuple[str, _Matches]]:
    """Leave out the words that most facts hold, unless there are no others. The order is that of what the
    corpus holds, so that sums round alike whatever else the file holds."""
    there = [(term, matches) for term, matches in matched if len(matches.positions)]
    rarer = [(term, matches) for term, matches in there if len(matches.positions) <= common]
    return sorted(rarer or there, key=lambda item: (len(item[1].positions), item[0]))
