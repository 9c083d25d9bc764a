"""What one scope shows of a space: the facts that a question is answered from, and their statistics.

A corpus is good for exactly one scope and one data version. Those of restricted scopes are kept, because
finding out what a scope shows, and counting how often it holds a common word, costs more than a question.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np

from appview.memory.errors import IndexDamaged
from appview.memory.scope import Scope, Subtree
from appview.search.ranking import positions_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appview.memory.search_reads import Postings, SearchReads
    from appview.memory.store import SpaceStore
    from appview.search.own_words import OwnWords

MAX_CACHE_BYTES: Final = 128 << 20  # ours, for all spaces of a process: 80 scopes of 100,000 facts
MAX_COUNTED_WORDS: Final = 10_000  # ours, of one corpus; about 1 MB
MAX_KEPT_OCCURRENCES: Final = 250_000  # ours, of one corpus; 4 MB
MAX_SPREAD: Final = 8  # ids a fact up to which a table of positions beats searching
_ALL: Final = Subtree("/")


@dataclass(slots=True)
class Corpus:
    """The facts that statistics are of: sorted ids and their numbers of words. `hidden` is how many more the
    file holds, `counts` how many facts hold a word, as far as known, `places` where some words are, `own`
    where all are, once they were read from the facts. `is_lost` tells that the file's index is damaged or
    lacks facts: then only these say what words there are."""

    ids: NDArray[np.int64]
    lengths: NDArray[np.float32]
    hidden: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    places: OrderedDict[str, Postings] = field(default_factory=OrderedDict)
    own: OwnWords | None = None
    is_lost: bool = False
    _table: NDArray[np.int32] | None = None
    _kept: int = 0
    _lock: Lock = field(default_factory=Lock)

    @property
    def size(self) -> int:
        """Bytes in memory, once everything is there but what is known of words from the file's index."""
        own = self.own.size if self.own is not None else 0
        return int(self.ids.nbytes + self.lengths.nbytes + self._span * 4) + own

    @property
    def words(self) -> int:
        """How many words its facts have."""
        return int(self.lengths.sum(dtype=np.float64))

    @property
    def with_words(self) -> NDArray[np.int64]:
        """The facts that have any."""
        return self.ids[self.lengths > 0.0]

    def positions(self, wanted: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Find ids: positions, and whether each is there (its position means nothing where it is not)."""
        if len(wanted) < len(self.ids) // 64 or self._span > MAX_SPREAD * len(self.ids):
            return positions_in(self.ids, wanted)
        table = self._table
        if table is None:
            table = np.full(self._span, -1, np.int32)
            table[self.ids - self.ids[0]] = np.arange(len(self.ids), dtype=np.int32)
            self._table = table
        offsets = wanted - self.ids[0]
        there = (offsets >= 0) & (offsets < len(table))
        positions = table[np.where(there, offsets, 0)].astype(np.intp)
        there &= positions >= 0
        return positions, there

    def keep(self, word: str, facts: int, postings: Postings) -> None:
        """Remember how often a word is held, and where, as far as there is room."""
        with self._lock:
            if len(self.counts) < MAX_COUNTED_WORDS:
                self.counts[word] = facts
            if word in self.places or len(postings.ids) > MAX_KEPT_OCCURRENCES // 4:
                return
            self.places[word] = postings
            self._kept += len(postings.ids)
            while self._kept > MAX_KEPT_OCCURRENCES:
                _, gone = self.places.popitem(last=False)
                self._kept -= len(gone.ids)

    @property
    def _span(self) -> int:
        return int(self.ids[-1] - self.ids[0]) + 1 if len(self.ids) else 0


def read_corpus(reads: SearchReads, scope: Scope) -> Corpus:
    """Find out what a scope shows."""
    if _ALL in scope.allow:
        # What is denied is mostly little, and found by its index; what is left is nearly everything.
        ids = reads.every_id()
        if scope.deny:
            denied = reads.ids(Scope(allow=scope.deny))
            ids = ids[~np.isin(ids, denied, assume_unique=True)]
    else:
        ids = reads.ids(scope)
    hidden = reads.count() - len(ids)
    try:
        known, lengths = reads.lengths(ids if hidden else None)
    except IndexDamaged:
        return Corpus(ids, np.zeros(len(ids), np.float32), hidden, is_lost=True)
    positions, there = positions_in(known, ids)
    lengths = np.append(lengths, np.float32(0.0))[np.where(there, positions, -1)]
    return Corpus(ids, lengths, hidden, is_lost=not there.all())


class CorpusCache:
    """The corpora of restricted scopes, of open stores. Safe across threads; forgets a store that is gone,
    what is of an older version, and what was asked for longest ago where all together are too large."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._stores: WeakKeyDictionary[SpaceStore, OrderedDict[Scope, tuple[int, Corpus]]] = (
            WeakKeyDictionary()
        )

    @property
    def size(self) -> int:
        """Bytes of all corpora."""
        with self._lock:
            return self._size()

    def corpus(self, store: SpaceStore, reads: SearchReads, scope: Scope) -> Corpus:
        """Give what a scope shows in the reader's version."""
        if scope.is_everything:
            return read_corpus(reads, scope)
        with self._lock:
            kept = self._stores.setdefault(store, OrderedDict())
            found = kept.get(scope)
            if found is not None and found[0] == reads.data_version:
                kept.move_to_end(scope)
                self._forget(kept)  # what is known of a corpus grows
                return found[1]
        corpus = read_corpus(reads, scope)
        with self._lock:
            newest = max([reads.data_version, *(version for version, _ in kept.values())])
            if reads.data_version == newest:
                for other in [other for other, (version, _) in kept.items() if version < newest]:
                    del kept[other]
                kept[scope] = (newest, corpus)
                kept.move_to_end(scope)
                self._forget(kept)
        return corpus

    def _forget(self, kept: OrderedDict[Scope, tuple[int, Corpus]]) -> None:
        while kept and self._size() > self._max_bytes:
            others = [each for each in self._stores.values() if each and each is not kept]
            (others[0] if others else kept).popitem(last=False)

    def _size(self) -> int:
        return sum(corpus.size for kept in self._stores.values() for _, corpus in kept.values())
