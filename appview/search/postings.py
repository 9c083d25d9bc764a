"""Where words occur, in memory: the words of a space by slot, the number a view gives a fact.

Two parts: a compact one, made from the whole file at once, and one that grows by what arrives after it. Both
hold a word's slots in ascending order. How often a word occurs in a fact's fields is kept as a number for
each combination that occurs, of which a space has a few hundred.

Labels, authors and attributes are kept like words, under keys that no word has (`label_key`, `author_key`,
`attribute_key`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

FIELDS: Final = 3  # text, tags, source
MAX_KINDS: Final = 1 << 16  # combinations that a posting's two bytes can name
_LABEL, _AUTHOR, _ATTRIBUTE = "\x00l", "\x00a", "\x00t"  # analysed words hold no control characters


class TooManyKinds(Exception):
    """A space with more combinations than an index can name; it is searched in its file."""


def label_key(label: str) -> str:
    """Name the facts of a label."""
    return _LABEL + label


def author_key(author: str) -> str:
    """Name the facts of an author."""
    return _AUTHOR + author


def attribute_key(key: str, value: str | None = None) -> str:
    """Name the facts that have an attribute of their own, with one value or with any. In the order of bytes a
    key comes before its values, and these before a longer key."""
    return _ATTRIBUTE + key if value is None else f"{_ATTRIBUTE}{key}\x00{value}"


class Kinds:
    """Numbers for combinations of (occurrences in text, in tags, in source). Only ever grows; one writer."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._table = np.zeros((64, FIELDS))

    def number(self, counts: tuple[int, int, int]) -> int:
        """Find or give the number of a combination; raise `TooManyKinds`."""
        known = self._numbers.get(counts)
        if known is None:
            known = len(self._numbers)
            if known >= MAX_KINDS:
                raise TooManyKinds
            if known == len(self._table):
                self._table = np.concatenate((self._table, np.zeros_like(self._table)))
            self._table[known] = counts
            self._numbers[counts] = known
        return known

    @property
    def table(self) -> NDArray[np.float64]:
        """The combinations by number; rows behind the last mean nothing."""
        return self._table

    def weights(self, of_fields: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weigh every combination, by number."""
        return np.asarray(self._table @ of_fields[:FIELDS])


@dataclass(frozen=True, slots=True)
class Postings:
    """A word's facts: ascending slots, the kind of each, and the most occurrences in one fact by field."""

    slots: NDArray[np.int32]
    kinds: NDArray[np.uint16]
    peak: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Segment:
    """The compact part: words in the order of their bytes, one after the other in `words`."""

    words: bytes
    word_starts: NDArray[np.int64]
    starts: NDArray[np.int64]
    slots: NDArray[np.int32]
    kinds: NDArray[np.uint16]
    peaks: NDArray[np.float32]

    @property
    def size(self) -> int:
        """Bytes in memory."""
        arrays = (self.word_starts, self.starts, self.slots, self.kinds, self.peaks)
        return len(self.words) + sum(part.nbytes for part in arrays)

    def find(self, word: str) -> Postings | None:
        """Find a word's facts."""
        key = word.encode("utf-8", "surrogatepass")
        low, high = 0, len(self.word_starts) - 1
        while low < high:
            middle = (low + high) // 2
            if self.words[self.word_starts[middle] : self.word_starts[middle + 1]] < key:
                low = middle + 1
            else:
                high = middle
        if low == len(self.word_starts) - 1:
            return None
        if self.words[self.word_starts[low] : self.word_starts[low + 1]] != key:
            return None
        start, end = int(self.starts[low]), int(self.starts[low + 1])
        return Postings(self.slots[start:end], self.kinds[start:end], self.peaks[low])


class SegmentBuilder:
    """Gathers words, in the order of their bytes, and makes a segment of them."""

    def __init__(self) -> None:
        self._words: list[bytes] = []
        self._counts: list[NDArray[np.int64]] = []
        self._slots: list[NDArray[np.int32]] = []
        self._kinds: list[NDArray[np.uint16]] = []

    def add(
        self,
        words: Iterable[str],
        counts: NDArray[np.int64],
        slots: NDArray[np.int32],
        kinds: NDArray[np.uint16],
    ) -> None:
        """Add words with `counts` postings each, one after the other."""
        self._words += [word.encode("utf-8", "surrogatepass") for word in words]
        self._counts.append(counts)
        self._slots.append(slots)
        self._kinds.append(kinds)

    def build(self, numbers: Kinds) -> Segment:
        """Make the segment; `numbers` are those of its kinds."""
        lengths = np.fromiter(map(len, self._words), np.int64, len(self._words))
        counts = np.concatenate(self._counts) if self._counts else np.empty(0, np.int64)
        starts = np.concatenate(([0], np.cumsum(counts)))
        kinds = np.concatenate(self._kinds) if self._kinds else np.empty(0, np.uint16)
        peaks = np.zeros((len(counts), FIELDS), np.float32)
        filled = np.flatnonzero(counts)
        if len(filled):
            for column, most in enumerate(numbers.table.T):
                peaks[filled, column] = np.maximum.reduceat(most[kinds], starts[filled])
        return Segment(
            b"".join(self._words),
            np.concatenate(([0], np.cumsum(lengths))),
            starts,
            np.concatenate(self._slots) if self._slots else np.empty(0, np.int32),
            kinds,
            peaks,
        )


@dataclass(slots=True)
class Tail:
    """The growing part: what arrived after the segment was made. One writer; a reader takes slots below the
    number it knows of."""

    words: dict[str, tuple[array[int], array[int]]] = field(default_factory=dict)

    def add(self, slot: int, kinds: Mapping[str, int]) -> None:
        """Add a fact's words under a slot above all before it."""
        words = self.words
        for word, kind in kinds.items():
            found = words.get(word)
            if found is None:
                found = words[word] = (array("i"), array("H"))
            # Kinds first: whoever sees a slot sees its kind.
            found[1].append(kind)
            found[0].append(slot)

    def find(self, word: str, below: int, numbers: Kinds) -> Postings | None:
        """Find a word's facts; `numbers` are those of the kinds."""
        found = self.words.get(word)
        if found is None:
            return None
        slots = np.frombuffer(found[0][:], np.int32)
        count = int(np.searchsorted(slots, below))
        kinds = np.frombuffer(found[1][:count], np.uint16)
        if not count:
            return None
        return Postings(slots[:count], kinds, numbers.table[kinds].max(axis=0).astype(np.float32))

    def after(self, first: int) -> Tail:
        """Copy what is at `first` or later."""
        kept: dict[str, tuple[array[int], array[int]]] = {}
        for word, (slots, kinds) in list(self.words.items()):
            start = bisect_left(slots, first)
            if start < len(slots):
                kept[word] = (slots[start:], kinds[start : len(slots)])
        return Tail(kept)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of the first `count` slots."""

    segment: Segment
    segment_count: int  # slots that the segment knows
    tail: Tail
    kinds: Kinds
    count: int

    def find(self, word: str) -> Postings | None:
        """Find a word's facts."""
        old, new = self.segment.find(word), self.tail.find(word, self.count, self.kinds)
        if old is None or new is None:
            return old if old is not None else new
        return Postings(
            np.concatenate((old.slots, new.slots)),
            np.concatenate((old.kinds, new.kinds)),
            np.maximum(old.peak, new.peak),
        )


def distinct(
    counts: NDArray[np.int64], slots: NDArray[np.int64], columns: NDArray[np.int64], kinds: Kinds
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint16]]:
    """Make postings of occurrences: `counts` occurrences a word, each with its slot and field; a slot below 0
    is left out. Answers postings a word, slots and kinds."""
    words = np.repeat(np.arange(len(counts)), counts)
    kept = slots >= 0
    words, slots, columns = words[kept], slots[kept], columns[kept]
    if not len(slots):
        return np.zeros(len(counts), np.int64), np.empty(0, np.int32), np.empty(0, np.uint16)
    first = np.empty(len(slots), np.bool_)
    first[0] = True
    np.not_equal(slots[1:], slots[:-1], out=first[1:])
    first[1:] |= words[1:] != words[:-1]
    starts = np.flatnonzero(first)
    # 21 bits a field: a record has fewer words.
    packed = np.add.reduceat(np.int64(1) << (21 * columns), starts)
    combinations, inverse = np.unique(packed, return_inverse=True)
    mask = (1 << 21) - 1
    numbers = [
        kinds.number((int(value & mask), int(value >> 21 & mask), int(value >> 42))) for value in combinations
    ]
    return (
        np.bincount(words[starts], minlength=len(counts)),
        slots[starts].astype(np.int32),
        np.array(numbers, np.uint16)[inverse],
    )


def document_kinds(fields: Iterable[str], kinds: Kinds) -> dict[str, int]:
    """Count the words of an analysed document's fields."""
    counts: dict[str, list[int]] = {}
    for number, text in enumerate(fields):
        for word in text.split():
            counts.setdefault(word, [0, 0, 0])[number] += 1
    return {word: kinds.number((count[0], count[1], count[2])) for word, count in counts.items()}
