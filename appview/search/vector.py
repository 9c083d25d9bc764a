"""The vector arm: the facts nearest to a vector, of those that may be found. Exact.

Scope, filters and phrases come first, the nearest are chosen among what they leave. With a view in memory
every such fact is measured, or, in large spaces, those in the clusters nearest to the vector. Without one the
file answers: its own index, or the vectors of the few facts that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.errors import IndexDamaged
from appview.search.clusters import dot_products, picked_products
from appview.search.deadline import NEVER
from appview.search.ranking import MAX_CANDIDATES, best
from lexicons.embeddings import decode_unit_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appview.memory.scope import Scope
    from appview.memory.search_reads import SearchReads
    from appview.memory.values import Filters
    from appview.search.deadline import Deadline
    from appview.search.view import View

GATHER_SHARE: Final = 0.25  # of all vectors, up to which picking rows out beats measuring all
REACH_A_HIT: Final = 4  # vectors measured at least for each that is wanted
MAX_MEASURED_ROWS: Final = 2_000  # vectors read from the file and measured in at most 6 ms; above, its index

MEASURED_AT_ONCE: Final = 4_096  # of more


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


def nearest(reads: SearchReads, vector: QueryVector, narrowed: Narrowed, count: int) -> NDArray[np.int64]:
    """Give the ids of the `count` nearest facts of a file, and of those as near as the last; in no order.

    Where the index lacks some or cannot be read, all that may be found is measured.
    """
    ids = narrowed.ids
    try:
        if ids is None:
            return _ids(reads.nearest(vector.unit.tobytes(), count))
        if len(ids) > MAX_MEASURED_ROWS and not narrowed.by_phrases:
            # The index measures less finely and leaves out what is as near as the last.
            more = count + MAX_CANDIDATES
            ids = _ids(sorted(reads.nearest(vector.unit.tobytes(), more, narrowed.scope, narrowed.filters)))
    except IndexDamaged:
        ids = reads.every_id() if ids is None else ids
    near, near_cosines = np.empty(0, np.int64), np.empty(0)
    for start in range(0, len(ids), MEASURED_AT_ONCE):
        found, vectors = reads.embeddings(ids[start : start + MEASURED_AT_ONCE])
        near = np.concatenate((near, found))
        near_cosines = np.concatenate((near_cosines, cosines(vector, vectors)))
    return near[best(near_cosines, count)]


def nearest_in_memory(
    view: View, vector: QueryVector, mask: NDArray[np.bool_] | None, count: int, deadline: Deadline = NEVER
) -> tuple[NDArray[np.intp], bool]:
    """Give the slots of the `count` nearest facts of those that `mask` marks, and of those as near as the
    last; in no order. And whether there was time for all that had to be measured.

    With clusters, about as many facts are measured whatever the mask, and all of them where it leaves no more
    than that.
    """
    inverse = np.float32(1.0 / length(vector.half))
    left = view.count if mask is None else int(np.count_nonzero(mask))
    clusters = view.clusters
    if clusters is not None and left > clusters.reach:
        late = np.arange(clusters.count, view.count)
        if mask is not None:
            late = late[mask[late]]
        slots: NDArray[np.intp] = np.concatenate(
            (clusters.near(vector.unit, max(clusters.reach, REACH_A_HIT * count), mask), late)
        )
    elif left > GATHER_SHARE * view.count:
        products = dot_products(vector.half, view.matrix) * view.inverses * inverse
        if mask is None:
            return best(products, count), True
        marked = np.flatnonzero(mask)
        return marked[best(products[marked], count)], True
    else:
        slots = np.flatnonzero(mask) if mask is not None else np.arange(view.count)
    dots = picked_products(vector.half, view.matrix, slots, deadline.passed)
    complete = len(dots) == len(slots)
    seen = slots[: len(dots)]
    return seen[best(dots * view.inverses[seen] * inverse, count)], complete


def length(vector: NDArray[np.float16]) -> float:
    """Measure the length of a vector."""
    return float(np.linalg.norm(vector.astype(np.float64)))


def cosines(vector: QueryVector, vectors: NDArray[np.float16]) -> NDArray[np.float64]:
    """Measure vectors to double precision: the same numbers from memory as from the file."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    dots = np.einsum("ij,j->i", wide, vector.half.astype(np.float64))
    return np.asarray(dots / (lengths * length(vector.half)))


def too_far(
    cosines: NDArray[np.float64], words: NDArray[np.float64] | None, floor: float, cut: float
) -> NDArray[np.bool_]:
    """Mark what only its vector speaks for and what is not near: below `floor`, or below `cut` times the
    nearest. Where nothing is near, meaning finds nothing. A cosine that is unknown (NaN) is not far."""
    known = cosines[~np.isnan(cosines)]
    share = cut * float(known.max(initial=0.0))
    far = cosines < (max(floor, share) if share > 0.0 else floor)
    return far if words is None else far & (words <= 0.0)


def _ids(ids: list[int]) -> NDArray[np.int64]:
    return np.array(ids, np.int64)
