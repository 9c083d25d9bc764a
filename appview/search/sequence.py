"""Which facts stand beside each other: the facts of each path in the order of time, author and record key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from appview.search.view import View

    Mask = NDArray[np.bool_]

WINDOW: Final = 16  # ours, slots looked at on either side before all are, where some do not stand


@dataclass(frozen=True, slots=True)
class Sequence:
    """All slots, path by path; paths are in no order, and what is gone is anywhere among the live ones of its
    path. `places` is where each slot is."""

    order: NDArray[np.int32]
    places: NDArray[np.int32]

    @classmethod
    def of(cls, order: NDArray[np.int32]) -> Sequence:
        """Make it of slots in order."""
        places = np.empty(len(order), np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        return cls(order, places)

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.order.nbytes + self.places.nbytes

    def grown(self, beside: Mapping[int, tuple[int | None, int | None]]) -> Sequence:
        """Put new slots in, each with the ones right before and behind it at its path, new ones too."""
        following = {before: slot for slot, (before, _) in beside.items() if before is not None}
        runs: list[tuple[int, bool, list[int]]] = []
        for first, (before, _) in beside.items():
            if before in beside:
                continue
            run = [first]
            while (behind := following.get(run[-1])) is not None:
                run.append(behind)
            if before is not None:
                position = int(self.places[before]) + 1
            else:
                behind = beside[run[-1]][1]
                position = len(self.order) if behind is None else int(self.places[behind])
            runs.append((position, before is None, run))
        # Where one path ends and the next begins, what follows the last goes before what leads to the first.
        runs.sort(key=lambda run: run[:2])
        positions = [position for position, _, run in runs for _ in run]
        slots = np.array([slot for *_, run in runs for slot in run], np.int32)
        return Sequence.of(np.insert(self.order, positions, slots))


class Neighbours:
    """What stands around facts of a view, of the slots that `standing` marks, None for all of them."""

    def __init__(self, view: View, standing: Mask | None) -> None:
        self._view = view
        self._standing = standing
        self._line: NDArray[np.intp] | None = None  # places of the slots that stand, where that was needed

    def of(self, slots: NDArray[np.intp], reach: int, gap: int) -> dict[int, tuple[int, ...]]:
        """List, by id, what stands at the same path, the `reach` before and as many after, nearest first, no
        further away than `gap` microseconds."""
        view, standing = self._view, self._standing
        places = view.sequence.places[slots].astype(np.intp)
        if standing is None:
            beside, near = self._around(slots, places, places + 1, view.sequence.order, reach, gap)
            return self._listed(slots, beside, near)
        beside, near = self._around(slots, places, places + 1, view.sequence.order, WINDOW, gap)
        stand = near & standing[beside]
        for side in (slice(0, WINDOW), slice(WINDOW, None)):
            stand[:, side] &= np.cumsum(stand[:, side], axis=1) <= reach
        around = self._listed(slots, beside, stand)
        unclear = np.zeros(len(slots), np.bool_)
        for side in (slice(0, WINDOW), slice(WINDOW, None)):
            # What is gone is not always where its time says, so it does not tell that nothing near follows.
            goes_on = near[:, side][:, -1]
            if view.dead is not None:
                goes_on = goes_on | view.dead[beside[:, side][:, -1]]
            unclear |= goes_on & (np.count_nonzero(stand[:, side], axis=1) < reach)
        if unclear.any():
            around |= self._far(slots[unclear], reach, gap)
        return around

    def _far(self, slots: NDArray[np.intp], reach: int, gap: int) -> dict[int, tuple[int, ...]]:
        """The same among what stands alone, which takes a look at all slots."""
        sequence = self._view.sequence
        if self._line is None and self._standing is not None:
            self._line = np.flatnonzero(self._standing[sequence.order])
        line = self._line if self._line is not None else np.arange(len(sequence.order))
        first = np.searchsorted(line, sequence.places[slots])
        behind = np.searchsorted(line, sequence.places[slots], side="right")
        return self._listed(slots, *self._around(slots, first, behind, sequence.order[line], reach, gap))

    def _around(
        self,
        slots: NDArray[np.intp],
        first: NDArray[np.intp],
        behind: NDArray[np.intp],
        order: NDArray[np.int32],
        width: int,
        gap: int,
    ) -> tuple[NDArray[np.int32], Mask]:
        """Give a row for each slot: the `width` in `order` before the position `first` and as many from
        `behind` on, nearest first, and whether each is near. Further away than a live one that is not, none
        is."""
        view, steps = self._view, np.arange(width)
        positions = np.concatenate((first[:, None] - 1 - steps, behind[:, None] + steps), axis=1)
        near = (positions >= 0) & (positions < len(order))
        positions[~near] = 0
        beside = order[positions] if len(order) else np.zeros(positions.shape, np.int32)
        near &= view.paths[beside] == view.paths[slots][:, None]
        near &= np.abs(view.times[beside] - view.times[slots][:, None]) <= gap
        return beside, near

    def _listed(
        self, slots: NDArray[np.intp], beside: NDArray[np.int32], near: Mask
    ) -> dict[int, tuple[int, ...]]:
        ids = self._view.ids[beside[near]].tolist()
        ends = np.cumsum(np.count_nonzero(near, axis=1)).tolist()
        starts = [0, *ends][:-1]
        return {
            id_: tuple(ids[start:end])
            for id_, start, end in zip(self._view.ids[slots].tolist(), starts, ends, strict=True)
        }
