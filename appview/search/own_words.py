"""The words of the facts that a scope shows, read from those facts and from nothing else.

For whoever may read little of a file: its index would have to be read over all that is hidden to find the
little that is not. The same occurrences come in the same order as from the file's index, so what is hidden
decides nothing but which of two amounts of work is the smaller one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.search_reads import EXACT, SOURCE, TAGS, TEXT, Postings
from appview.memory.stopping import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from appview.memory.analyser import Analyser
    from appview.memory.search_reads import SearchReads
    from appview.search.corpus import Corpus
    from appview.search.deadline import Deadline
    from appview.search.query import Question

OCCURRENCES_A_WORD: Final = 5  # that the file's index goes through while a word is analysed: 0.5 µs
FACTS_A_READ: Final = 200  # analysed between two looks at the clock, in about 5 ms
_LAST_CHARACTER: Final = "\U0010ffff"
MAX_KEPT_WORDS: Final = 100_000  # ours, of one scope: about 2,000 facts, read in 60 ms, kept in 2 MB
BYTES_A_WORD: Final = 70  # of a distinct word, beside its occurrences


@dataclass(frozen=True, slots=True)
class OwnWords:
    """Words in the order of their bytes. `places` are those of one after the other: a fact's position and the
    field, packed."""

    ids: NDArray[np.int64]
    words: tuple[str, ...]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return int(self.places.nbytes + self.starts.nbytes + BYTES_A_WORD * len(self.words))

    def postings(self, word: str) -> Postings:
        """Give where a word occurs, by fact."""
        number = bisect_left(self.words, word)
        there = number < len(self.words) and self.words[number] == word
        return self._postings(number, number + there)

    def postings_of_prefix(self, start: str) -> Postings:
        """Give where words occur that start so, by word."""
        return self._postings(
            bisect_left(self.words, start), bisect_left(self.words, start + _LAST_CHARACTER)
        )

    def lengths(self) -> NDArray[np.float32]:
        """Count the exact words of each fact, where all were read."""
        exact = self.places[(self.places & 3) == EXACT] >> 2
        return np.bincount(exact, minlength=len(self.ids)).astype(np.float32)

    def _postings(self, first: int, last: int) -> Postings:
        places = self.places[self.starts[first] : self.starts[last]]
        return Postings(self.ids[places >> 2], (places & 3).astype(np.int64))


def read_own_words(
    reads: SearchReads,
    analysis: Analyser,
    ids: NDArray[np.int64],
    deadline: Deadline,
    wanted: Callable[[str], bool] | None = None,
) -> OwnWords:
    """Read the words of ascending facts, all of them or those `wanted`; raise `Stopped`."""
    places: dict[str, array[int]] = {}
    columns = (TEXT, TAGS, SOURCE, EXACT)
    for start in range(0, len(ids), FACTS_A_READ):
        if deadline.passed():
            raise Stopped
        part = ids[start : start + FACTS_A_READ]
        for text in reads.bulk.sources(part):
            packed = 4 * (start + int(np.searchsorted(part, text.id)))
            document = analysis.document(text.text, text.tags, text.source)
            for column, words in zip(columns, document.columns, strict=True):
                for word in words.split():
                    if wanted is None or wanted(word):
                        places.setdefault(word, array("i")).append(packed + column)
    known = tuple(sorted(places))
    counts = np.fromiter((len(places[word]) for word in known), np.int64, len(known))
    joined = np.frombuffer(b"".join([places[word].tobytes() for word in known]), np.int32)
    return OwnWords(ids, known, np.concatenate(([0], np.cumsum(counts))), joined)


def words_of(
    reads: SearchReads, analysis: Analyser | None, corpus: Corpus, question: Question, deadline: Deadline
) -> OwnWords | None:
    """Read a corpus' own words, at least those of a question, where that is less than reading what the file
    holds of those; raise `Stopped`. `analysis` is the one that the file's words are of: where it is gone, the
    file's index alone knows them. Raises `IndexDamaged`."""
    kept = kept_words(reads, analysis, corpus, deadline)
    if kept is not None or analysis is None or not corpus.hidden:
        return kept
    starts = tuple([start for prefix in question.prefixes for start in prefix.starts])
    worth = OCCURRENCES_A_WORD * corpus.words
    if reads.occurrences(question.terms, starts, worth) <= worth:
        return None
    if corpus.words <= MAX_KEPT_WORDS:
        corpus.own = read_own_words(reads, analysis, corpus.with_words, deadline)
        return corpus.own
    terms = frozenset(question.terms)
    return read_own_words(
        reads, analysis, corpus.with_words, deadline, lambda word: word in terms or word.startswith(starts)
    )


def lost_words(
    reads: SearchReads, analysis: Analyser | None, corpus: Corpus, deadline: Deadline
) -> OwnWords | None:
    """Read all of a corpus' own words, and its lengths, because the file's index is not whole; raise
    `Stopped`."""
    if corpus.own is None and analysis is not None:
        own = read_own_words(reads, analysis, corpus.ids, deadline)
        corpus.lengths = own.lengths()
        corpus.own = own
    return corpus.own


def kept_words(
    reads: SearchReads, analysis: Analyser | None, corpus: Corpus, deadline: Deadline
) -> OwnWords | None:
    """Give all of a corpus' own words where they are known, or it is small and most of the file is hidden:
    read once and kept with it; raise `Stopped`."""
    if analysis is None:
        return None
    if corpus.is_lost:
        return lost_words(reads, analysis, corpus, deadline)
    if corpus.own is None and corpus.hidden > len(corpus.ids) and corpus.words <= MAX_KEPT_WORDS:
        corpus.own = read_own_words(reads, analysis, corpus.with_words, deadline)
    return corpus.own
