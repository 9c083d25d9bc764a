"""Search in one space: both arms, their fusion, and why each hit is there.

A question is one unit of work on one snapshot of the space's file: what may be found, candidates of each
arm, raw scores of every candidate in every arm that ran, fusion, facts. What the caller may not read takes
no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from appview.memory.search_reads import SearchReads
from appview.memory.values import Filters
from appview.search.analysis import ANALYSIS
from appview.search.corpus import MAX_CACHE_BYTES as MAX_CORPORA_BYTES
from appview.search.corpus import CorpusCache
from appview.search.errors import ModelChanged, NothingAsked
from appview.search.fusion import Component, Ranked, Weights, fuse
from appview.search.keyword import score_keywords
from appview.search.query import read_question
from appview.search.ranking import best, positions_in
from appview.search.vector import Narrowed, QueryVector, measure, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from appview.memory.scope import Scope
    from appview.memory.store import SpaceStore
    from appview.memory.values import Fact
    from appview.search.analysis import TextAnalysis
    from appview.search.corpus import Corpus
    from appview.search.derived import VectorCache, View
    from appview.search.keyword import KeywordScores
    from appview.search.query import Phrase, Question
    from appview.sqlite import Connection
    from lexicons.models import ModelKey

Mode = Literal["hybrid", "vector", "keyword"]
MIN_CANDIDATES: Final = 100  # of each arm; more changes no answer on the questions of the evaluation
CANDIDATES_A_HIT: Final = 2  # of each arm, for long answers
MAX_WORDS: Final = 64  # ours, matched words named in a hit
_NO_FILTERS: Final = Filters()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A question. `vector` is f16le of any length above 0, made with `model` (not checked where None);
    `mode` is what is wished, `limit` at least 1."""

    text: str | None = None
    vector: bytes | None = None
    mode: Mode = "hybrid"
    limit: int = 10
    filters: Filters = _NO_FILTERS
    model: ModelKey | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A fact with its score and the parts that sum to it. A part is None where that arm did not run;
    `words` are the fact's own that matched, as they stand in it; `similarity` is in thousandths."""

    fact: Fact
    score: float
    similarity: int | None
    keyword: Component | None
    vector: Component | None
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """An answer, best first. `mode` is what ran; `approximate` tells that a budget cut the keyword arm."""

    hits: tuple[Hit, ...]
    mode: Mode
    approximate: bool


class Searcher:
    """Answers questions. With a cache of vectors questions are faster, and answered alike."""

    def __init__(
        self,
        *,
        cache: VectorCache | None = None,
        weights: Weights | None = None,
        analysis: TextAnalysis = ANALYSIS,
    ) -> None:
        self._cache = cache
        self._corpora = CorpusCache(MAX_CORPORA_BYTES if cache is not None else 0)
        self._weights = weights or Weights()
        self._analysis = analysis

    async def search(self, store: SpaceStore, request: SearchRequest, scope: Scope) -> SearchResult:
        """Answer a question inside a scope.

        Raises `NothingAsked`, `ModelChanged`, and `UnusableVector` for a vector that is not of the space's
        model.
        """
        mode = mode_that_runs(request)
        question = read_question(self._analysis, request.text) if request.text is not None else None

        def work(connection: Connection) -> SearchResult:
            reads = SearchReads(connection)
            view = self._cache.view(store, reads) if self._cache is not None else None
            corpus = self._corpora.corpus(store, reads, view, scope)
            return _Search(
                reads, view, corpus, request, scope, question, mode, self._weights, self._analysis
            ).run()

        return await store.database.read(work)


async def search(store: SpaceStore, request: SearchRequest, scope: Scope) -> SearchResult:
    """Answer a question from the file alone."""
    return await Searcher().search(store, request, scope)


def mode_that_runs(request: SearchRequest) -> Mode:
    """Tell which arms can run of those wished for: each needs its half of the question."""
    if request.text is None and request.vector is None:
        raise NothingAsked
    if request.vector is None:
        return "keyword"
    if request.text is None:
        return "vector"
    return request.mode


