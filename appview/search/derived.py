"""Indexes in memory: derived from a space's file, and never more than that.

A `View` is one state of a space, good for exactly the data version it was made from. `ViewCache` brings a
view up to a reader's version by what has come and gone, and gives none where it cannot: then the reader uses
the file. A missing view costs time, never an answer.

Small spaces get their view with the first question. Larger ones are built aside (`build`, in a unit of work
of its own) while the file answers; so is a new compact part where much has arrived since the last was made.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

import numpy as np

from appview.memory.errors import IndexDamaged
from appview.search.clusters import PROBES, make_clusters
from appview.search.heap import making_much
from appview.search.kinds import Kinds, TooManyKinds, document_kinds
from appview.search.postings import Tail, Words, author_key, label_key
from appview.search.ranking import positions_in
from appview.search.reading import (
    attribute_keys,
    grown_sequence,
    grown_tree,
    read_keys,
    read_path_tags,
    read_sequence,
)
from appview.search.scopes import CoveredSlots
from appview.search.segment import Part, SegmentBuilder
from appview.search.tree import Tree
from appview.search.view import View, grown

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from appview.memory.analyser import Analyser
    from appview.memory.index_reads import Occurrences
    from appview.memory.search_reads import SearchReads
    from appview.memory.store import SpaceStore

MAX_CACHE_BYTES: Final = 2 << 30  # ours, for all spaces of a process: 1.8 million memories of 384 dims
ROWS_A_READ: Final = 4_096  # vectors read from the file at once
MAX_INLINE: Final = 2_000  # facts indexed while a question waits, in about 60 ms
MAX_FOLLOWED: Final = 500  # changes followed while a question waits, in about 60 ms; more are followed aside
MAX_WAIT_SECONDS: Final = 0.5  # for another thread that brings a view up to date; the file takes as long
MAX_DEAD_SHARE: Final = 0.25  # of a view's slots, before it is made anew
MAX_TAIL_SHARE: Final = 0.2  # of a view's slots that are in its growing part
MIN_TAIL: Final = 10_000  # slots up to which the growing part is never too large
LEAST_BYTES: Final = 64  # that a fact takes besides its vector, to tell beforehand what can never fit
RETRY_VERSIONS: Final = 100  # data versions after which a build that failed is tried again


class _Unusable(Exception):
    """The file does not give what an index needs: a damaged row is the file's to tell."""


class Abandoned(Exception):
    """A build that nobody waits for any more."""


@dataclass(slots=True)
class _Place:
    """What is kept of a store. `lock` is held by whoever changes the view."""

    lock: Lock = field(default_factory=Lock)
    view: View | None = None
    building: bool = False
    behind: bool = False  # by more than can be followed while a question waits
    seen: int = 0  # data version of the last reader
    refused_at: int | None = None  # data version that no view could be built of
    asked: deque[bytes] = field(default_factory=lambda: deque(maxlen=PROBES))


