"""Clusters of vectors: which vectors of a large space a question has to be measured against.

Every vector belongs to the nearest of some centres (spherical k-means on a sample). A question is measured
against the vectors of the clusters whose centres are nearest, in full precision, until `reach` vectors have
been seen. How many that must be is measured: questions like those that are asked are answered exactly and by
clusters, and `reach` is the least with which hardly any of the nearest is missed. Where none is small enough
the space has no clusters, and every vector is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numkong
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MIN_CLUSTERED: Final = 20_000  # vectors; fewer are all measured in about a millisecond
SAMPLE_A_CENTRE: Final = 64  # vectors that centres are made from
ROUNDS: Final = 8  # of k-means; more moves the centres little
BLOCK_ROWS: Final = 2_048  # picked out and measured at once: they stay in the processor's cache
PROBES: Final = 48  # questions that recall is measured with
PROBED_NEIGHBOURS: Final = 10
MIN_RECALL: Final = 0.99  # of the nearest ten; what is promised is 0.98
SHARES: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.25)  # of all vectors, tried as `reach`
MIN_REACH: Final = 2_000
PROBE_NOISE: Final = 0.5  # length of the noise added to a stored vector of length 1 to make a question of it


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of the first `count` slots: `members` lists them cluster by cluster."""

    centres: NDArray[np.float32]
    members: NDArray[np.int32]
    starts: NDArray[np.int64]
    reach: int
    recall: float

    @property
    def count(self) -> int:
        """Slots that are in a cluster."""
        return len(self.members)

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return int(self.centres.nbytes + self.members.nbytes + self.starts.nbytes)

    def near(
        self, unit: NDArray[np.float32], wanted: int, mask: NDArray[np.bool_] | None
    ) -> NDArray[np.int32]:
        """List slots (of those in `mask`) in the clusters nearest to a vector, at least `wanted` where there
        are so many."""
        order = np.argsort(-(self.centres @ unit), kind="stable")
        ends = np.cumsum(np.diff(self.starts)[order])
        found: list[NDArray[np.int32]] = []
        first, missing, step = 0, wanted, wanted
        # A few clusters at a time, ever more where the mask leaves little of them.
        while first < len(order) and missing > 0:
            done = int(ends[first - 1]) if first else 0
            last = min(int(np.searchsorted(ends, done + step)) + 1, len(order))
            chosen = order[first:last]
            slots = np.concatenate([self.members[self.starts[one] : self.starts[one + 1]] for one in chosen])
            kept = np.ones(len(slots), np.bool_) if mask is None else mask[slots]
            inside = np.append(0, np.cumsum(kept))[ends[first:last] - done]  # up to the end of each
            enough = int(np.searchsorted(inside, missing)) + 1
            if enough < len(chosen):
                end = int(ends[first + enough - 1]) - done
                slots, kept = slots[:end], kept[:end]
            found.append(slots[kept])
            missing -= len(found[-1])
            first, step = last, 2 * step
        return np.concatenate(found) if found else np.empty(0, np.int32)


def dot_products(vector: NDArray[np.float16], matrix: NDArray[np.float16]) -> NDArray[np.float32]:
    """Multiply a vector with every row."""
    if not len(matrix):
        return np.empty(0, np.float32)
    found = numkong.cdist(vector.reshape(1, -1), matrix, metric="dot")
    return np.asarray(found, dtype=np.float32).reshape(-1)


