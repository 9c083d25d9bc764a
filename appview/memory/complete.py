"""Complete updates: what they name, and what else is held of their authors, in one pass that holds neither.

Both come by ascending record key and are merged, so that a repo of any size, against a space that holds as
much of it, takes the memory of a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.memory.values import Delete, Put

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from appview.memory.values import Change, RepoUpdate
    from appview.sqlite import Connection

PAGE: Final = 1_000  # record keys read at once
MAX_ROUND_BYTES: Final = (
    4_000_000  # ours: texts and vectors worked on at once; indexing takes several times that
)

_HELD: Final = (
    "SELECT rkey FROM facts WHERE author = ?1 AND invalidated_at IS NULL AND rkey > ?2"
    " UNION ALL SELECT rkey FROM skipped WHERE author = ?1 AND rkey > ?2 ORDER BY rkey LIMIT ?3"
)


def merged(connection: Connection, update: RepoUpdate) -> Iterator[Change]:
    """Give a complete update's changes, and a `Delete` of each record held that it does not name.

    While it is read, changes that it gave may be applied.
    """
    held = _held(connection, update.author)
    waiting = next(held, None)
    last = ""
    for change in _ascending(update.changes):
        rkey = change.rkey
        if rkey < last:
            raise AssertionError("changes that do not ascend")
        last = rkey
        while waiting is not None and waiting < rkey:
            yield Delete(waiting)
            waiting = next(held, None)
        if waiting == rkey:
            waiting = next(held, None)
        yield change
    while waiting is not None:
        yield Delete(waiting)
        waiting = next(held, None)


def weight(change: Change) -> int:
    """Tell about how many bytes of memory a change holds that differ from one to another."""
    if not isinstance(change, Put):
        return 0
    memory = change.memory
    following = memory.next_embedding
    return len(memory.text) + len(memory.embedding.vector) + (len(following.vector) if following else 0)


def _ascending(changes: Iterable[Change]) -> Iterable[Change]:
    return sorted(changes, key=lambda change: change.rkey) if isinstance(changes, tuple) else changes


def _held(connection: Connection, author: str) -> Iterator[str]:
    """Read the keys of the records of an author that are known here, indexed or left out."""
    last = ""
    while page := connection.execute(_HELD, (author, last, PAGE)).fetchall():
        for (rkey,) in page:
            yield rkey
        last = page[-1][0]