class ViewCache:
    """The views of open stores. Safe across threads; forgets a store that is gone, and the views that were
    asked for longest ago where all together are too large.

    `analysis` is that of the stores' files, but for those that are still of another version.
    """

    def __init__(self, analysis: Analyser, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._analysis = analysis
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._places: WeakKeyDictionary[SpaceStore, _Place] = WeakKeyDictionary()
        self._used: OrderedDict[ref[SpaceStore], None] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes of all views."""
        with self._lock:
            return sum(place.view.size for place in self._places.values() if place.view is not None)

    def view(self, store: SpaceStore, reads: SearchReads) -> View | None:
        """Give the view of the reader's version, made or brought up to date where that takes a moment."""
        if reads.index is None:
            return None
        place = self._place(store)
        if not place.lock.acquire(timeout=MAX_WAIT_SECONDS):
            return None  # somebody is bringing it up to date, which takes longer than reading the file
        try:
            view = self._current(store, place, reads, MAX_FOLLOWED)
        finally:
            place.lock.release()
        return view

    def is_ahead(self, store: SpaceStore, reads: SearchReads) -> bool:
        """Tell whether another reader saw a newer state: who begins anew gets a view."""
        view = self._place(store).view
        return view is not None and view.version > reads.data_version

    def wants_building(self, store: SpaceStore) -> bool:
        """Tell whether a build would help, and answer yes to one caller until it says `ended`."""
        place = self._place(store)
        with place.lock:
            if place.building or not self._is_due(place):
                return False
            place.building = True
            return True

    def build(self, store: SpaceStore, reads: SearchReads, check: Callable[[], None] = lambda: None) -> None:
        """Make a view, or a new compact part of the one there is, from a reader's snapshot. `check` is called
        often; what it raises ends the work, and everything is as before."""
        place = self._place(store)
        try:
            with making_much():
                self._build(store, place, reads, check)
        except (_Unusable, TooManyKinds, IndexDamaged):
            place.refused_at = reads.data_version

    def _build(self, store: SpaceStore, place: _Place, reads: SearchReads, check: Callable[[], None]) -> None:
        if reads.index is None:
            return
        with place.lock:
            current = self._current(store, place, reads, None)
            if current is None and place.view is not None:
                return  # a reader was faster; the next question asks for a build again
        asked = [vector for vector in list(place.asked) if len(vector) == 2 * reads.index.key.dims]
        if current is None or current.dead_count > MAX_DEAD_SHARE * current.count:
            made = _made(reads, self._max_bytes, check)
            current = None
        else:
            made = current
        if made is None:
            place.refused_at = reads.data_version
            return
        place.behind = False
        if made is current and not self._is_due(place):
            return
        if made is current:
            words = _words(reads, made.ids, made.words.kinds, check)
            made = replace(made, words=words)
        questions = np.frombuffer(b"".join(asked), np.float16).reshape(len(asked), reads.index.key.dims)
        made = replace(made, clusters=make_clusters(made.matrix, made.inverses, questions, check))
        with place.lock:
            newest = place.view
            if newest is not None and newest.analysis != made.analysis:
                return  # the words have been made anew meanwhile
            if newest is not None and current is not None and made.matrix is current.matrix:
                made = _exchanged(newest, made)
            place.view = made
            place.refused_at = None
        self._keep(store)

    def ended(self, store: SpaceStore) -> None:
        """Say that the build that `wants_building` asked for has ended, whether it began or not."""
        self._place(store).building = False

    def asked(self, store: SpaceStore, vector: NDArray[np.float16]) -> None:
        """Remember a question: recall is measured with what is asked."""
        self._place(store).asked.append(vector.tobytes())

    def forget(self, store: SpaceStore) -> None:
        """Drop the view of a store; the next question makes it anew."""
        with self._lock:
            self._places.pop(store, None)

    def _place(self, store: SpaceStore) -> _Place:
        with self._lock:
            return self._places.setdefault(store, _Place())

    @staticmethod
    def _is_due(place: _Place) -> bool:
        view = place.view
        if view is None:
            return place.refused_at is None or place.seen - place.refused_at > RETRY_VERSIONS
        late = view.count - view.words.segment_count
        return (
            place.behind
            or late > max(MIN_TAIL, MAX_TAIL_SHARE * view.count)
            or (view.dead_count > MAX_DEAD_SHARE * view.count and view.count > MAX_INLINE)
        )

    def _current(
        self, store: SpaceStore, place: _Place, reads: SearchReads, limit: int | None
    ) -> View | None:
        """Bring the view to the reader's version by following at most `limit` changes. The lock is held."""
        view = place.view
        place.seen = max(place.seen, reads.data_version)
        if (
            view is not None
            and reads.index is not None
            and (view.model != reads.index.key or view.analysis != reads.analysis)
        ):
            view = place.view = None
        if view is not None and view.version > reads.data_version:
            return None  # another reader saw a newer state
        if view is not None and view.version == reads.data_version:
            self._touch(store)
            return view
        try:
            if view is not None:
                place.behind = limit is not None and _is_far(view, reads, limit)
                if place.behind:
                    return None
                view = _followed(view, reads, self._analysis)
            if view is None and not reads.are_more_than(MAX_INLINE):
                view = _made(reads, self._max_bytes, lambda: None)
        except (_Unusable, TooManyKinds, IndexDamaged):
            view, place.refused_at = None, reads.data_version
        place.view = view
        if view is not None:
            self._keep(store)
        return view

    def _touch(self, store: SpaceStore) -> None:
        with self._lock:
            self._used[ref(store)] = None
            self._used.move_to_end(ref(store))

    def _keep(self, store: SpaceStore) -> None:
        self._touch(store)
        with self._lock:
            total = sum(place.view.size for place in self._places.values() if place.view is not None)
            for oldest in list(self._used):
                target = oldest()
                if target is None:
                    del self._used[oldest]
                elif total > self._max_bytes and target is not store:
                    del self._used[oldest]
                    place = self._places.get(target)
                    if place is not None and place.view is not None:
                        total -= place.view.size
                        place.view = None
            place = self._places.get(store)
            if total > self._max_bytes and place is not None:
                place.view, place.refused_at = None, place.seen


def _made(reads: SearchReads, max_bytes: int, check: Callable[[], None]) -> View | None:
    """Make a view of the whole file. None where it would not fit."""
    if reads.index is None:
        return None
    key, bulk = reads.index.key, reads.bulk
    columns = bulk.columns()
    count = len(columns.ids)
    if count * (2 * key.dims + LEAST_BYTES) > max_bytes:
        return None
    sequence = read_sequence(reads, columns.ids)
    if sequence is None:
        raise _Unusable
    matrix = np.empty((count, key.dims), np.float16)
    inverses = np.empty(count, np.float32)
    lengths = np.empty(count, np.float32)
    for start in range(0, count, ROWS_A_READ):
        check()
        rows = slice(start, min(start + ROWS_A_READ, count))
        matrix[rows], inverses[rows], lengths[rows] = _measures(reads, columns.ids[rows])
    return View(
        version=reads.data_version,
        change=bulk.last_change(),
        model=key,
        analysis=reads.analysis,
        ids=columns.ids,
        lengths=lengths,
        paths=columns.paths,
        times=columns.times,
        inverses=inverses,
        matrix=matrix,
        words=_words(reads, columns.ids, Kinds(), check),
        tree=Tree.of(bulk.tree()),
        path_tags=read_path_tags(reads),
        sequence=sequence,
        covered=CoveredSlots(),
    )


def _words(reads: SearchReads, ids: NDArray[np.int64], kinds: Kinds, check: Callable[[], None]) -> Words:
    """Read the compact part of the words of facts, whose positions are their slots."""
    builder = SegmentBuilder(kinds)
    for key, found in read_keys(reads, check):
        there = _slots(ids, found)
        builder.add_plain(key, there[there >= 0])
    for words, exact in reads.bulk.occurrences():
        check()
        builder.add(_part(ids, words), _part(ids, exact))
    return Words(builder.build(), len(ids), Tail(), kinds, len(ids))


def _part(ids: NDArray[np.int64], words: Occurrences) -> Part:
    if int(words.counts.sum()) != len(words.ids):
        raise _Unusable
    return Part.of(words.terms, words.counts, _slots(ids, words.ids), words.columns)


def _followed(view: View, reads: SearchReads, analysis: Analyser) -> View | None:
    """Bring a view to a reader's version. None where it is cheaper or necessary to make it anew."""
    changed = reads.bulk.changed_since(view.change)
    if changed is None:
        return None
    bulk = reads.bulk
    last = bulk.last_change()
    live = bulk.live_among(changed)
    gone = np.setdiff1d(changed, live, assume_unique=True)
    if view.count and len(live) and live[0] <= view.ids[-1]:
        return None  # an old fact came back to life or changed: slots would not ascend with ids
    view = _without(view, gone)
    if view.dead_count > MAX_DEAD_SHARE * view.count and view.count <= MAX_INLINE:
        return None
    view = replace(view, path_tags=read_path_tags(reads, view.path_tags))
    if len(live):
        view = _with(view, live, reads, analysis)
    if not reads.are_so_many(view.live_count):
        raise _Unusable
    return replace(view, version=reads.data_version, change=last)


def _is_far(view: View, reads: SearchReads, limit: int) -> bool:
    """Tell whether more has changed since a view was made than `limit`."""
    return reads.bulk.last_change() - view.change > limit


def _without(view: View, gone: NDArray[np.int64]) -> View:
    """Mark the slots of facts that are gone."""
    slots = view.slots(gone)
    if not len(slots):
        return view
    dead = view.dead.copy() if view.dead is not None else np.zeros(view.count, np.bool_)
    dead[slots] = True
    return replace(view, dead=dead, dead_count=view.dead_count + len(slots))


def _with(view: View, added: NDArray[np.int64], reads: SearchReads, analysis: Analyser) -> View:
    """Append facts, all of whose ids are above those of the view."""
    vectors, inverses, lengths = _measures(reads, added)
    sources = reads.bulk.sources(added)
    if [source.id for source in sources] != added.tolist():
        raise _Unusable
    tree = grown_tree(reads, view.tree, {source.path for source in sources})
    sequence = grown_sequence(reads, view, added)
    if sequence is None:
        raise _Unusable
    words = view.words
    plain = words.kinds.number((0, 0, 0))
    analysis = analysis.of_version(reads.analysis or analysis.version) or analysis
    # Nothing is read from here on, so nothing is left half done.
    for slot, (source, length) in enumerate(zip(sources, lengths.tolist(), strict=True), view.count):
        document = analysis.document(source.text, source.tags, source.source)
        if len(document.exact.split()) != length:
            raise _Unusable  # the file's words are not those of this analysis
        fields = (document.text, document.tags, document.source)
        found = document_kinds(fields, document.exact, words.kinds)
        found.update((label_key(tag), plain) for tag in source.tags)
        found[author_key(source.author)] = plain
        found.update((key, plain) for key in attribute_keys(source.tags))
        words.tail.add(slot, found)
    return replace(
        view,
        ids=grown(view.ids, added),
        lengths=grown(view.lengths, lengths),
        paths=grown(view.paths, np.fromiter((source.path for source in sources), np.int32)),
        times=grown(view.times, np.fromiter((source.time for source in sources), np.int64)),
        inverses=grown(view.inverses, inverses),
        matrix=grown(view.matrix, vectors),
        words=replace(words, count=view.count + len(added)),
        tree=tree,
        sequence=sequence,
        dead=None if view.dead is None else np.concatenate((view.dead, np.zeros(len(added), np.bool_))),
    )


def _exchanged(newest: View, made: View) -> View:
    """Give a view that has moved on the compact parts that were made of an earlier state of it."""
    words = made.words
    tail = newest.words.tail.after(words.segment_count)
    return replace(
        newest,
        words=Words(words.segment, words.segment_count, tail, words.kinds, newest.count),
        clusters=made.clusters,
    )


def _measures(
    reads: SearchReads, ids: NDArray[np.int64]
) -> tuple[NDArray[np.float16], NDArray[np.float32], NDArray[np.float32]]:
    """Read vectors, one over their lengths, and numbers of words."""
    found, vectors = reads.embeddings(ids)
    counted, words = reads.lengths(ids)
    if len(found) != len(ids) or len(counted) != len(ids):
        raise _Unusable
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    if not (np.isfinite(lengths).all() and lengths.all()):
        raise _Unusable
    return vectors, (1.0 / lengths).astype(np.float32), words


def _slots(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the slots of facts, -1 for what is not live."""
    positions, there = positions_in(ids, wanted)
    return np.where(there, positions, -1)
