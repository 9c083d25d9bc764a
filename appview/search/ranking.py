"""Choosing the best of many scores. Pure functions of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CANDIDATES: Final = 1_000  # ours, of one arm: how far equal scores may stretch a selection


def best(scores: NDArray[np.floating], count: int, limit: int = MAX_CANDIDATES) -> NDArray[np.intp]:
    """Give the positions of the `count` highest scores and of those equal to the last of them, at most
    `limit` (of equal ones the later positions, which are the newer facts); in no order."""
    if len(scores) <= count:
        return np.arange(len(scores))
    threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > threshold)
    equal = np.flatnonzero(scores == threshold)
    return np.concatenate((above, equal[-(limit - len(above)) :]))


def positions_in(
    ids: NDArray[np.integer[Any]], wanted: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Find `wanted` in the sorted `ids`: positions, and whether each is there (its position means nothing
    where it is not)."""
    if not len(ids):
        return np.zeros(len(wanted), np.intp), np.zeros(len(wanted), np.bool_)
    positions = np.searchsorted(ids, wanted)
    positions[positions == len(ids)] = 0
    return positions, ids[positions] == wanted
