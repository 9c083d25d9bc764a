"""What a scope covers of a view, kept for as long as the scope is asked for.

Whether a scope covers a fact depends on the fact's path and its own attributes, which never change, and on
what paths give. So what was found out for the slots of one view holds for all views that follow, until the
tags of a path change; only the slots that came since are looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.patterns import by_kind
from appview.memory.scope import Subtree
from appview.search.postings import attribute_key, author_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from appview.memory.index_reads import IndexReads
    from appview.memory.scope import Pattern, Scope
    from appview.search.view import View

    Mask = NDArray[np.bool_]

MAX_KEPT_BYTES: Final = 16 << 20  # ours, of one space: 160 scopes of 100,000 facts, a byte each
MAX_DESCRIBED: Final = 500  # ours, slots read one by one, in about 5 ms; for more all are worked out again


@dataclass(frozen=True, slots=True)
class _Kept:
    """The slots that patterns cover, up to a number of them, by one version of the tags of paths."""

    version: int
    mask: Mask


class CoveredSlots:
    """What scopes cover of the slots of one view and of those that follow it. Safe across threads; forgets
    what was asked for longest ago where all together are too large."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._kept: OrderedDict[Scope, _Kept] = OrderedDict()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self._bytes

    def __len__(self) -> int:
        """Scopes that are kept."""
        return len(self._kept)

    def of(self, view: View, reads: IndexReads, scope: Scope) -> Mask:
        """Mark the slots that a scope covers, those of facts that are gone as it happens. The mask is kept:
        whoever changes it copies it. `reads` are of the view's version."""
        with self._lock:
            kept = self._kept.pop(scope, None)
            if kept is not None:
                # Under the key at hand: to find an equal one, all its patterns would be compared each time.
                self._kept[scope] = kept
        mask = None
        if kept is not None and kept.version == view.path_tags.version:
            late = view.count - len(kept.mask)
            if late <= 0:
                return kept.mask[: view.count] if late else kept.mask
            if late <= MAX_DESCRIBED:
                mask = np.concatenate((kept.mask, _described(view, reads, scope, len(kept.mask))))
        if mask is None:
            mask = _covered(view, scope)
        mask.setflags(write=False)
        with self._lock:
            self._keep(scope, _Kept(view.path_tags.version, mask))
        return mask

    def _keep(self, scope: Scope, new: _Kept) -> None:
        old = self._kept.pop(scope, None)
        if old is not None:
            self._bytes -= old.mask.nbytes
        self._kept[scope] = new
        self._bytes += new.mask.nbytes
        while self._bytes > self._max_bytes:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= gone.mask.nbytes


def _covered(view: View, scope: Scope) -> Mask:
    everything = Subtree("/") in scope.allow
    mask = np.ones(view.count, np.bool_) if everything else _any_of(view, scope.allow)
    if scope.deny:
        mask &= ~_any_of(view, scope.deny)
    return mask


def _described(view: View, reads: IndexReads, scope: Scope, first: int) -> Mask:
    """Ask a scope about the slots from `first` on, one by one, however many patterns it has."""
    ids = view.ids[first:]
    mask = np.zeros(len(ids), np.bool_)
    covered = [each.id for each in reads.describe(ids.tolist()) if scope.covers(each.path, each.attributes)]
    mask[np.searchsorted(ids, covered)] = True
    return mask


def _any_of(view: View, patterns: Iterable[Pattern]) -> Mask:
    kinds = by_kind(patterns)
    mask = np.zeros(view.count, np.bool_)
    if kinds.exact or kinds.subtrees:
        mask |= view.tree.covered(kinds.exact, kinds.subtrees)[view.paths]
    for owner in kinds.owners:
        mark(view, author_key(owner), mask)
    for key, pairs in groupby(sorted(kinds.attributes), key=itemgetter(0)):
        mask |= _with_attribute(view, key, {value for _, value in pairs})
    return mask


def _with_attribute(view: View, key: str, values: set[str]) -> Mask:
    """Mark the slots whose facts have one of the values, as `Inherited.effective` joins a fact's own
    attributes with those of its paths."""
    mask = np.zeros(view.count, np.bool_)
    for value in values:
        mark(view, attribute_key(key, value), mask)
    given = view.path_tags.given(view.tree, key, values)
    if given is None:
        return mask
    inherits, protected = given[0][view.paths], given[1][view.paths]
    has_own = np.zeros(view.count, np.bool_)
    mark(view, attribute_key(key), has_own)
    counts = has_own & ~protected
    return (mask & counts) | (inherits & ~counts)


def mark(view: View, word: str, mask: Mask) -> None:
    """Mark the slots of a word."""
    found = view.words.find(word)
    if found is not None:
        mask[found.slots] = True
