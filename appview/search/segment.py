"""The compact part of a space's words: made from the whole file at once, never changed.

Words stand in the order of their bytes, and so do their facts: what begins alike is one piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from appview.search.chunks import EXACT_MARK
from appview.search.kinds import FIELD_BITS, FIELDS
from appview.search.ranking import positions_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from appview.search.kinds import Kinds

_AFTER: Final = b"\xff"  # behind every byte of UTF-8


@dataclass(frozen=True, slots=True)
class Postings:
    """A word's facts: ascending slots, the kind of each, and the most occurrences in one fact by field."""

    slots: NDArray[np.int32]
    kinds: NDArray[np.uint16]
    peak: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words in the order of their bytes, one after the other, and where the facts of each start."""

    words: bytes
    word_starts: NDArray[np.integer[Any]]
    starts: NDArray[np.integer[Any]]

    @classmethod
    def of(cls, words: Sequence[bytes], counts: NDArray[np.int64]) -> Vocabulary:
        """Put words together that have so many facts each."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        return cls(b"".join(words), _starts(lengths), _starts(counts))

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return len(self.words) + self.word_starts.nbytes + self.starts.nbytes

    def find(self, word: str) -> int | None:
        """Find a word's number."""
        key = _bytes(word)
        number = self._first(key)
        return number if number < len(self.starts) - 1 and self._word(number) == key else None

    def piece(self, number: int) -> slice:
        """Give where the facts of a word are."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def beginning(self, start: str) -> slice:
        """Give where the facts of all words are that start so."""
        key = _bytes(start)
        return slice(int(self.starts[self._first(key)]), int(self.starts[self._first(key + _AFTER)]))

    def _word(self, number: int) -> bytes:
        return self.words[self.word_starts[number] : self.word_starts[number + 1]]

    def _first(self, key: bytes) -> int:
        """Find the first word that is not before a key."""
        low, high = 0, len(self.starts) - 1
        while low < high:
            middle = (low + high) // 2
            if self._word(middle) < key:
                low = middle + 1
            else:
                high = middle
        return low


@dataclass(frozen=True, slots=True)
class Segment:
    """Words with the slots and kinds of their facts, and exact words with the slots of those facts whose
    kinds do not tell."""

    vocabulary: Vocabulary
    slots: NDArray[np.int32]
    kinds: NDArray[np.uint16]
    peaks: NDArray[np.float32]
    exact_vocabulary: Vocabulary
    exact_slots: NDArray[np.int32]

    @property
    def size(self) -> int:
        """Bytes in memory."""
        arrays = (self.slots, self.kinds, self.peaks, self.exact_slots)
        return self.vocabulary.size + self.exact_vocabulary.size + sum(part.nbytes for part in arrays)

    def find(self, word: str) -> Postings | None:
        """Find a word's facts."""
        number = self.vocabulary.find(word)
        if number is None:
            return None
        piece = self.vocabulary.piece(number)
        return Postings(self.slots[piece], self.kinds[piece], self.peaks[number])

    def exact(self, word: str, numbers: Kinds) -> tuple[NDArray[np.int32], ...]:
        """Find the slots of an exact word, in parts that share none; `numbers` are those of the kinds."""
        number, own = self.vocabulary.find(word), self.exact_vocabulary.find(word)
        parts = () if number is None else (self._standing(self.vocabulary.piece(number), numbers),)
        return parts if own is None else (*parts, self.exact_slots[self.exact_vocabulary.piece(own)])

    def exact_at_most(self, word: str) -> int:
        """Bound the number of slots of an exact word, without looking at them."""
        total = 0
        for vocabulary in (self.vocabulary, self.exact_vocabulary):
            number = vocabulary.find(word)
            if number is not None:
                piece = vocabulary.piece(number)
                total += piece.stop - piece.start
        return total

    def beginning(self, start: str) -> NDArray[np.int32]:
        """Find the slots of words that start so; a slot can come again."""
        return self.slots[self.vocabulary.beginning(start)]

    def exact_beginning(self, start: str, numbers: Kinds) -> tuple[NDArray[np.int32], ...]:
        """Find the slots of exact words that start so, in parts; a slot can come again."""
        own = self.exact_slots[self.exact_vocabulary.beginning(start)]
        return self._standing(self.vocabulary.beginning(start), numbers), own

    def _standing(self, piece: slice, numbers: Kinds) -> NDArray[np.int32]:
        return self.slots[piece][numbers.exact[self.kinds[piece]]]


