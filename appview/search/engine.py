"""Search in one space: both arms, their fusion, and why each hit is there.

A question is one unit of work on one snapshot of the space's file: what may be found, candidates of each
arm, raw scores of every candidate in every arm that ran, fusion, facts. What the caller may not read takes
no part in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.clock import now as system_clock
from appview.memory import reads as memory_reads
from appview.memory import strength
from appview.memory.search_reads import SearchReads
from appview.search.analysis import ANALYSIS
from appview.search.corpus import MAX_CACHE_BYTES as MAX_CORPORA_BYTES
from appview.search.corpus import Corpus, CorpusCache
from appview.search.errors import ModelChanged, NoSuchMemory, NothingAsked
from appview.search.fusion import Component, Ranked, Weights, fuse
from appview.search.hits import Showing
from appview.search.keyword import score_keywords
from appview.search.measuring import measure_signals
from appview.search.query import read_question
from appview.search.ranking import best, positions_in
from appview.search.signals import blend
from appview.search.trace import TermTrace, Trace
from appview.search.values import NO_FILTERS, Hit, Mode, SearchRequest, SearchResult
from appview.search.vector import Narrowed, QueryVector, measure, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from appview.clock import Clock
    from appview.memory.scope import Scope
    from appview.memory.store import SpaceStore
    from appview.search.analysis import TextAnalysis
    from appview.search.derived import VectorCache, View
    from appview.search.keyword import KeywordScores
    from appview.search.query import Phrase, Question
    from appview.search.signals import Measure, Signal
    from appview.search.values import Ran
    from appview.sqlite import Connection

__all__ = ["Hit", "Mode", "SearchRequest", "SearchResult", "Searcher", "mode_that_runs", "search"]

MIN_CANDIDATES: Final = 100  # of each arm; more changes no answer on the questions of the evaluation
CANDIDATES_A_HIT: Final = 2  # of each arm, for long answers


class Searcher:
    """Answers questions. With a cache of vectors questions are faster, and answered alike."""

    def __init__(
        self,
        *,
        cache: VectorCache | None = None,
        weights: Weights | None = None,
        analysis: TextAnalysis = ANALYSIS,
        now: Clock = system_clock,
    ) -> None:
        self._cache = cache
        self._corpora = CorpusCache(MAX_CORPORA_BYTES if cache is not None else 0)
        self._now = now
        self._weights = weights or Weights()
        self._analysis = analysis

    async def search(self, store: SpaceStore, request: SearchRequest, scope: Scope) -> SearchResult:
        """Answer a question inside a scope.

        Raises `NothingAsked`, `NoSuchMemory`, `ModelChanged`, and `UnusableVector` for a vector that is not
        of the space's model.
        """
        mode_that_runs(request)
        question = read_question(self._analysis, request.text) if request.text is not None else None

        def work(connection: Connection) -> SearchResult:
            reads = SearchReads(connection)
            view = self._cache.view(store, reads) if self._cache is not None else None
            if scope.is_nothing or reads.index is None:
                return _nothing(request, mode_that_runs(request))
            asked, gone = self._prepare(store, connection, reads, request, scope)
            mode = mode_that_runs(asked)
            corpus = self._corpora.corpus(store, reads, view, scope)
            search = _Search(
                reads, view, corpus, asked, scope, question, mode, self._weights, self._analysis, gone
            )
            return search.run(self._now())

        return await store.database.read(work)

    async def strongest(self, store: SpaceStore, request: SearchRequest, scope: Scope) -> SearchResult:
        """Give the facts of which most is left, where nothing is asked: text, vector and mode do not
        count."""

        def work(connection: Connection) -> SearchResult:
            reads = SearchReads(connection)
            asked, gone = self._prepare(store, connection, reads, request, scope)
            corpus = Corpus(np.empty(0, np.int64), np.empty(0, np.float32))  # no words, no statistics
            search = _Search(
                reads, None, corpus, asked, scope, None, "strength", self._weights, self._analysis, gone
            )
            return search.strongest(self._now())

        return await store.database.read(work)

    def _prepare(
        self,
        store: SpaceStore,
        connection: Connection,
        reads: SearchReads,
        request: SearchRequest,
        scope: Scope,
    ) -> tuple[SearchRequest, frozenset[int]]:
        """Leave superseded facts out, unless they are wished, and take the vector of `similar_to`."""
        filters, gone = store.superseding.narrow(connection, scope, request.filters, request.succession)
        if request.similar_to is None:
            return replace(request, filters=filters), gone
        like = memory_reads.get(connection, request.similar_to, scope)
        found, vectors = reads.embeddings(np.array([like.id] if like is not None else [], np.int64))
        if like is None or not len(found):
            raise NoSuchMemory
        filters = replace(filters, without=filters.without | {like.id})
        return replace(request, filters=filters, vector=vectors[0].tobytes(), model=None), gone


async def search(store: SpaceStore, request: SearchRequest, scope: Scope) -> SearchResult:
    """Answer a question from the file alone."""
    return await Searcher().search(store, request, scope)


def mode_that_runs(request: SearchRequest) -> Mode:
    """Tell which arms can run of those wished for: each needs its half of the question."""
    has_vector = request.vector is not None or request.similar_to is not None
    if request.text is None and not has_vector:
        raise NothingAsked
    if not has_vector:
        return "keyword"
    if request.text is None:
        return "vector"
    return request.mode


def _nothing(request: SearchRequest, mode: Ran) -> SearchResult:
    trace = Trace(0, 0, 0, None, None, 0, {}) if request.explain else None
    return SearchResult((), mode, approximate=False, trace=trace)


class _Search:
    """One question on one snapshot."""

    def __init__(
        self,
        reads: SearchReads,
        view: View | None,
        corpus: Corpus,
        request: SearchRequest,
        scope: Scope,
        question: Question | None,
        mode: Ran,
        weights: Weights,
        analysis: TextAnalysis,
        superseded: frozenset[int],
    ) -> None:
        self._reads = reads
        self._view = view
        self._corpus = corpus
        self._request = request
        self._scope = scope
        self._question = question
        self._mode = mode
        self._weights = request.mix.arms(weights)
        self._own_weights = weights
        self._analysis = analysis
        self._superseded = superseded
        self._count = max(MIN_CANDIDATES, CANDIDATES_A_HIT * request.limit)

    def run(self, now: int) -> SearchResult:
        vector = self._query_vector()
        mode = self._mode
        if mode == "hybrid" and (self._question is None or self._question.is_empty):
            mode = "vector"  # the text says nothing to search for: unknown, which is not a 0
        self._mode = mode
        corpus_ids = self._corpus.ids
        narrowed = self._narrow(corpus_ids)
        found = narrowed.ids if narrowed.ids is not None else corpus_ids
        if not len(found):
            return _nothing(self._request, mode)
        keyword: KeywordScores | None = None
        candidates: dict[str, NDArray[np.int64]] = {}
        if mode != "vector" and self._question is not None:
            keyword = score_keywords(self._reads, self._question, self._corpus)
            positions = self._matching(keyword, found)
            candidates["keyword"] = corpus_ids[positions[best(keyword.scores[positions], self._count)]]
        if mode != "keyword" and vector is not None:
            candidates["vector"] = nearest(self._reads, self._view, vector, narrowed, self._count)
        ids = np.unique(np.concatenate(list(candidates.values())))
        ranked = fuse(
            self._keyword_scores(keyword, corpus_ids, ids) if keyword is not None else None,
            self._cosines(vector, ids) if mode != "keyword" and vector is not None else None,
            self._weights,
        )
        ranked = blend(ranked, self._measures(ids, now), self._request.mix, self._own_weights)
        trace = self._trace(len(corpus_ids), len(found), candidates, len(ids), keyword)
        return SearchResult(
            self._showing().hits(ranked, keyword.terms if keyword is not None else frozenset(), candidates),
            mode,
            approximate=keyword is not None and keyword.approximate,
            trace=trace if self._request.explain else None,
        )

    def strongest(self, now: int) -> SearchResult:
        request = self._request
        left = strength.strongest(
            self._reads.connection, request.subject, now, self._scope, request.filters, self._count
        )
        ranked = [
            Ranked(id_, value, None, None, {"strength": Component(value, value, 1.0, value)})
            for id_, value in left
        ]
        hits = self._showing().hits(ranked, frozenset(), {})
        if not request.explain:
            return SearchResult(hits, "strength", approximate=False)
        corpus, searched = self._reads.ids(self._scope), self._reads.ids(self._scope, request.filters)
        trace = Trace(
            len(corpus), len(searched), len(self._superseded), None, None, len(left), {"strength": 1.0}
        )
        return SearchResult(hits, "strength", approximate=False, trace=trace)

    def _measures(self, ids: NDArray[np.int64], now: int) -> Mapping[Signal, Mapping[int, Measure]]:
        return measure_signals(self._reads, self._request, self._scope, self._superseded, ids.tolist(), now)

    def _showing(self) -> Showing:
        return Showing(self._reads, self._view, self._analysis, self._request, self._mode, self._superseded)

    def _trace(
        self,
        corpus: int,
        searched: int,
        candidates: Mapping[str, NDArray[np.int64]],
        together: int,
        keyword: KeywordScores | None,
    ) -> Trace:
        arms, mix = self._weights.scaled(), self._request.mix
        share = mix.arms_weight(self._own_weights)
        weights: dict[str, float] = {"keyword": arms[0] * share, "vector": arms[1] * share}
        weights.update({str(signal): weight for signal, weight in mix.signals.items()})
        total = sum(weights.values())
        question = self._question
        return Trace(
            corpus=corpus,
            searched=searched,
            superseded=len(self._superseded),
            keyword=len(candidates["keyword"]) if "keyword" in candidates else None,
            vector=len(candidates["vector"]) if "vector" in candidates else None,
            candidates=together,
            weights={name: weight / total for name, weight in weights.items()},
            terms=tuple(
                [
                    TermTrace(term, count, term in keyword.terms)
                    for term, count in sorted(keyword.found.items(), key=lambda item: (item[1], item[0]))
                ]
            )
            if keyword is not None
            else (),
            phrases=_shown(question.required) if question is not None else (),
            excluded=_shown(question.excluded) if question is not None else (),
        )

    def _matching(self, keyword: KeywordScores, found: NDArray[np.int64]) -> NDArray[np.intp]:
        """Find which of the facts that may be found hold a word, as positions in the corpus."""
        matching = np.flatnonzero(keyword.scores > 0.0)
        if found is self._corpus.ids:
            return matching
        positions, _ = self._corpus.positions(found)
        return positions[keyword.scores[positions] > 0.0]

    def _query_vector(self) -> QueryVector | None:
        index, data = self._reads.index, self._request.vector
        if self._mode == "keyword" or data is None or index is None:
            return None
        if self._request.model is not None and self._request.model != index.key:
            raise ModelChanged
        return QueryVector.of(data, index.key.dims)

    def _narrow(self, corpus_ids: NDArray[np.int64]) -> Narrowed:
        """Find out what scope, filters, phrases and left-out words let through."""
        scope, filters, question = self._scope, self._request.filters, self._question
        ids: NDArray[np.int64] | None = None
        if replace(filters, without=frozenset()) != NO_FILTERS:
            ids = self._reads.ids(scope, filters)
        elif filters.without:
            left_out = np.array(sorted(filters.without), np.int64)
            ids = corpus_ids[~np.isin(corpus_ids, left_out, assume_unique=True)]
        elif not scope.is_everything:
            ids = corpus_ids
        if question is None or not (question.required or question.excluded):
            return Narrowed(scope, filters, ids)
        ids = ids if ids is not None else corpus_ids
        if question.excluded:
            ids = np.setdiff1d(ids, self._any_phrase(question.excluded), assume_unique=True)
        with_phrases = ids
        for phrase in question.required:
            with_phrases = np.intersect1d(with_phrases, self._reads.phrase(phrase.words), assume_unique=True)
        # A phrase that nothing holds is most often a title or a stray pair of quotes: its words still count.
        return Narrowed(scope, filters, with_phrases if len(with_phrases) else ids, by_phrases=True)

    def _any_phrase(self, phrases: Sequence[Phrase]) -> NDArray[np.int64]:
        return np.unique(np.concatenate([self._reads.phrase(phrase.words) for phrase in phrases]))

    def _keyword_scores(
        self, keyword: KeywordScores, corpus_ids: NDArray[np.int64], ids: NDArray[np.int64]
    ) -> dict[int, float]:
        positions, _ = positions_in(corpus_ids, ids)
        return dict(zip(ids.tolist(), keyword.scores[positions].tolist(), strict=True))

    def _cosines(self, vector: QueryVector, ids: NDArray[np.int64]) -> dict[int, float]:
        found, cosines = measure(self._reads, self._view, vector, ids)
        return dict(zip(found.tolist(), cosines.tolist(), strict=True))


def _shown(phrases: Sequence[Phrase]) -> tuple[str, ...]:
    return tuple([" ".join(phrase.words) for phrase in phrases])
