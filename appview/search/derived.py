"""Vectors in memory: derived from a space's file, and never more than that.

A `View` is one state of a space, good for exactly the data version it was made from. `VectorCache` brings a
view up to a reader's version by what has come and gone, and gives none where it cannot: then the reader uses
the file. A missing view costs time, never an answer.

Vectors are kept as published (binary16, 2 bytes a dimension) with one over their length, so a cosine is
that of the published vectors. Rows are only ever appended to a buffer; whoever still reads an older view
is not disturbed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

import numkong
import numpy as np

from appview.search.ranking import positions_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appview.memory.search_reads import SearchReads
    from appview.memory.store import SpaceStore
    from lexicons.models import ModelKey

MAX_CACHE_BYTES: Final = 1 << 30  # ours, for all spaces of a process: 1.3 million vectors of 384 dims
ROWS_A_READ: Final = 4_096  # vectors read from the file at once
GROWTH: Final = 1.25  # of a full buffer
MAX_DEAD_SHARE: Final = 0.25  # of a buffer's rows, before it is written anew
GATHER_SHARE: Final = 0.25  # of all rows, up to which picking rows out beats scoring all


@dataclass(frozen=True, slots=True)
class View:
    """The facts of a space, by ascending id, with their vectors and numbers of words."""

    version: int
    model: ModelKey
    ids: NDArray[np.int64]
    lengths: NDArray[np.float32]
    rows: NDArray[np.int32]  # of `matrix`, one an id
    inverses: NDArray[np.float32]  # one over the length of a vector, one an id
    matrix: NDArray[np.float16]
    used: int  # rows of the matrix that are written

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return int(
            self.matrix.nbytes
            + self.ids.nbytes
            + self.lengths.nbytes
            + self.rows.nbytes
            + self.inverses.nbytes
        )

    def cosines(self, vector: NDArray[np.float16], positions: NDArray[np.intp] | None) -> NDArray[np.float32]:
        """Measure a vector against the facts at `positions`, or against all."""
        inverse = np.float32(1.0 / length(vector))
        if positions is not None and len(positions) < GATHER_SHARE * self.used:
            dots = dot_products(vector, self.matrix[self.rows[positions]])
            return dots * self.inverses[positions] * inverse
        dots = dot_products(vector, self.matrix[: self.used])[self.rows]
        cosines = dots * self.inverses * inverse
        return cosines if positions is None else cosines[positions]

    def vectors(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Give the published vectors of facts, by ascending id."""
        positions, there = positions_in(self.ids, ids)
        return ids[there], self.matrix[self.rows[positions[there]]]


def dot_products(vector: NDArray[np.float16], matrix: NDArray[np.float16]) -> NDArray[np.float32]:
    """Multiply a vector with every row."""
    if not len(matrix):
        return np.empty(0, np.float32)
    found = numkong.cdist(vector.reshape(1, -1), matrix, metric="dot")
    return np.asarray(found, dtype=np.float32).reshape(-1)


def length(vector: NDArray[np.float16]) -> float:
    """Measure the length of a vector."""
    return float(np.linalg.norm(vector.astype(np.float64)))


class VectorCache:
    """The views of open stores. Safe across threads; forgets a store that is gone, and the views that were
    asked for longest ago where all together are too large."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._views: WeakKeyDictionary[SpaceStore, View] = WeakKeyDictionary()
        self._locks: WeakKeyDictionary[SpaceStore, Lock] = WeakKeyDictionary()
        self._used: OrderedDict[ref[SpaceStore], None] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes of all views."""
        with self._lock:
            return sum(view.size for view in self._views.values())

    def view(self, store: SpaceStore, reads: SearchReads) -> View | None:
        """Give the view of the reader's version, made or brought up to date where that is possible."""
        if reads.index is None:
            return None
        with self._lock:
            lock = self._locks.setdefault(store, Lock())
        with lock:
            view = self._views.get(store)
            if view is not None and view.model != reads.index.key:
                view = None
            if view is not None and view.version > reads.data_version:
                return None  # another reader saw a newer state
            if view is None or view.version < reads.data_version:
                view = self._follow(view, reads)
                if view is None:
                    return None
            self._keep(store, view)
            return view

    def _follow(self, view: View | None, reads: SearchReads) -> View | None:
        key = reads.index.key if reads.index is not None else None
        if key is None:
            return None
        current = reads.every_id()
        if len(current) * (2 * key.dims + 20) > self._max_bytes:
            return None
        if view is None:
            view = _empty(key, len(current))
        view = _without(view, current)
        added = np.setdiff1d(current, view.ids, assume_unique=True)
        if len(added):
            extended = _with(view, added, reads)
            if extended is None:
                return None
            view = extended
        return replace(view, version=reads.data_version)

    def _keep(self, store: SpaceStore, view: View) -> None:
        with self._lock:
            self._views[store] = view
            self._used[ref(store)] = None
            self._used.move_to_end(ref(store))
            total = sum(kept.size for kept in self._views.values())
            for oldest in list(self._used):
                target = oldest()
                if target is None:
                    del self._used[oldest]
                elif total > self._max_bytes and target is not store:
                    del self._used[oldest]
                    total -= self._views.pop(target).size


def _empty(key: ModelKey, capacity: int) -> View:
    return View(
        version=-1,
        model=key,
        ids=np.empty(0, np.int64),
        lengths=np.empty(0, np.float32),
        rows=np.empty(0, np.int32),
        inverses=np.empty(0, np.float32),
        matrix=np.empty((capacity, key.dims), np.float16),
        used=0,
    )


def _without(view: View, current: NDArray[np.int64]) -> View:
    """Leave out the facts that are gone; write the buffer anew where too much of it is dead."""
    alive = np.isin(view.ids, current, assume_unique=True)
    if not alive.all():
        view = replace(
            view,
            ids=view.ids[alive],
            lengths=view.lengths[alive],
            rows=view.rows[alive],
            inverses=view.inverses[alive],
        )
    count = len(view.ids)
    if view.used - count > MAX_DEAD_SHARE * view.used:
        matrix = view.matrix[view.rows]
        view = replace(view, matrix=matrix, rows=np.arange(count, dtype=np.int32), used=count)
    return view


def _with(view: View, added: NDArray[np.int64], reads: SearchReads) -> View | None:
    """Append facts. None where the file does not give a vector for each: a damaged row is the file's to
    tell."""
    needed = view.used + len(added)
    matrix = view.matrix
    if needed > len(matrix):
        matrix = np.empty((max(needed, int(len(matrix) * GROWTH)), view.model.dims), np.float16)
        matrix[: view.used] = view.matrix[: view.used]
    inverses = np.empty(len(added), np.float32)
    for start in range(0, len(added), ROWS_A_READ):
        wanted = added[start : start + ROWS_A_READ]
        found, vectors = reads.embeddings(wanted)
        if len(found) != len(wanted):
            return None
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        if not (np.isfinite(lengths).all() and lengths.all()):
            return None
        matrix[view.used + start : view.used + start + len(wanted)] = vectors
        inverses[start : start + len(wanted)] = 1.0 / lengths
    counted, words = reads.lengths(added)
    if len(counted) != len(added):
        return None
    ids = np.concatenate((view.ids, added))
    order = np.argsort(ids, kind="stable")
    new_rows = np.arange(view.used, needed, dtype=np.int32)
    return replace(
        view,
        ids=ids[order],
        lengths=np.concatenate((view.lengths, words))[order],
        rows=np.concatenate((view.rows, new_rows))[order],
        inverses=np.concatenate((view.inverses, inverses))[order],
        matrix=matrix,
        used=needed,
    )
