"""The two ways of finding facts, over a space's file and over a view of it in memory.

Both answer alike. Whoever asks one first says what may be found (`narrow`); candidates and scores are inside
that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from appview.memory.errors import IndexDamaged
from appview.memory.values import Filters
from appview.search import vector as vectors
from appview.search.keyword import DEFAULT, score_keywords
from appview.search.masks import are_known, in_scope, with_filters, without
from appview.search.own_words import words_of
from appview.search.phrases import PhrasesInMemory, PhrasesOfFile, within
from appview.search.ranking import best, positions_in
from appview.search.sequence import Neighbours
from appview.search.vector import Narrowed
from appview.search.words_in_memory import KeywordsInMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from appview.memory.analyser import Analyser
    from appview.memory.scope import Scope
    from appview.memory.search_reads import SearchReads
    from appview.search.corpus import Corpus
    from appview.search.deadline import Deadline
    from appview.search.keyword import KeywordScores, KeywordSettings
    from appview.search.query import Question
    from appview.search.vector import QueryVector
    from appview.search.view import View

    Ids = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Scores = NDArray[np.float64]

_NO_FILTERS: Final = Filters()


class Arms(Protocol):
    """What a question is answered from."""

    @property
    def approximate(self) -> bool:
        """Whether a budget or the deadline has cut something."""
        ...

    @property
    def terms(self) -> frozenset[str]:
        """The words that counted (exact words and beginnings marked)."""
        ...

    @property
    def words(self) -> Mapping[str, int]:
        """The words that the corpus holds, with the number of its facts that do, where that was asked."""
        ...

    @property
    def corpus_count(self) -> int:
        """The number of facts that statistics are of, once narrowed."""
        ...

    @property
    def found_count(self) -> int:
        """The number of facts that may be found, once narrowed."""
        ...

    def narrow(self) -> bool:
        """Find out what scope and filters let through; tell whether that is any."""
        ...

    def narrow_by_phrases(self, deadline: Deadline) -> bool:
        """Leave what phrases and left-out words let through, as far as there is time; tell whether that is
        any. `narrow` came first, and nothing else bounds what this reads."""
        ...

    def found_among(self, ids: Ids) -> Ids:
        """Leave those of ascending facts inside the scope that may be found; `narrow` came first."""
        ...

    def with_words(self, count: int) -> Ids:
        """List the `count` facts whose words match best, and those that match as well as the last."""
        ...

    def near(self, vector: QueryVector, count: int) -> Ids:
        """List the `count` nearest facts, and those as near as the last."""
        ...

    def keyword_scores(self, ids: Ids) -> Scores:
        """Score facts, ascending, by words; `with_words` came first."""
        ...

    def cosines(self, vector: QueryVector, ids: Ids) -> Scores:
        """Measure facts, ascending, against a vector; NaN where a fact's own cannot be read."""
        ...

    def readable(self, ids: Ids) -> Ids:
        """Leave those of ascending facts that are inside the scope; `narrow` came first."""
        ...

    def neighbours(self, ids: Sequence[int], reach: int, gap: int) -> dict[int, tuple[int, ...]]:
        """List what stands around facts, see `SearchReads.neighbours`; what the filters leave out by id
        stands beside nothing. `narrow` came first."""
        ...


def choose(
    reads: SearchReads,
    view: View | None,
    scope: Scope,
    filters: Filters,
    question: Question | None,
    deadline: Deadline,
    analysis: Analyser | None,
    corpus: Callable[[], Corpus],
    *,
    settings: KeywordSettings = DEFAULT,
    explain: bool = False,
) -> Arms:
    """Take the view where there is one that knows these filters. `corpus` reads what the scope shows of the
    file; to `explain`, every word is counted."""
    if view is not None and are_known(filters):
        return ArmsInMemory(reads, view, scope, filters, question, deadline, analysis, settings)
    return ArmsOfFile(reads, scope, filters, question, deadline, analysis, corpus, settings, explain=explain)


class _Told:
    """What both ways tell of the words that counted, and of what was cut."""

    _keyword: KeywordScores | KeywordsInMemory | None
    _cut: bool

    @property
    def approximate(self) -> bool:
        return self._cut or (self._keyword is not None and self._keyword.approximate)

    @property
    def terms(self) -> frozenset[str]:
        return self._keyword.terms if self._keyword is not None else frozenset()

    @property
    def words(self) -> Mapping[str, int]:
        return self._keyword.found if self._keyword is not None else {}