@dataclass(frozen=True, slots=True)
class Part:
    """Some words, by number in the order of their bytes, with their occurrences: the word, slot and field of
    each, by word and slot. A slot below 0 means nothing."""

    words: Sequence[str]
    numbers: NDArray[np.int64]
    slots: NDArray[np.int64]
    columns: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        words: Sequence[str],
        counts: NDArray[np.int64],
        slots: NDArray[np.int64],
        columns: NDArray[np.int64],
    ) -> Part:
        """Make one of words with `counts` occurrences each, one after the other."""
        kept = slots >= 0
        return cls(words, np.repeat(np.arange(len(counts)), counts)[kept], slots[kept], columns[kept])

    def firsts(self) -> NDArray[np.intp]:
        """Find the first occurrence of each word in each slot."""
        if not len(self.slots):
            return np.empty(0, np.intp)
        changes = (np.diff(self.slots, prepend=-1) != 0) | (np.diff(self.numbers, prepend=-1) != 0)
        return np.flatnonzero(changes)


class SegmentBuilder:
    """Gathers words, in the order of their bytes, and makes a segment of them."""

    def __init__(self, numbers: Kinds) -> None:
        self._numbers = numbers
        self._words: list[bytes] = []
        self._counts: list[NDArray[np.int64]] = []
        self._slots: list[NDArray[np.int32]] = []
        self._kinds: list[NDArray[np.uint16]] = []
        self._exact_words: list[bytes] = []
        self._exact_counts: list[NDArray[np.int64]] = []
        self._exact_slots: list[NDArray[np.int32]] = []

    def add_plain(self, word: str, slots: NDArray[np.int64]) -> None:
        """Add a word of which nothing counts but in which facts it is."""
        kind = self._numbers.number((0, 0, 0))
        self._words.append(_bytes(word))
        self._counts.append(np.array([len(slots)]))
        self._slots.append(slots.astype(np.int32))
        self._kinds.append(np.full(len(slots), kind, np.uint16))

    def add(self, words: Part, exact: Part) -> None:
        """Add words, and the (marked) exact words of the same stretch of the alphabet."""
        firsts, exact_firsts = words.firsts(), exact.firsts()
        span = 1 + max([int(part.slots.max(initial=0)) for part in (words, exact)])
        held = words.numbers[firsts] * span + words.slots[firsts]
        # Where a fact holds an exact word as a word too, that one's kind tells.
        same = {word: number for number, word in enumerate(words.words)}
        like = np.array([same.get(word[len(EXACT_MARK) :], -1) for word in exact.words], np.int64)
        numbers, slots = exact.numbers[exact_firsts], exact.slots[exact_firsts]
        places, there = positions_in(held, np.where(like[numbers] >= 0, like[numbers] * span + slots, -1))
        standing = np.zeros(len(held), np.bool_)
        standing[places[there]] = True
        packed = np.add.reduceat(np.int64(1) << (FIELD_BITS * words.columns), firsts) if len(firsts) else held
        self._words += map(_bytes, words.words)
        self._counts.append(np.bincount(words.numbers[firsts], minlength=len(words.words)))
        self._slots.append(words.slots[firsts].astype(np.int32))
        self._kinds.append(self._numbers.numbers(packed, standing))
        counts = np.bincount(numbers[~there], minlength=len(exact.words))
        own = np.flatnonzero(counts)
        self._exact_words += [_bytes(exact.words[number][len(EXACT_MARK) :]) for number in own.tolist()]
        self._exact_counts.append(counts[own])
        self._exact_slots.append(slots[~there].astype(np.int32))

    def build(self) -> Segment:
        """Make the segment."""
        counts = np.concatenate(self._counts) if self._counts else np.empty(0, np.int64)
        vocabulary = Vocabulary.of(self._words, counts)
        kinds = np.concatenate(self._kinds) if self._kinds else np.empty(0, np.uint16)
        peaks = np.zeros((len(counts), FIELDS), np.float32)
        filled = np.flatnonzero(counts)
        if len(filled):
            for column, most in enumerate(self._numbers.table.T):
                peaks[filled, column] = np.maximum.reduceat(most[kinds], vocabulary.starts[filled])
        if len(kinds) and kinds.max() < 1 << 8:
            kinds = kinds.astype(np.uint8)  # most spaces have few, and one byte tells them apart
        exact_counts = np.concatenate(self._exact_counts) if self._exact_counts else np.empty(0, np.int64)
        return Segment(
            vocabulary,
            _joined(self._slots),
            kinds,
            peaks,
            Vocabulary.of(self._exact_words, exact_counts),
            _joined(self._exact_slots),
        )


def _bytes(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")


def _starts(counts: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    """Add up where each of several pieces starts, and where the last one ends."""
    starts = np.concatenate(([0], np.cumsum(counts)))
    return starts.astype(np.int32) if starts[-1] < 1 << 31 else starts


def _joined(parts: Iterable[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate([np.empty(0, np.int32), *parts])
