"""The vector arm: the facts nearest to a vector, of those that may be found. Exact.

Scope, filters and phrases come first, the nearest are chosen among what they leave. With a view in memory
every such fact is measured. Without one the file answers: its own index, or the vectors of the few facts
that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.search.derived import length
from appview.search.ranking import best, positions_in
from lexicons.embeddings import decode_unit_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appview.memory.scope import Scope
    from appview.memory.search_reads import SearchReads
    from appview.memory.values import Filters
    from appview.search.derived import View

MAX_MEASURED_ROWS: Final = 2_000  # vectors read from the file and measured in at most 6 ms; above, its index


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A usable vector of the space's model. `half` is as it came, `unit` float32 of length 1."""

    half: NDArray[np.float16]
    unit: NDArray[np.float32]

    @classmethod
    def of(cls, data: bytes, dims: int) -> QueryVector:
        """Read f16le bytes; raise `UnusableVector`."""
        unit = np.array(decode_unit_vector(data, dims), np.float32)
        return cls(np.frombuffer(data, dtype="<f2").astype(np.float16), unit)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What may be found: ids, where they are known one by one, and the scope and filters they come from.
    `by_phrases` tells that scope and filters alone let more through."""

    scope: Scope
    filters: Filters
    ids: NDArray[np.int64] | None
    by_phrases: bool = False


def nearest(
    reads: SearchReads, view: View | None, vector: QueryVector, narrowed: Narrowed, count: int
) -> NDArray[np.int64]:
    """Give the ids of the `count` nearest facts, and of those as near as the last; in no order."""
    ids = narrowed.ids
    if view is not None:
        if ids is None:
            return view.ids[best(view.cosines(vector.half, None), count)]
        positions, there = positions_in(view.ids, ids)
        positions = positions[there]
        return view.ids[positions[best(view.cosines(vector.half, positions), count)]]
    if ids is None:
        return _ids(reads.nearest(vector.unit.tobytes(), count))
    if len(ids) <= MAX_MEASURED_ROWS or narrowed.by_phrases:
        found, cosines = measure(reads, None, vector, ids)
        return found[best(cosines, count)]
    return _ids(reads.nearest(vector.unit.tobytes(), count, narrowed.scope, narrowed.filters))


def measure(
    reads: SearchReads, view: View | None, vector: QueryVector, ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Give the cosine of each fact to double precision: the same number from memory as from the file."""
    found, vectors = view.vectors(ids) if view is not None else reads.embeddings(ids)
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    dots = np.einsum("ij,j->i", wide, vector.half.astype(np.float64))
    return found, dots / (lengths * length(vector.half))


def _ids(ids: list[int]) -> NDArray[np.int64]:
    return np.array(ids, np.int64)
