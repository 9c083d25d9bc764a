"""The signals of candidates, read from the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.memory import signal_reads, strength
from appview.memory.values import Filters
from appview.search.signals import Measure, importance, links, recency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appview.memory.scope import Scope
    from appview.memory.search_reads import SearchReads
    from appview.search.signals import Signal
    from appview.search.values import SearchRequest


def measure_signals(
    reads: SearchReads,
    request: SearchRequest,
    scope: Scope,
    superseded: frozenset[int],
    ids: Sequence[int],
    now: int,
) -> Mapping[Signal, Mapping[int, Measure]]:
    """Measure, of candidates, the signals that count."""
    counting = {signal for signal, weight in request.mix.signals.items() if weight > 0.0}
    measures: dict[Signal, Mapping[int, Measure]] = {}
    important: Mapping[int, int] = {}
    if counting & {"recency", "importance"}:
        important = signal_reads.importances(reads.connection, ids)
    if "recency" in counting:
        places = reads.places(ids)
        measures["recency"] = {
            id_: recency(now - place.ordered_at, important.get(id_)) for id_, place in places.items()
        }
    if "strength" in counting:
        left = strength.traces(reads.connection, request.subject, ids)
        values = {id_: trace.strength(now) for id_, trace in left.items()}
        measures["strength"] = {id_: Measure(value, value) for id_, value in values.items()}
    if "importance" in counting:
        measures["importance"] = {id_: importance(value) for id_, value in important.items()}
    if "links" in counting:
        standing = Filters(without=request.filters.without & superseded)
        counts = signal_reads.pointed_to(reads.connection, scope, standing, ids)
        measures["links"] = {id_: links(counts.get(id_, 0)) for id_ in ids}
    return measures
