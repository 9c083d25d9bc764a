"""How a fact holds a word, as a number: how often in text, tags and source, and whether it also stands there
exactly so.

An exact word is found through the word of the same letters wherever a fact holds both, which is most often:
`kinds` then say so, and only exact words whose stem or whole is written otherwise take room of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from appview.search.chunks import EXACT_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

FIELDS: Final = 3  # text, tags, source
FIELD_BITS: Final = 20  # of a packed combination; a record has fewer words
MAX_KINDS: Final = 1 << 16  # combinations that a posting's two bytes can name


class TooManyKinds(Exception):
    """A space with more combinations than an index can name; it is searched in its file."""


class Kinds:
    """Numbers for combinations of (occurrences in text, in tags, in source, exactly so), of which a space
    has a few hundred. Only ever grows; one writer."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int, int, bool], int] = {}
        self._table = np.zeros((64, FIELDS))
        self._exact = np.zeros(64, np.bool_)

    def number(self, counts: tuple[int, int, int], exact: bool = False) -> int:
        """Find or give the number of a combination; raise `TooManyKinds`."""
        known = self._numbers.get((*counts, exact))
        if known is None:
            known = len(self._numbers)
            if known >= MAX_KINDS:
                raise TooManyKinds
            if known == len(self._table):
                self._table = np.concatenate((self._table, np.zeros_like(self._table)))
                self._exact = np.concatenate((self._exact, np.zeros_like(self._exact)))
            self._table[known] = counts
            self._exact[known] = exact
            self._numbers[(*counts, exact)] = known
        return known

    def numbers(self, packed: NDArray[np.int64], exact: NDArray[np.bool_]) -> NDArray[np.uint16]:
        """Number many combinations: the occurrences of each, `FIELD_BITS` a field, and whether exactly so."""
        combinations, inverse = np.unique(
            packed | exact.astype(np.int64) << (FIELDS * FIELD_BITS), return_inverse=True
        )
        mask = (1 << FIELD_BITS) - 1
        found = [
            self.number(
                (int(value) & mask, int(value) >> FIELD_BITS & mask, int(value) >> 2 * FIELD_BITS & mask),
                bool(int(value) >> FIELDS * FIELD_BITS),
            )
            for value in combinations
        ]
        return np.array(found, np.uint16)[inverse]

    @property
    def table(self) -> NDArray[np.float64]:
        """The occurrences by number; rows behind the last mean nothing."""
        return self._table

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Whether exactly so, by number; those behind the last mean nothing."""
        return self._exact

    def weights(self, of_fields: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weigh every combination, by number."""
        return np.asarray(self._table @ of_fields[:FIELDS])


def document_kinds(fields: Iterable[str], exact: str, kinds: Kinds) -> dict[str, int]:
    """Count the words of an analysed document; exact words that are not among them stand beside, marked."""
    counts: dict[str, list[int]] = {}
    for number, text in enumerate(fields):
        for word in text.split():
            counts.setdefault(word, [0, 0, 0])[number] += 1
    as_they_stand = {word[len(EXACT_MARK) :] for word in exact.split()}
    found = {
        word: kinds.number((count[0], count[1], count[2]), word in as_they_stand)
        for word, count in counts.items()
    }
    plain = kinds.number((0, 0, 0))
    found.update((EXACT_MARK + word, plain) for word in as_they_stand - counts.keys() if word)
    return found
