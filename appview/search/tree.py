"""The tree of paths in memory, by the numbers that the file gives to paths: which are at and below others,
and what paths give to the facts at and below them.

A number may outlive its path here, until the file gives it to another one: no live fact is there meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from sys import getsizeof
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.tags import ancestors, inherit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from appview.memory.index_reads import PathRow
    from appview.memory.tags import PathTag

    Mask = NDArray[np.bool_]

NOBODY: Final = -1  # has this number
OBJECT_BYTES: Final = 130  # of a path besides its text: a string, a number and their place in a table


@dataclass(frozen=True, slots=True)
class Tree:
    """The paths of a space. `numbers` is shared by the trees that grow from each other and only ever grows;
    `parents` is of this one, 0 above the root."""

    numbers: dict[str, int]
    parents: NDArray[np.int32]
    characters: int  # of all paths

    @classmethod
    def of(cls, rows: Sequence[PathRow], *, size: int = 0) -> Tree:
        """Make the tree of all paths, with room for `size` numbers at least: facts that are gone may be at
        numbers that no path has any more."""
        parents = np.full(max(size, 1 + max(row.number for row in rows)), NOBODY, np.int32)
        parents[0] = 0
        for row in rows:
            parents[row.number] = row.parent
        numbers = {row.path: row.number for row in rows}
        return cls(numbers, parents, sum(map(len, numbers)))

    def grown(self, rows: Iterable[PathRow]) -> Tree | None:
        """Take in paths with all that is above them. None where one contradicts what is known: a number or a
        path has been given anew, and the tree must be read again."""
        size = len(self.parents)
        new = []
        for row in rows:
            is_taken = row.number < size and self.parents[row.number] != NOBODY
            # The table may have the row from a tree that nobody took.
            is_known = self.numbers.get(row.path, row.number) == row.number
            if not is_known or (is_taken and row.path not in self.numbers):
                return None
            if not is_taken:
                new.append(row)
        if not new:
            return self
        parents = np.full(max(size, 1 + max(row.number for row in new)), NOBODY, np.int32)
        parents[:size] = self.parents
        for row in new:
            parents[row.number] = row.parent
            self.numbers[row.path] = row.number
        return Tree(self.numbers, parents, self.characters + sum(len(row.path) for row in new))

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        held = len(self.numbers)
        return self.parents.nbytes + getsizeof(self.numbers) + held * OBJECT_BYTES + self.characters

    def covered(self, exact: Iterable[str], subtrees: Iterable[str]) -> Mask:
        """Mark, by number, some paths and those at and below others."""
        marks = np.zeros(len(self.parents), np.bool_)
        roots = self._known(subtrees)
        if roots:
            marks[roots] = True
            for above in self._ancestors():
                marks |= marks[above]
        marks[self._known(exact)] = True
        return marks

    def nearest(self, places: Mapping[str, int]) -> NDArray[np.int32]:
        """Tell, by number, the value of the nearest of some paths at or above; 0 where there is none."""
        found = np.zeros(len(self.parents), np.int32)
        for path, value in places.items():
            found[self._known([path])] = value
        for above in self._ancestors():
            np.copyto(found, found[above], where=found == 0)
        return found

    def _known(self, paths: Iterable[str]) -> list[int]:
        # The table may have grown since.
        size, numbers = len(self.parents), self.numbers
        return [number for path in paths if (number := numbers.get(path, size)) < size]

    def _ancestors(self) -> Iterable[NDArray[np.int32]]:
        """Give, for every number, the one above it, the second, the fourth above it and so on: what each
        round joins reaches twice as far as the one before."""
        above = np.maximum(self.parents, 0)
        while above.any():
            yield above
            above = above[above]


@dataclass(frozen=True, slots=True)
class PathTags:
    """What paths give at one version of their tags: for each key, by the paths that have a tag of it, the
    value that holds there and whether a record cannot set it. It holds for all below, up to the next such
    path."""

    version: int
    by_key: Mapping[str, Mapping[str, tuple[str, bool]]]

    @classmethod
    def of(cls, version: int, tags: Iterable[tuple[str, PathTag]]) -> PathTags:
        """Join the tags of all paths as `inherit` has it."""
        given: dict[str, dict[str, PathTag]] = defaultdict(dict)
        for path, tag in tags:
            given[tag.key][path] = tag
        by_key: dict[str, dict[str, tuple[str, bool]]] = {}
        for key, of_key in given.items():
            by_key[key] = {}
            for path in of_key:
                inherited = inherit([of_key[step]] for step in ancestors(path) if step in of_key)
                by_key[key][path] = inherited.values[key], key in inherited.protected
        return cls(version, by_key)

    def given(self, tree: Tree, key: str, values: Collection[str]) -> tuple[Mask, Mask] | None:
        """Mark, by number, the paths whose facts inherit one of the values, and those whose facts cannot set
        the key themselves. None where no path gives the key."""
        of_key = self.by_key.get(key)
        if not of_key:
            return None
        nearest = tree.nearest(
            {path: 1 + (value in values) + 2 * protected for path, (value, protected) in of_key.items()}
        )
        return (nearest == 2) | (nearest == 4), nearest > 2
