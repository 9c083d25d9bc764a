"""What a view takes from a file besides words and vectors: labels, authors and attributes, the tree of paths
and what paths give, and the order of the facts at a path."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from appview.memory.tags import own_attributes
from appview.search.postings import attribute_key, author_key, label_key
from appview.search.ranking import positions_in
from appview.search.sequence import Sequence
from appview.search.tree import PathTags, Tree
from lexicons.memories import read_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from appview.memory.search_reads import SearchReads
    from appview.search.view import View

    Ids = NDArray[np.int64]


def read_keys(reads: SearchReads, check: Callable[[], None]) -> Iterator[tuple[str, Ids]]:
    """List the facts of every author, label and own attribute, by their keys, in the order of bytes. `check`
    is called between them."""
    for author, ids in reads.bulk.authors():
        yield author_key(author), ids
    check()
    for label, ids in reads.bulk.labels():
        yield label_key(label), ids
    check()
    for key, values in groupby(reads.bulk.own_attributes(), key=itemgetter(0)):
        of_values = [(value, ids) for _, value, ids in values]
        yield attribute_key(key), np.sort(np.concatenate([ids for _, ids in of_values]))
        for value, ids in of_values:
            yield attribute_key(key, value), ids
    check()


def attribute_keys(tags: Iterable[str]) -> Iterator[str]:
    """List the keys of a record's own attributes, as `read_keys` gives them."""
    for key, value in own_attributes(read_tags(tuple(tags)).attributes).items():
        yield attribute_key(key)
        yield attribute_key(key, value)


def read_path_tags(reads: SearchReads, known: PathTags | None = None) -> PathTags:
    """Read what paths give, unless that is known already."""
    version, tags = reads.bulk.path_tags(known.version if known is not None else None)
    if tags is None and known is not None:
        return known
    return PathTags.of(version, tags or ())


def grown_tree(reads: SearchReads, tree: Tree, numbers: Iterable[int]) -> Tree:
    """Take the paths of new facts into a tree."""
    grown = tree.grown(reads.bulk.branches(numbers))
    return grown if grown is not None else Tree.of(reads.bulk.tree(), size=len(tree.parents))


def read_sequence(reads: SearchReads, ids: Ids) -> Sequence | None:
    """Read the order of facts, whose positions are their slots. None where the file holds other facts."""
    order = reads.bulk.in_order()
    slots, there = positions_in(ids, order)
    if len(order) != len(ids) or not there.all():
        return None
    return Sequence.of(slots.astype(np.int32))


def grown_sequence(reads: SearchReads, view: View, added: Ids) -> Sequence | None:
    """Put facts that are appended to a view into the order of their paths. None where the file holds others
    that the view does not."""
    ids = np.concatenate((view.ids, added))
    beside: dict[int, tuple[int | None, int | None]] = {}
    for id_, pair in reads.bulk.beside(added).items():
        known = np.array([other for other in pair if other is not None], np.int64)
        if not positions_in(ids, known)[1].all():
            return None
        before, behind = (None if other is None else int(np.searchsorted(ids, other)) for other in pair)
        beside[int(np.searchsorted(ids, id_))] = before, behind
    return view.sequence.grown(beside)