class ArmsOfFile(_Told):
    """Answers from the file alone."""

    def __init__(
        self,
        reads: SearchReads,
        scope: Scope,
        filters: Filters,
        question: Question | None,
        deadline: Deadline,
        analysis: Analyser | None,
        corpus: Callable[[], Corpus],
        settings: KeywordSettings = DEFAULT,
        *,
        explain: bool = False,
    ) -> None:
        self._reads = reads
        self._scope = scope
        self._filters = filters
        self._question = question
        self._deadline = deadline
        self._analysis = analysis
        self._read_corpus = corpus
        self._settings = settings
        self._explain = explain
        self._corpus: Corpus | None = None
        self._narrowed = Narrowed(scope, filters, None)
        self._keyword: KeywordScores | None = None
        self._cut = False

    @property
    def corpus_count(self) -> int:
        return len(self._corpus.ids) if self._corpus is not None else 0

    @property
    def found_count(self) -> int:
        ids = self._narrowed.ids
        return self.corpus_count if ids is None else len(ids)

    def narrow(self) -> bool:
        reads, scope, filters = self._reads, self._scope, self._filters
        self._corpus = self._read_corpus()
        ids: Ids | None = None
        if replace(filters, without=frozenset()) != _NO_FILTERS:
            ids = reads.ids(scope, filters)
        elif filters.without:
            left_out = np.array(sorted(filters.without), np.int64)
            ids = self._corpus.ids[~np.isin(self._corpus.ids, left_out, assume_unique=True)]
        elif not scope.is_everything:
            ids = self._corpus.ids
        self._narrowed = Narrowed(scope, filters, ids)
        return self.found_count > 0

    def narrow_by_phrases(self, deadline: Deadline) -> bool:
        corpus, question = self._corpus, self._question
        if corpus is not None and question is not None and (question.required or question.excluded):
            ids = self._narrowed.ids if self._narrowed.ids is not None else corpus.ids
            found = PhrasesOfFile(ids, corpus, self._reads, self._analysis, deadline)
            ids = ids[within(question, np.ones(len(ids), np.bool_), found.holding)]
            self._cut = found.cut
            self._narrowed = replace(self._narrowed, ids=ids, by_phrases=True)
        return self.found_count > 0

    def found_among(self, ids: Ids) -> Ids:
        found = self._narrowed.ids
        return ids if found is None else np.intersect1d(ids, found, assume_unique=True)

    def with_words(self, count: int) -> Ids:
        corpus, question = self._corpus, self._question
        if corpus is None or question is None:
            return np.empty(0, np.int64)
        try:
            self._keyword = self._scored(question, corpus)
        except IndexDamaged:
            if self._analysis is None:
                self._cut = True
                return np.empty(0, np.int64)
            corpus.is_lost = True
            self._keyword = self._scored(question, corpus)
        scores, found = self._keyword.scores, self._narrowed.ids
        if found is None or found is corpus.ids:
            positions = np.flatnonzero(scores > 0.0)
        else:
            positions, _ = corpus.positions(found)
            positions = positions[scores[positions] > 0.0]
        return corpus.ids[positions[best(scores[positions], count)]]

    def _scored(self, question: Question, corpus: Corpus) -> KeywordScores:
        # Reading all facts instead of the index takes long: it leaves time for the vectors.
        deadline = self._deadline.halfway() if corpus.is_lost else self._deadline
        own = words_of(self._reads, self._analysis, corpus, question, deadline)
        return score_keywords(
            self._reads,
            question,
            corpus,
            self._settings,
            self._deadline,
            own=own,
            explain=self._explain,
            everything=self._scope.is_everything,
        )

    def near(self, vector: QueryVector, count: int) -> Ids:
        return vectors.nearest(self._reads, vector, self._narrowed, count)

    def keyword_scores(self, ids: Ids) -> Scores:
        if self._keyword is None or self._corpus is None:
            return np.zeros(len(ids))
        positions, _ = positions_in(self._corpus.ids, ids)
        return self._keyword.scores[positions]

    def cosines(self, vector: QueryVector, ids: Ids) -> Scores:
        found, read = self._reads.embeddings(ids)
        measured = np.full(len(ids), np.nan)
        measured[positions_in(ids, found)[0]] = vectors.cosines(vector, read)
        return measured

    def readable(self, ids: Ids) -> Ids:
        corpus = self._corpus
        return ids[:0] if corpus is None else np.intersect1d(ids, corpus.ids, assume_unique=True)

    def neighbours(self, ids: Sequence[int], reach: int, gap: int) -> dict[int, tuple[int, ...]]:
        around = self._reads.neighbours(ids, self._scope, reach, gap)
        # Leaving out many is slow, and seldom does one stand beside a candidate.
        without = self._filters.without
        touched = [id_ for id_, near in around.items() if not without.isdisjoint(near)]
        if touched:
            around |= self._reads.neighbours(touched, self._scope, reach, gap, Filters(without=without))
        return around


