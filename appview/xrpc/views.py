"""Values of a space's memory -> the shapes of the lexicons. Fractions become integers in thousandths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lexicons.datetimes import Datetime

if TYPE_CHECKING:
    from appview.control import SpaceRow
    from appview.memory.values import Fact, PathNode, SkippedCount, SpaceStatus
    from appview.search.engine import Hit
    from appview.search.fusion import Component
    from lexicons.configs import Config

THOUSAND: Final = 1000  # the wire has no floats

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
    goes to the vector arm, or to the only arm there is."""
    score = thousandths(hit.score)
    match: View = {"score": score, "words": list(hit.words)}
    first = 0
    if hit.keyword is not None and hit.keyword.raw > 0:
        first = score if hit.vector is None else min(thousandths(hit.keyword.contribution), score)
        match["keyword"] = _component(hit.keyword, first)
    if hit.vector is not None:
        match["vector"] = _component(hit.vector, score - first)
    return match


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
