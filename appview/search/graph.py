"""What lies around memories: which are near each other, what points where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from appview.memory import link_reads
from appview.memory import reads as memory_reads
from appview.memory.search_reads import SearchReads
from appview.memory.superseding import STANDING, mark
from appview.search.errors import NoSuchMemory
from appview.search.hits import similarity
from appview.search.values import NO_FILTERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appview.memory.link_reads import Backlink, Pointed
    from appview.memory.reads import Position
    from appview.memory.scope import Scope
    from appview.memory.store import SpaceStore
    from appview.memory.superseding import Succession
    from appview.memory.values import Fact
    from appview.sqlite import Connection
    from lexicons.syntax import AtUri


@dataclass(frozen=True, slots=True)
class Edge:
    """Two positions, `a` below `b`, and their similarity in thousandths."""

    a: int
    b: int
    similarity: int


@dataclass(frozen=True, slots=True)
class Graph:
    """Facts, newest first, the pairs that are near each other, and links (from, to, kind) by position."""

    nodes: tuple[Fact, ...]
    edges: tuple[Edge, ...]
    links: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Around:
    """What one fact points to, and what points to it."""

    links: tuple[Pointed, ...]
    backlinks: tuple[Backlink, ...]


async def graph(
    store: SpaceStore,
    scope: Scope,
    *,
    limit: int,
    neighbors: int,
    floor: float,
    succession: Succession = STANDING,
) -> Graph:
    """Take the newest facts inside a scope and join each to its nearest ones among them, as far as their
    cosine reaches `floor`."""

    def work(connection: Connection) -> Graph:
        filters, gone = store.superseding.narrow(connection, scope, NO_FILTERS, succession)
        nodes = mark(memory_reads.newest(connection, scope, filters, limit, None), gone)
        positions = {node.id: position for position, node in enumerate(nodes)}
        found, vectors = SearchReads(connection).embeddings(np.array(list(positions), np.int64))
        there = sorted(range(len(found)), key=lambda row: positions[int(found[row])])
        places = [positions[int(found[row])] for row in there]
        edges = [
            Edge(places[a], places[b], similarity(cosine))
            for a, b, cosine in nearest_pairs(vectors[there], neighbors, floor)
        ]
        links = sorted(
            (positions[source], positions[target], kind)
            for source, target, kind in link_reads.links_between(connection, list(positions))
        )
        return Graph(tuple(nodes), tuple(edges), tuple(links))

    return await store.database.read(work)


async def around(
    store: SpaceStore,
    uri: AtUri,
    scope: Scope,
    *,
    limit: int,
    before: Position | None = None,
    succession: Succession = STANDING,
) -> Around:
    """Find what a memory points to and a page of what points to it; raise `NoSuchMemory`."""

    def work(connection: Connection) -> Around:
        of = memory_reads.get(connection, uri, scope)
        if of is None:
            raise NoSuchMemory
        filters, gone = store.superseding.narrow(connection, scope, NO_FILTERS, succession)
        links = [
            link_reads.Pointed(link.link, mark([link.fact], gone)[0] if link.fact is not None else None)
            for link in link_reads.links_of(connection, of, scope, filters)
        ]
        backlinks = [
            link_reads.Backlink(mark([back.fact], gone)[0], back.kinds)
            for back in link_reads.backlinks_of(connection, of, scope, filters, limit, before)
        ]
        return Around(tuple(links), tuple(backlinks))

    return await store.database.read(work)


def nearest_pairs(
    vectors: NDArray[np.floating], neighbors: int, floor: float
) -> list[tuple[int, int, float]]:
    """Join each vector to its `neighbors` nearest others whose cosine is `floor` or more: pairs of positions,
    the lower first, in order, with their cosine. Of equally near ones the earlier count first."""
    count = len(vectors)
    if count < 2:
        return []
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    cosines = np.round(wide @ wide.T, 12)  # sums of another order must not tell equal pairs apart
    np.fill_diagonal(cosines, -np.inf)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :neighbors]
    pairs = {
        (min(row, int(column)), max(row, int(column)))
        for row in range(count)
        for column in order[row]
        if cosines[row, column] >= floor
    }
    return [(a, b, float(cosines[a, b])) for a, b in sorted(pairs)]
