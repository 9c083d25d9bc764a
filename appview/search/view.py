"""One state of a space in memory: everything that search measures, by slot.

A slot is the number a view gives a fact: slots ascend with fact ids, and a fact keeps its slot in all views
that follow. Arrays only ever grow at their end, so whoever still reads an older view is not disturbed; facts
that are gone are marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from appview.search.ranking import positions_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appview.search.clusters import Clusters
    from appview.search.postings import Words
    from appview.search.scopes import CoveredSlots
    from appview.search.sequence import Sequence
    from appview.search.tree import PathTags, Tree
    from lexicons.models import ModelKey

GROWTH: Final = 1.25  # of a full buffer


@dataclass(frozen=True, slots=True)
class View:
    """The facts of a space at one data version. `dead` is None while no slot is."""

    version: int
    change: int
    model: ModelKey
    analysis: str | None  # version of the one that the words are of
    ids: NDArray[np.int64]
    lengths: NDArray[np.float32]
    paths: NDArray[np.int32]
    times: NDArray[np.int64]
    inverses: NDArray[np.float32]  # one over the length of a vector
    matrix: NDArray[np.float16]
    words: Words
    tree: Tree
    path_tags: PathTags
    sequence: Sequence
    covered: CoveredSlots  # shared by the views that follow each other
    clusters: Clusters | None = None
    dead: NDArray[np.bool_] | None = None
    dead_count: int = 0

    @property
    def count(self) -> int:
        """Slots, those of facts that are gone too."""
        return len(self.ids)

    @property
    def live_count(self) -> int:
        """Facts."""
        return self.count - self.dead_count

    @property
    def size(self) -> int:
        """Bytes in memory. What the words that arrived of late take is estimated by those of before."""
        arrays = (self.ids, self.lengths, self.paths, self.times, self.inverses, self.matrix)
        total = sum(_held(part) for part in arrays) + self.words.segment.size
        late = self.count - self.words.segment_count
        total += int(late * self.words.segment.size / max(1, self.words.segment_count))
        total += self.tree.size + self.sequence.size + self.covered.size
        if self.clusters is not None:
            total += self.clusters.size
        return total + (self.dead.nbytes if self.dead is not None else 0)

    def slots(self, ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """Find the slots of facts; those that are not live are left out."""
        positions, there = positions_in(self.ids, ids)
        found = positions[there]
        return found if self.dead is None else found[~self.dead[found]]


def grown(array: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
    """Append to an array: in its own buffer where there is room behind it. Only the newest of the arrays that
    share a buffer may grow."""
    used, needed = len(array), len(array) + len(more)
    base = array.base
    if not isinstance(base, np.ndarray) or len(base) < needed or base.dtype != array.dtype:
        base = np.empty((max(needed, int(used * GROWTH)), *array.shape[1:]), array.dtype)
        base[:used] = array
    base[used:needed] = more
    return base[:needed]


def _held(array: NDArray[Any]) -> int:
    return array.base.nbytes if isinstance(array.base, np.ndarray) else array.nbytes
