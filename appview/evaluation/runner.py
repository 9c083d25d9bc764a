"""Asking a judged set's questions of the real engine, and measuring the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, get_args

from appview.evaluation.metrics import DEPTH, MEASURES, NDCG_DEPTH, Measured, measure
from appview.evaluation.statistics import compare, estimate
from appview.memory.scope import EVERYTHING
from appview.memory.superseding import Succession
from appview.search.engine import Mode, Searcher, SearchRequest
from appview.search.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appview.evaluation.judged import JudgedQuery
    from appview.evaluation.spaces import AskedSpace
    from appview.evaluation.statistics import Difference, Estimate
    from appview.evaluation.vectors import Vectors
    from appview.search.analysis import TextAnalysis
    from appview.search.derived import ViewCache

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
ALL: Final = "all"  # the row of all kinds together


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is measured: how a search ranks, and the language of its analysis."""

    name: str
    tuning: Tuning = DEFAULT
    language: str = "english"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question's figures, by mode."""

    kind: str
    measured: Mapping[Mode, Measured]
    unjudged: Mapping[Mode, int] = field(default_factory=dict)  # of the first ten hits, where that is known


async def ask(
    space: AskedSpace,
    queries: Sequence[JudgedQuery],
    vectors: Vectors,
    tuning: Tuning,
    analysis: TextAnalysis,
    cache: ViewCache,
) -> list[Outcome]:
    """Ask questions of a space, each in every mode."""
    searcher = Searcher(cache=cache, tuning=tuning, analysis=analysis, seconds=inf)
    try:
        return [await _outcome(searcher, space, query, vectors) for query in queries]
    finally:
        await searcher.close()


async def _outcome(searcher: Searcher, space: AskedSpace, query: JudgedQuery, vectors: Vectors) -> Outcome:
    measured, unjudged = {}, {}
    for mode in MODES:
        request = SearchRequest(
            text=query.text,
            vector=vectors.of(query),
            mode=mode,
            limit=DEPTH,
            model=vectors.model,
            filters=query.filters,
            succession=Succession(shown=query.include_superseded),
        )
        result = await searcher.search(space.store, request, EVERYTHING)
        # Whatever was built beside the first question answers the others.
        await searcher.settled()
        ranking = [space.names.get(hit.fact.uri, hit.fact.uri) for hit in result.hits]
        measured[mode] = measure(ranking, query.relevant)
        if query.judged:
            unjudged[mode] = len(set(ranking[:NDCG_DEPTH]) - query.judged)
    return Outcome(query.kind, measured, unjudged)


def by_kind(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Group outcomes by kind of question, all of them first where there are several kinds."""
    kinds = sorted({outcome.kind for outcome in outcomes})
    groups = {kind: [outcome for outcome in outcomes if outcome.kind == kind] for kind in kinds}
    return groups if len(groups) == 1 else {ALL: list(outcomes), **groups}


def estimates(outcomes: Sequence[Outcome], mode: Mode) -> dict[str, Estimate]:
    """Estimate each measure of a mode."""
    return {name: estimate(values(outcomes, mode, name)) for name in MEASURES}


def differences(
    first: Sequence[Outcome], first_mode: Mode, second: Sequence[Outcome], second_mode: Mode
) -> dict[str, Difference]:
    """Compare two ways of answering the same questions, measure by measure."""
    return {
        name: compare(values(first, first_mode, name), values(second, second_mode, name)) for name in MEASURES
    }


def values(outcomes: Sequence[Outcome], mode: Mode, name: str) -> list[float]:
    """List one measure of a mode, one number a question."""
    return [outcome.measured[mode].of(name) for outcome in outcomes]
