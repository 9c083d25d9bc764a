"""Where words occur, in memory: the words of a space by slot, the number a view gives a fact.

Two parts: a compact one, made from the whole file at once (`segment`), and one that grows by what arrives
after it. Both hold a word's slots in ascending order. How a fact holds a word is kept as a number (`kinds`).

Labels, authors and attributes are kept like words, under keys that no word has (`label_key`, `author_key`,
`attribute_key`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.search.chunks import EXACT_MARK
from appview.search.segment import Postings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from appview.search.kinds import Kinds
    from appview.search.segment import Segment

_LABEL, _AUTHOR, _ATTRIBUTE = "\x00l", "\x00a", "\x00t"  # analysed words hold no control characters
_GROUP: Final = 2  # characters; no beginning that is asked for is shorter


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


@dataclass(slots=True)
class Tail:
    """The growing part: what arrived after the segment was made. One writer; a reader takes slots below the
    number it knows of. Exact words that are no words of their fact are marked."""

    words: dict[str, tuple[array[int], array[int]]] = field(default_factory=dict)
    _groups: dict[str, list[str]] = field(init=False, default_factory=dict)  # words by what they begin with

    def __post_init__(self) -> None:
        for word in self.words:
            self._group(word)

    def add(self, slot: int, kinds: Mapping[str, int]) -> None:
        """Add a fact's words under a slot above all before it."""
        words = self.words
        for word, kind in kinds.items():
            found = words.get(word)
            if found is None:
                found = words[word] = (array("i"), array("H"))
                self._group(word)
            # Kinds first: whoever sees a slot sees its kind.
            found[1].append(kind)
            found[0].append(slot)

    def find(self, word: str, below: int, numbers: Kinds) -> Postings | None:
        """Find a word's facts; `numbers` are those of the kinds."""
        slots, kinds = self._facts(word, below)
        if not len(slots):
            return None
        return Postings(slots, kinds, numbers.table[kinds].max(axis=0).astype(np.float32))

    def exact(self, word: str, below: int, numbers: Kinds) -> Iterator[NDArray[np.int32]]:
        """Find the slots of an exact word, in parts that share none; `numbers` are those of the kinds."""
        slots, kinds = self._facts(word, below)
        yield slots[numbers.exact[kinds]]
        yield self._facts(EXACT_MARK + word, below)[0]

    def exact_at_most(self, word: str) -> int:
        """Bound the number of slots of an exact word."""
        return sum(len(self.words[key][0]) for key in (word, EXACT_MARK + word) if key in self.words)

    def beginning(self, start: str, below: int) -> Iterator[NDArray[np.int32]]:
        """Find the slots of words that start so, a part each."""
        for word in self._beginning(start):
            yield self._facts(word, below)[0]

    def exact_beginning(self, start: str, below: int, numbers: Kinds) -> Iterator[NDArray[np.int32]]:
        """Find the slots of exact words that start so, in parts; `numbers` are those of the kinds."""
        for word in self._beginning(start):
            slots, kinds = self._facts(word, below)
            yield slots[numbers.exact[kinds]]
        yield from self.beginning(EXACT_MARK + start, below)

    def after(self, first: int) -> Tail:
        """Copy what is at `first` or later."""
        kept: dict[str, tuple[array[int], array[int]]] = {}
        for word, (slots, kinds) in list(self.words.items()):
            start = bisect_left(slots, first)
            if start < len(slots):
                kept[word] = (slots[start:], kinds[start : len(slots)])
        return Tail(kept)

    def _group(self, word: str) -> None:
        self._groups.setdefault(word[:_GROUP], []).append(word)

    def _beginning(self, start: str) -> list[str]:
        if len(start) >= _GROUP:
            return [word for word in self._groups.get(start[:_GROUP], ()) if word.startswith(start)]
        return [word for word in list(self.words) if word.startswith(start)]

    def _facts(self, word: str, below: int) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        found = self.words.get(word)
        if found is None:
            return np.empty(0, np.int32), np.empty(0, np.uint16)
        slots = np.frombuffer(found[0][:], np.int32)
        count = int(np.searchsorted(slots, below))
        return slots[:count], np.frombuffer(found[1][:count], np.uint16)


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

    def exact(self, word: str) -> NDArray[np.int32]:
        """Find the slots of an exact word, ascending."""
        parts = [*self.segment.exact(word, self.kinds), *self.tail.exact(word, self.count, self.kinds)]
        filled = [part for part in parts if len(part)]
        return np.sort(np.concatenate(filled)) if len(filled) > 1 else (filled or parts)[0]

    def exact_at_most(self, word: str) -> int:
        """Bound the number of slots of an exact word, without looking at them."""
        return self.segment.exact_at_most(word) + self.tail.exact_at_most(word)

    def beginning(self, start: str) -> list[NDArray[np.int32]]:
        """Find the slots of words that start so, and, where `start` is marked, of exact words: in parts; a
        slot can come again."""
        if start.startswith(EXACT_MARK):
            start = start[len(EXACT_MARK) :]
            late = self.tail.exact_beginning(start, self.count, self.kinds)
            return [*self.segment.exact_beginning(start, self.kinds), *late]
        return [self.segment.beginning(start), *self.tail.beginning(start, self.count)]
