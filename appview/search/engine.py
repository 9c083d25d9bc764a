"""Search in one space: both arms, their fusion, and why each hit is there.

A question is one unit of work on one snapshot of the space's file: what may be found, candidates of each
arm, raw scores of every candidate in every arm that ran, fusion, facts. What the caller may not read takes
no part in it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import structlog

from appview.clock import now as system_clock
from appview.errors import StoreError
from appview.memory import reads as memory_reads
from appview.memory import strength
from appview.memory.search_reads import SearchReads
from appview.memory.stopping import Stopped, stopping
from appview.search.analysis import ANALYSIS
from appview.search.arms import choose
from appview.search.corpus import MAX_CACHE_BYTES as MAX_CORPORA_BYTES
from appview.search.corpus import CorpusCache
from appview.search.deadline import DEFAULT_SECONDS, Deadline
from appview.search.derived import Abandoned
from appview.search.errors import ModelChanged, NoSuchMemory, NothingAsked
from appview.search.fusion import Component, Ranked
from appview.search.hits import Showing
from appview.search.judging import Judge
from appview.search.masks import inside_scope
from appview.search.measuring import measure_signals
from appview.search.query import read_question
from appview.search.signals import blend
from appview.search.trace import TermTrace, Trace
from appview.search.tuning import DEFAULT, Tuning
from appview.search.values import Hit, Mode, SearchRequest, SearchResult
from appview.search.vector import QueryVector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from appview.clock import Clock
    from appview.memory.claims import Inside
    from appview.memory.scope import Scope
    from appview.memory.store import SpaceStore
    from appview.memory.superseding import Succession
    from appview.search.analysis import TextAnalysis
    from appview.search.arms import Arms
    from appview.search.derived import ViewCache
    from appview.search.fusion import Fused, Weights
    from appview.search.query import Phrase, Question
    from appview.search.signals import Measure, Signal
    from appview.search.values import Ran
    from appview.sqlite import Connection

__all__ = ["Hit", "Mode", "SearchRequest", "SearchResult", "Searcher", "mode_that_runs", "search"]

MIN_CANDIDATES: Final = 100  # of each arm; more changes no answer on the questions of the evaluation
CANDIDATES_A_HIT: Final = 2  # of each arm, for long answers
SNAPSHOTS: Final = 4  # ours, of which a question takes the first that the index in memory knows
T = TypeVar("T")
log = structlog.get_logger("appview.search")


class _Overtaken(Exception):
    """The index in memory is of a newer state than the snapshot."""


class Searcher:
    """Answers questions, each within `seconds`. With a cache of views they are faster, and answered alike.

    What takes long, as building views, it does beside the questions: `close` ends that, `settled` waits for
    it.
    `now` is what memories are old by, `clock` what the seconds are counted by.
    """

    def __init__(
        self,
        *,
        cache: ViewCache | None = None,
        tuning: Tuning = DEFAULT,
        analysis: TextAnalysis = ANALYSIS,
        now: Clock = system_clock,
        seconds: float = DEFAULT_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._cache = cache
        self._corpora = CorpusCache(MAX_CORPORA_BYTES if cache is not None else 0)
        self._now = now
        self._tuning = tuning
        self._analysis = analysis
        self._seconds = seconds
        self._clock = clock
        self._aside: set[asyncio.Task[None]] = set()
        self._working_out: set[SpaceStore] = set()

    async def search(self, store: SpaceStore, request: SearchRequest, scope: Scope) -> SearchResult:
        """Answer a question inside a scope.

        Raises `NothingAsked`, `NoSuchMemory`, `ModelChanged`, and `UnusableVector` for a vector that is not
        of the space's model.
        """
        mode_that_runs(request)
        deadline = Deadline.after(self._seconds, self._clock)

        def work(left: int, connection: Connection) -> SearchResult:
            reads = SearchReads(connection)
            view = self._cache.view(store, reads) if self._cache is not None else None
            if view is None and left and self._cache is not None and self._cache.is_ahead(store, reads):
                raise _Overtaken
            if scope.is_nothing or reads.index is None:
                return _nothing(request, mode_that_runs(request))
            inside = partial(inside_scope, view, reads.bulk) if view is not None else None
            with reads.until(deadline.passed):
                asked, gone = self._prepare(store, connection, reads, request, scope, inside)
            # A question is read as the index that it meets was made; where that analysis is gone, nearly so.
            analysis = self._analysis.of_version(reads.analysis or self._analysis.version)
            question = None
            if request.text is not None:
                question = read_question(analysis or self._analysis, request.text)
            corpus = partial(self._corpora.corpus, store, reads, scope)
            arms = choose(
                reads,
                view,
                scope,
                asked.filters,
                question,
                deadline,
                analysis,
                corpus,
                settings=self._tuning.keyword,
                explain=request.explain,
            )
            own = self._tuning.weights_for(reads.index.key)
            search = _Search(
                reads,
                arms,
                asked,
                scope,
                question,
                self._tuning,
                own,
                analysis or self._analysis,
                deadline,
                gone,
            )
            result = search.run(self._now())
            return replace(result, approximate=True) if analysis is None and question is not None else result

        for left in reversed(range(SNAPSHOTS)):
            try:
                result = await store.database.read(partial(work, left))
                break
            except _Overtaken:
                continue  # from here the file would take long, and a newer state is as good
            except Stopped:
                # Without knowing what is superseded nothing can be said. Who asks next will know.
                self._work_out(store, scope, request.succession)
                result = _nothing(request, mode_that_runs(request), late=True)
                break
        if self._cache is not None:
            if request.vector is not None:
                self._cache.asked(store, np.frombuffer(request.vector, "<f2"))
            if self._cache.wants_building(store):
                self._begin(store, partial(_build, self._cache, store), partial(self._cache.ended, store))
        return result

    async def strongest(self, store: SpaceStore, request: SearchRequest, scope: Scope) -> SearchResult:
        """Give the facts of which most is left, where nothing is asked: text, vector and mode do not
        count."""
        deadline = Deadline.after(self._seconds, self._clock)

        def work(connection: Connection) -> SearchResult:
            reads = SearchReads(connection)
            with reads.until(deadline.passed):
                asked, gone = self._prepare(store, connection, reads, request, scope)
                return _strongest(reads, asked, scope, self._analysis, gone, self._now())

        try:
            return await store.database.read(work)
        except Stopped:
            self._work_out(store, scope, request.succession)
            return _nothing(request, "strength", late=True)

    async def settled(self) -> None:
        """Wait until nothing is being made beside the questions."""
        while self._aside:
            await asyncio.wait(self._aside)

    async def close(self) -> None:
        """End what is being made beside the questions."""
        for task in self._aside:
            task.cancel()
        await self.settled()

    def _work_out(self, store: SpaceStore, scope: Scope, succession: Succession) -> None:
        """Find out beside the questions what is superseded, where there was no time for it in one."""
        if store in self._working_out:
            return

        def work(connection: Connection, check: Callable[[], None]) -> None:
            def over() -> bool:
                check()
                return False

            with stopping(connection, over):
                store.superseding.ids(connection, scope, succession.may_write)

        self._working_out.add(store)
        self._begin(store, work, partial(self._working_out.discard, store))

    def _begin(
        self,
        store: SpaceStore,
        work: Callable[[Connection, Callable[[], None]], None],
        ended: Callable[[], None],
    ) -> None:
        """Do something long beside the questions: what it gets besides a connection it calls often."""

        async def run() -> None:
            task = asyncio.current_task()

            def check() -> None:
                if store.database.closing or (task is not None and task.cancelling()):
                    raise Abandoned

            try:
                await store.database.read(lambda connection: work(connection, check))
            except Abandoned:
                pass
            except StoreError as error:
                log.warning("no index in memory", space=store.space, error=str(error))

        def done(task: asyncio.Task[None]) -> None:
            ended()
            self._aside.discard(task)

        task = asyncio.create_task(run())
        self._aside.add(task)
        task.add_done_callback(done)

    def _prepare(
        self,
        store: SpaceStore,
        connection: Connection,
        reads: SearchReads,
        request: SearchRequest,
        scope: Scope,
        inside: Inside | None = None,
    ) -> tuple[SearchRequest, frozenset[int]]:
        """Leave superseded facts out, unless they are wished, and take the vector of `similar_to`."""
        filters, gone = store.superseding.narrow(
            connection, scope, request.filters, request.succession, inside
        )
        if request.similar_to is None:
            return replace(request, filters=filters), gone
        like = memory_reads.get(connection, request.similar_to, scope)
        found, vectors = reads.embeddings(np.array([like.id] if like is not None else [], np.int64))
        if like is None or not len(found):
            raise NoSuchMemory
        filters = replace(filters, without=filters.without | {like.id})
        return replace(request, filters=filters, vector=vectors[0].tobytes(), model=None), gone


def _build(cache: ViewCache, store: SpaceStore, connection: Connection, check: Callable[[], None]) -> None:
    cache.build(store, SearchReads(connection), check)


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


def _nothing(request: SearchRequest, mode: Ran, *, late: bool = False) -> SearchResult:
    trace = Trace(0, 0, 0, None, None, 0, {}) if request.explain else None
    return SearchResult((), mode, approximate=late, trace=trace)


def _count(request: SearchRequest) -> int:
    return max(MIN_CANDIDATES, CANDIDATES_A_HIT * request.limit)


def _strongest(
    reads: SearchReads,
    request: SearchRequest,
    scope: Scope,
    analysis: TextAnalysis,
    superseded: frozenset[int],
    now: int,
) -> SearchResult:
    left = strength.strongest(reads.connection, request.subject, now, scope, request.filters, _count(request))
    ranked = [
        Ranked(id_, value, None, None, {"strength": Component(value, value, 1.0, value)})
        for id_, value in left
    ]
    hits, _ = Showing(reads, analysis, request, "strength", superseded).hits(ranked, frozenset(), {})
    if not request.explain:
        return SearchResult(hits, "strength", approximate=False)
    corpus, searched = len(reads.ids(scope)), len(reads.ids(scope, request.filters))
    trace = Trace(corpus, searched, len(superseded), None, None, len(left), {"strength": 1.0})
    return SearchResult(hits, "strength", approximate=False, trace=trace)


class _Search:
    """One question on one snapshot."""

    def __init__(
        self,
        reads: SearchReads,
        arms: Arms,
        request: SearchRequest,
        scope: Scope,
        question: Question | None,
        tuning: Tuning,
        weights: Weights,
        analysis: TextAnalysis,
        deadline: Deadline,
        superseded: frozenset[int],
    ) -> None:
        self._reads = reads
        self._arms = arms
        self._request = request
        self._scope = scope
        self._question = question
        self._mode = mode_that_runs(request)
        self._tuning = tuning
        self._weights = request.mix.arms(weights)
        self._own_weights = weights
        self._analysis = analysis
        self._deadline = deadline
        self._superseded = superseded
        self._late = False

    def run(self, now: int) -> SearchResult:
        vector = self._query_vector()
        if self._mode == "hybrid" and (self._question is None or self._question.is_empty):
            self._mode = "vector"  # the text says nothing to search for: unknown, which is not a 0
        if not self._in_time(self._arms.narrow, False):
            return _nothing(self._request, self._mode, late=self._late)
        # Whoever looks for phrases leaves time to rank what it found.
        if not self._arms.narrow_by_phrases(self._deadline.halfway()):
            return _nothing(self._request, self._mode, late=self._arms.approximate)
        candidates: dict[str, NDArray[np.int64]] = {}
        nobody, count = np.empty(0, np.int64), _count(self._request)
        by_words = self._mode != "vector" and self._question is not None
        if by_words:
            candidates["keyword"] = self._in_time(lambda: self._arms.with_words(count), nobody)
        near = vector if self._mode != "keyword" else None
        if near is not None:
            candidates["vector"] = self._in_time(lambda: self._arms.near(near, count), nobody)
        ids = np.unique(np.concatenate(list(candidates.values())))
        # What is left takes as long as the answer is long, so the deadline lets it be, but for the marking.
        judge = Judge(self._arms, self._request, self._tuning, self._weights, by_words, near)
        fused = judge.fused(ids)
        if self._request.mix.has_signals:
            ranked = fused.ranked()
            ranked = blend(ranked, self._measures(ranked, now), self._request.mix, self._own_weights)
        else:
            ranked = fused.ranked(None if self._request.collapse else self._request.limit)
        showing = Showing(
            self._reads,
            self._analysis,
            self._request,
            self._mode,
            self._superseded,
            has_context=self._tuning.context.weight > 0.0,
            deadline=self._deadline,
        )
        hits, in_time = showing.hits(ranked, self._arms.terms, candidates)
        return SearchResult(
            hits,
            self._mode,
            approximate=self._late or self._arms.approximate or not in_time,
            trace=self._trace(candidates, fused) if self._request.explain else None,
        )

    def _measures(self, ranked: Sequence[Ranked], now: int) -> Mapping[Signal, Mapping[int, Measure]]:
        ids = [candidate.id for candidate in ranked]
        return measure_signals(self._reads, self._arms, self._request, self._superseded, ids, now)

    def _trace(self, candidates: Mapping[str, NDArray[np.int64]], fused: Fused) -> Trace:
        mix = self._request.mix
        share = mix.arms_weight(self._own_weights)
        # An arm that did not run has no weight, nor has context where nothing stands around.
        weights = {name: weight * share for name, weight in fused.shares.items()}
        weights.update({str(signal): weight for signal, weight in mix.signals.items()})
        total = sum(weights.values())
        question, arms = self._question, self._arms
        return Trace(
            corpus=arms.corpus_count,
            searched=arms.found_count,
            superseded=len(self._superseded),
            keyword=len(candidates["keyword"]) if "keyword" in candidates else None,
            vector=len(candidates["vector"]) if "vector" in candidates else None,
            candidates=len(fused),
            weights={name: weight / total for name, weight in weights.items()},
            terms=tuple(
                [
                    TermTrace(term, count, term in arms.terms)
                    for term, count in sorted(arms.words.items(), key=lambda item: (item[1], item[0]))
                ]
            ),
            phrases=_shown(question.required) if question is not None else (),
            excluded=_shown(question.excluded) if question is not None else (),
        )

    def _in_time(self, step: Callable[[], T], otherwise: T) -> T:
        """Take a step unless its time is over, and stop its reading once it is."""
        if not self._deadline.passed():
            try:
                with self._reads.until(self._deadline.passed):
                    return step()
            except Stopped:
                pass
        self._late = True
        return otherwise

    def _query_vector(self) -> QueryVector | None:
        index, data = self._reads.index, self._request.vector
        if self._mode == "keyword" or data is None or index is None:
            return None
        if self._request.model is not None and self._request.model != index.key:
            raise ModelChanged
        return QueryVector.of(data, index.key.dims)


def _shown(phrases: Sequence[Phrase]) -> tuple[str, ...]:
    return tuple([" ".join(phrase.words) for phrase in phrases])
