"""Values of a space's memory -> the shapes of the lexicons. Fractions become integers in thousandths."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from lexicons.datetimes import Datetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.control import SpaceRow
    from appview.memory.values import Fact, PathNode, SkippedCount, SpaceStatus
    from appview.search.engine import Hit
    from appview.search.fusion import Component
    from appview.search.highlights import Place
    from appview.search.trace import Trace
    from lexicons.configs import Config

THOUSAND: Final = 1000  # the wire has no floats
MAX_ALIKE_URIS: Final = 16  # garden.engram.defs#match

View = dict[str, Any]


def memory_view(fact: Fact) -> View:
    """Show a fact as `garden.engram.defs#memoryView`."""
    view: View = {
        "uri": fact.uri,
        "cid": fact.cid,
        "author": fact.author,
        "text": fact.text,
        "tags": list(fact.tags),
        "path": fact.path,
        "createdAt": fact.created_at,
        "indexedAt": Datetime.from_micros(fact.recorded_at),
    }
    if fact.source is not None:
        view["source"] = fact.source
    if fact.superseded:
        view["superseded"] = True
    return view


def hit_view(hit: Hit) -> View:
    """Show a hit: its memory, how near it is, and why it was found."""
    view = memory_view(hit.fact)
    if hit.similarity is not None:
        view["similarity"] = hit.similarity
    view["match"] = match_view(hit)
    return view


def match_view(hit: Hit) -> View:
    """Show why a memory was found. The contributions add up to the score exactly: what rounding leaves over
    goes to the parts that it took most from."""
    score = thousandths(hit.score)
    parts = {
        name: part
        for name, part in (
            ("keyword", hit.keyword),
            ("vector", hit.vector),
            ("context", hit.context),
            *hit.signals.items(),
        )
        if part is not None and (name != "keyword" or part.raw > 0)
    }
    shares = share_out(score, [part.contribution for part in parts.values()])
    match: View = {"score": score, "words": list(hit.words)}
    for (name, part), share in zip(parts.items(), shares, strict=True):
        match[name] = _component(part, share)
    if hit.places:
        match["places"] = [place_view(place) for place in hit.places]
    if hit.found_by:
        match["foundBy"] = list(hit.found_by)
    if hit.missing:
        match["missing"] = [{"component": name, "reason": reason} for name, reason in hit.missing.items()]
    if hit.alike:
        match["alike"] = len(hit.alike)
        match["alikeUris"] = [fact.uri for fact in hit.alike[:MAX_ALIKE_URIS]]
    return match


def share_out(total: int, fractions: Sequence[float]) -> list[int]:
    """Write fractions in thousandths so that they sum to `total`, each less than one thousandth off where the
    fractions themselves sum to it."""
    shares = [math.floor(min(max(fraction, 0.0), 1.0) * THOUSAND) for fraction in fractions]
    left = total - sum(shares)
    order = sorted(range(len(shares)), key=lambda place: shares[place] - fractions[place] * THOUSAND)
    for step in range(abs(left) if shares else 0):
        place = order[step % len(order)] if left > 0 else max(range(len(shares)), key=shares.__getitem__)
        shares[place] += 1 if left > 0 else -1
    return shares


def place_view(place: Place) -> View:
    """Show where a word stands."""
    view: View = {"field": place.field, "byteStart": place.start, "byteEnd": place.end}
    if place.index is not None:
        view["index"] = place.index
    return view


def trace_view(trace: Trace) -> View:
    """Show what happened to a question."""
    view: View = {
        "corpus": trace.corpus,
        "searched": trace.searched,
        "superseded": trace.superseded,
        "candidates": trace.candidates,
        "weights": [
            {"component": name, "weight": thousandths(weight)} for name, weight in trace.weights.items()
        ],
        "terms": [
            {"term": term.term, "memories": term.memories, "counted": term.counted} for term in trace.terms
        ],
        "phrases": list(trace.phrases),
        "excluded": list(trace.excluded),
    }
    if trace.keyword is not None:
        view["keyword"] = trace.keyword
    if trace.vector is not None:
        view["vector"] = trace.vector
    return view


def _component(component: Component, contribution: int) -> View:
    return {
        "raw": round(component.raw * THOUSAND),
        "normalised": thousandths(component.normalised),
        "weight": thousandths(component.weight),
        "contribution": contribution,
    }


def thousandths(fraction: float) -> int:
    """Write a fraction from 0 to 1 as an integer from 0 to 1000, to the nearest."""
    return round(min(max(fraction, 0.0), 1.0) * THOUSAND)


def config_view(config: Config) -> View:
    """Show a config record as `garden.engram.defs#config`."""
    record = config.to_record()
    del record["$type"]
    return record


def status_view(status: SpaceStatus) -> View:
    """Show what a space holds."""
    view: View = {
        "memories": status.memories,
        "skipped": [skipped_view(count) for count in status.skipped],
    }
    if status.config is not None:
        view["config"] = config_view(status.config)
    if status.active is not None:
        view["active"] = status.active.to_record()
    if status.building is not None:
        view["building"] = status.building.to_record()
        view["buildingMemories"] = status.building_memories
    return view


def skipped_view(count: SkippedCount) -> View:
    """Show how many of an author's records are not indexed, by reason."""
    reasons = [{"reason": reason, "count": number} for reason, number in sorted(count.reasons.items())]
    return {"author": count.author, "count": count.count, "reasons": reasons}


def space_view(row: SpaceRow, status: SpaceStatus) -> View:
    """Show a space in a list of them."""
    view: View = {
        "uri": row.uri,
        "kind": row.kind,
        "authority": row.authority,
        "memories": status.memories,
    }
    if status.active is not None:
        view["model"] = status.active.to_record()
    return view


def path_view(node: PathNode) -> View:
    """Show one place in the tree. The lexicon counts what is below apart from what is here."""
    return {
        "path": node.path,
        "segment": node.segment,
        "memories": node.facts,
        "children": node.children,
        "descendants": node.descendants - node.facts,
    }
