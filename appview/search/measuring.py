"""The signals of candidates, read from the file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from appview.memory import signal_reads, strength
from appview.search.signals import Measure, importance, links, recency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appview.memory.search_reads import SearchReads
    from appview.search.arms import Arms
    from appview.search.signals import Signal
    from appview.search.values import SearchRequest


def measure_signals(
    reads: SearchReads,
    arms: Arms,
    request: SearchRequest,
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
        counts = _pointed_to(reads, arms, request.filters.without & superseded, ids)
        measures["links"] = {id_: links(counts.get(id_, 0)) for id_ in ids}
    return measures


def _pointed_to(
    reads: SearchReads, arms: Arms, superseded: frozenset[int], ids: Sequence[int]
) -> Mapping[int, int]:
    """Count the facts that speak for each of some: those that the caller may read and that stand."""
    pairs = signal_reads.pointing(reads.connection, ids)
    sources = np.unique(np.array([source for source, _ in pairs], np.int64))
    counting = set(arms.readable(sources).tolist()) - superseded
    return Counter(target for source, target in pairs if source in counting)
