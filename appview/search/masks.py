"""Which slots of a view a scope and filters let through: what `scope_sql` selects of the file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.values import Filters
from appview.search.postings import author_key, label_key
from appview.search.scopes import mark

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from appview.memory.index_reads import IndexReads
    from appview.memory.scope import Scope
    from appview.search.view import View

    Mask = NDArray[np.bool_]

NO_FILTERS: Final = Filters()


def are_known(filters: Filters) -> bool:
    """Tell whether these filters hold nothing but what is in memory."""
    return replace(filters, author=None, tags=(), since=None, path=None, without=frozenset()) == NO_FILTERS


def in_scope(view: View, reads: IndexReads, scope: Scope) -> Mask | None:
    """Mark the live slots inside a scope, None where that is all slots. Nobody may change the mask."""
    if scope.is_nothing:
        return np.zeros(view.count, np.bool_)
    if scope.is_everything:
        return None if view.dead is None else ~view.dead
    mask = view.covered.of(view, reads, scope)
    return mask if view.dead is None else mask & ~view.dead


def inside_scope(view: View, reads: IndexReads, scope: Scope, ids: set[int]) -> set[int]:
    """Leave those of some facts that are live and inside a scope."""
    slots = view.slots(np.fromiter(ids, np.int64, len(ids)))
    mask = in_scope(view, reads, scope)
    return set(view.ids[slots if mask is None else slots[mask[slots]]].tolist())


def with_filters(view: View, mask: Mask | None, filters: Filters) -> Mask | None:
    """Mark the slots of a mask that filters let through; `without` has left out what they name by id."""
    parts: list[Mask] = [] if mask is None else [mask]
    parts.extend(_with_word(view, label_key(tag)) for tag in dict.fromkeys(filters.tags))
    if filters.author is not None:
        parts.append(_with_word(view, author_key(filters.author)))
    if filters.path is not None and filters.path != "/":
        parts.append(view.tree.covered((), (filters.path,))[view.paths])
    if filters.since is not None:
        parts.append(view.times >= filters.since)
    if not parts:
        return None
    result = parts[0]
    for part in parts[1:]:
        result = result & part
    return result


def without(view: View, mask: Mask | None, filters: Filters) -> Mask | None:
    """Leave out of a mask the slots of facts that filters name by id."""
    if not filters.without:
        return mask
    left = np.ones(view.count, np.bool_) if mask is None else mask.copy()
    left[view.slots(np.fromiter(filters.without, np.int64, len(filters.without)))] = False
    return left


def _with_word(view: View, word: str) -> Mask:
    mask = np.zeros(view.count, np.bool_)
    mark(view, word, mask)
    return mask