def picked_products(
    vector: NDArray[np.float16],
    matrix: NDArray[np.float16],
    rows: NDArray[np.integer],
    over: Callable[[], bool] | None = None,
) -> NDArray[np.float32]:
    """Multiply a vector with some rows; once `over` tells so, with no more of them: the answer is shorter."""
    parts = []
    for start in range(0, len(rows), BLOCK_ROWS):
        if over is not None and over():
            break
        parts.append(dot_products(vector, np.take(matrix, rows[start : start + BLOCK_ROWS], axis=0)))
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def make_clusters(
    matrix: NDArray[np.float16],
    inverses: NDArray[np.float32],
    asked: NDArray[np.float16] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Clusters | None:
    """Make clusters of all rows; None where they would miss too much. `asked` are questions of late; `check`
    is called often, and what it raises ends the work."""
    count = len(matrix)
    if count < MIN_CLUSTERED:
        return None
    chance = np.random.default_rng(0)
    centres = _centres(matrix, inverses, chance, check)
    nearest = np.empty(count, np.int32)
    for start in range(0, count, BLOCK_ROWS):
        check()
        nearest[start : start + BLOCK_ROWS] = _assign(
            _unit(matrix, inverses, slice(start, start + BLOCK_ROWS)), centres
        )
    members = np.argsort(nearest, kind="stable").astype(np.int32)
    starts = np.searchsorted(nearest[members], np.arange(len(centres) + 1)).astype(np.int64)
    clusters = Clusters(centres, members, starts, 0, 0.0)
    return _measured(clusters, matrix, inverses, _questions(matrix, inverses, asked, chance), check)


def _centres(
    matrix: NDArray[np.float16],
    inverses: NDArray[np.float32],
    chance: np.random.Generator,
    check: Callable[[], None],
) -> NDArray[np.float32]:
    count = len(matrix)
    wanted = int(count**0.5)
    picked = np.sort(chance.choice(count, min(count, wanted * SAMPLE_A_CENTRE), replace=False))
    sample = _unit(matrix, inverses, picked)
    centres = sample[chance.choice(len(sample), wanted, replace=False)]
    for _ in range(ROUNDS):
        nearest = np.empty(len(sample), np.int64)
        for start in range(0, len(sample), BLOCK_ROWS):
            check()
            nearest[start : start + BLOCK_ROWS] = _assign(sample[start : start + BLOCK_ROWS], centres)
        order = np.argsort(nearest, kind="stable")
        firsts = np.searchsorted(nearest[order], np.arange(wanted + 1))
        filled = np.flatnonzero(np.diff(firsts))
        moved = sample[chance.choice(len(sample), wanted)]  # where a centre lost all its vectors
        moved[filled] = np.add.reduceat(sample[order], firsts[filled], axis=0)
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        centres = (moved / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return centres


def _measured(
    clusters: Clusters,
    matrix: NDArray[np.float16],
    inverses: NDArray[np.float32],
    questions: NDArray[np.float16],
    check: Callable[[], None],
) -> Clusters | None:
    exact = []
    for question in questions:
        check()
        exact.append(_top(dot_products(question, matrix) * inverses))
    for share in SHARES:
        reach = max(MIN_REACH, int(share * len(matrix)))
        found = 0
        for question, wanted in zip(questions, exact, strict=True):
            check()
            slots = clusters.near(question.astype(np.float32), reach, None)
            scores = picked_products(question, matrix, slots) * inverses[slots]
            found += len(np.intersect1d(slots[_top(scores)], wanted))
        recall = found / max(1, sum(map(len, exact)))
        if recall >= MIN_RECALL:
            return Clusters(clusters.centres, clusters.members, clusters.starts, reach, recall)
    return None


def _questions(
    matrix: NDArray[np.float16],
    inverses: NDArray[np.float32],
    asked: NDArray[np.float16] | None,
    chance: np.random.Generator,
) -> NDArray[np.float16]:
    """Questions of late, and as many stored vectors with noise as are missing."""
    units = _unit(matrix, inverses, chance.choice(len(matrix), PROBES))
    noise = chance.standard_normal(units.shape).astype(np.float32)
    noise *= PROBE_NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    made: NDArray[np.float16] = (units + noise).astype(np.float16)
    if asked is None or not len(asked):
        return made
    questions: NDArray[np.float16] = np.concatenate((asked, made))[:PROBES]
    return questions


def _assign(units: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.intp]:
    found: NDArray[np.intp] = np.argmax(units @ centres.T, axis=1)
    return found


def _unit(
    matrix: NDArray[np.float16], inverses: NDArray[np.float32], rows: NDArray[np.integer] | slice
) -> NDArray[np.float32]:
    units: NDArray[np.float32] = matrix[rows].astype(np.float32) * inverses[rows][:, None]
    return units


def _top(scores: NDArray[np.float32]) -> NDArray[np.intp]:
    count = min(PROBED_NEIGHBOURS, len(scores))
    return np.argpartition(-scores, count - 1)[:count]
