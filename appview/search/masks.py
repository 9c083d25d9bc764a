"""Which slots of a view a scope and filters let through: what `scope_sql` selects, without reading the facts.

Paths and attributes are looked up in the file, in the reader's own snapshot; everything that has a row a fact
is in memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.patterns import by_kind
from appview.memory.scope import Subtree
from appview.memory.values import Filters
from appview.search.postings import author_key, label_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from appview.memory.index_reads import IndexReads
    from appview.memory.scope import Pattern, Scope
    from appview.search.view import View

    Mask = NDArray[np.bool_]

NO_FILTERS: Final = Filters()


def are_known(filters: Filters) -> bool:
    """Tell whether these filters hold nothing but what is in memory."""
    return replace(filters, author=None, tags=(), since=None, path=None, without=frozenset()) == NO_FILTERS


def in_scope(view: View, reads: IndexReads, scope: Scope) -> Mask | None:
    """Mark the live slots inside a scope, None where that is all slots."""
    mask: Mask | None = None
    if scope.is_nothing:
        return np.zeros(view.count, np.bool_)
    if Subtree("/") not in scope.allow:
        mask = _any_of(view, reads, scope.allow)
    if scope.deny:
        denied = _any_of(view, reads, scope.deny)
        mask = ~denied if mask is None else mask & ~denied
    if view.dead is not None:
        mask = ~view.dead if mask is None else mask & ~view.dead
    return mask


def with_filters(view: View, reads: IndexReads, mask: Mask | None, filters: Filters) -> Mask | None:
    """Mark the slots of a mask that filters let through."""
    parts: list[Mask] = [] if mask is None else [mask]
    parts.extend(_with_word(view, label_key(tag)) for tag in dict.fromkeys(filters.tags))
    if filters.author is not None:
        parts.append(_with_word(view, author_key(filters.author)))
    if filters.path is not None and filters.path != "/":
        parts.append(_at(view, reads.paths((), (filters.path,))))
    if filters.since is not None:
        parts.append(view.times >= filters.since)
    if filters.without:
        others = np.ones(view.count, np.bool_)
        others[view.slots(np.array(sorted(filters.without), np.int64))] = False
        parts.append(others)
    if not parts:
        return None
    result = parts[0]
    for part in parts[1:]:
        result = result & part
    return result


def _any_of(view: View, reads: IndexReads, patterns: Iterable[Pattern]) -> Mask:
    kinds = by_kind(patterns)
    mask = np.zeros(view.count, np.bool_)
    if kinds.exact or kinds.subtrees:
        mask |= _at(view, reads.paths(kinds.exact, kinds.subtrees))
    for owner in kinds.owners:
        mask |= _with_word(view, author_key(owner))
    if kinds.attributes:
        mask[view.slots(np.unique(reads.with_attributes(kinds.attributes)))] = True
    return mask


def _at(view: View, paths: NDArray[np.int64]) -> Mask:
    if not view.count:
        return np.zeros(0, np.bool_)
    there = np.zeros(int(view.paths.max()) + 1, np.bool_)
    there[paths[paths < len(there)]] = True
    return there[view.paths]


def _with_word(view: View, word: str) -> Mask:
    mask = np.zeros(view.count, np.bool_)
    found = view.words.find(word)
    if found is not None:
        mask[found.slots] = True
    return mask