def similarity(cosine: float) -> int:
    """Write a cosine on the wire: thousandths of 0..1, cut off. What double precision rounds below an exact
    thousandth is that thousandth."""
    return int(min(max(cosine, 0.0), 1.0) * 1000.0 + 1e-9)


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
        mode: Mode,
        weights: Weights,
        analysis: TextAnalysis,
    ) -> None:
        self._reads = reads
        self._view = view
        self._corpus = corpus
        self._request = request
        self._scope = scope
        self._question = question
        self._mode = mode
        self._weights = weights
        self._analysis = analysis
        self._count = max(MIN_CANDIDATES, CANDIDATES_A_HIT * request.limit)

    def run(self) -> SearchResult:
        vector = self._query_vector()
        mode = self._mode
        if mode == "hybrid" and (self._question is None or self._question.is_empty):
            mode = "vector"  # the text says nothing to search for: unknown, which is not a 0
        nothing = SearchResult((), mode, approximate=False)
        if self._scope.is_nothing or self._reads.index is None:
            return nothing
        corpus_ids = self._corpus.ids
        narrowed = self._narrow(corpus_ids)
        found = narrowed.ids if narrowed.ids is not None else corpus_ids
        if not len(found):
            return nothing
        keyword: KeywordScores | None = None
        candidates: list[NDArray[np.int64]] = []
        if mode != "vector" and self._question is not None:
            keyword = score_keywords(self._reads, self._question, self._corpus)
            positions = self._matching(keyword, found)
            candidates.append(corpus_ids[positions[best(keyword.scores[positions], self._count)]])
        if mode != "keyword" and vector is not None:
            candidates.append(nearest(self._reads, self._view, vector, narrowed, self._count))
        ids = np.unique(np.concatenate(candidates))
        ranked = fuse(
            self._keyword_scores(keyword, corpus_ids, ids) if keyword is not None else None,
            self._cosines(vector, ids) if mode != "keyword" and vector is not None else None,
            self._weights,
        )
        return SearchResult(
            self._hits(ranked, keyword.terms if keyword is not None else frozenset()),
            mode,
            approximate=keyword is not None and keyword.approximate,
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
        if filters != _NO_FILTERS:
            ids = self._reads.ids(scope, filters)
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

    def _hits(self, ranked: list[Ranked], terms: Collection[str]) -> tuple[Hit, ...]:
        ranked.sort(key=lambda candidate: -candidate.score)
        limit = self._request.limit
        if len(ranked) > limit:
            last = ranked[limit - 1].score
            ranked = [candidate for candidate in ranked if candidate.score >= last]
        places = self._reads.places([candidate.id for candidate in ranked])
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
        facts = self._reads.facts([candidate.id for candidate in ranked[:limit]])
        return tuple([self._hit(candidate, facts, terms) for candidate in ranked[:limit]])

    def _hit(self, candidate: Ranked, facts: Mapping[int, Fact], terms: Collection[str]) -> Hit:
        fact = facts[candidate.id]
        matched = candidate.keyword is not None and candidate.keyword.raw > 0.0
        return Hit(
            fact=fact,
            score=candidate.score,
            similarity=similarity(candidate.vector.raw) if candidate.vector is not None else None,
            keyword=candidate.keyword,
            vector=candidate.vector,
            words=matched_words(self._analysis, fact, terms) if matched else (),
        )


def matched_words(analysis: TextAnalysis, fact: Fact, terms: Collection[str]) -> tuple[str, ...]:
    """List the distinct words of a fact that hold any of `terms`, as they stand in it, in order."""
    words: dict[str, str] = {}
    for field in (fact.text, *fact.tags, fact.source or ""):
        for start, end in analysis.spans(field, terms):
            words.setdefault(field[start:end].casefold(), field[start:end])
    return tuple(words.values())[:MAX_WORDS]