class ArmsInMemory(_Told):
    """Answers from a view; only the order of a phrase's words is looked up in the file."""

    def __init__(
        self,
        reads: SearchReads,
        view: View,
        scope: Scope,
        filters: Filters,
        question: Question | None,
        deadline: Deadline,
        analysis: Analyser | None,
        settings: KeywordSettings = DEFAULT,
    ) -> None:
        self._reads = reads
        self._view = view
        self._analysis = analysis
        self._settings = settings
        self._scope = scope
        self._filters = filters
        self._question = question
        self._deadline = deadline
        self._corpus: Mask | None = None
        self._found: Mask | None = None
        self._standing: Mask | None = None  # the corpus but for what filters leave out by id
        self._neighbours: Neighbours | None = None
        self._keyword: KeywordsInMemory | None = None
        self._cut = False

    @property
    def corpus_count(self) -> int:
        return self._view.count if self._corpus is None else int(np.count_nonzero(self._corpus))

    @property
    def found_count(self) -> int:
        return self._view.count if self._found is None else int(np.count_nonzero(self._found))

    def narrow(self) -> bool:
        view = self._view
        self._corpus = in_scope(view, self._reads.bulk, self._scope)
        self._standing = without(view, self._corpus, self._filters)
        self._found = with_filters(view, self._standing, self._filters)
        return bool(view.count if self._found is None else self._found.any())

    def narrow_by_phrases(self, deadline: Deadline) -> bool:
        view, question = self._view, self._question
        if question is not None and (question.required or question.excluded):
            found = self._found if self._found is not None else np.ones(view.count, np.bool_)
            phrases = PhrasesInMemory(view, self._reads, self._analysis, deadline)
            self._found = within(question, found, phrases.holding)
            self._cut = phrases.cut
        return bool(view.count if self._found is None else self._found.any())

    def found_among(self, ids: Ids) -> Ids:
        slots = self._view.slots(ids)
        return self._view.ids[slots if self._found is None else slots[self._found[slots]]]

    def with_words(self, count: int) -> Ids:
        if self._question is None:
            return np.empty(0, np.int64)
        self._keyword = KeywordsInMemory(
            self._view,
            self._question,
            self._corpus,
            self._deadline,
            self._settings,
            everything=self._scope.is_everything,
        )
        found = self._found if self._found is not self._corpus else None  # the corpus is cut out already
        return self._view.ids[self._keyword.best(count, found)]

    def near(self, vector: QueryVector, count: int) -> Ids:
        slots, complete = vectors.nearest_in_memory(self._view, vector, self._found, count, self._deadline)
        self._cut |= not complete
        return self._view.ids[slots]

    def keyword_scores(self, ids: Ids) -> Scores:
        if self._keyword is None:
            return np.zeros(len(ids))
        return self._keyword.scores(self._view.slots(ids))

    def cosines(self, vector: QueryVector, ids: Ids) -> Scores:
        return vectors.cosines(vector, self._view.matrix[self._view.slots(ids)])

    def readable(self, ids: Ids) -> Ids:
        slots = self._view.slots(ids)
        return self._view.ids[slots if self._corpus is None else slots[self._corpus[slots]]]

    def neighbours(self, ids: Sequence[int], reach: int, gap: int) -> dict[int, tuple[int, ...]]:
        if self._neighbours is None:
            self._neighbours = Neighbours(self._view, self._standing)
        return self._neighbours.of(self._view.slots(np.array(ids, np.int64)), reach, gap)
