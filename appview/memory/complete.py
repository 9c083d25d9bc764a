"""Complete updates: what they name, and what else is held of their authors, in one pass that holds neither.

Both come by ascending record key and are merged, so that a repo of any size, against a space that holds as
much of it, takes the memory of a page. The pass may be made in many transactions.
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
CHANGE_COST: Final = 100  # ours: of the rows of a record, or of a commit, whatever they say
VECTOR_BYTES: Final = 32  # ours: bytes of a vector that cost as much as a character

_HELD: Final = (
    "SELECT rkey FROM facts WHERE author = ?1 AND invalidated_at IS NULL AND rkey > ?2"
    " UNION ALL SELECT rkey FROM skipped WHERE author = ?1 AND rkey > ?2 ORDER BY rkey LIMIT ?3"
)


class Merge:
    """A complete update's changes, and a `Delete` of each record held that it does not name.

    `read` gives them; while it does, changes that it gave may be applied. It may be left when it has given
    `most`, and goes on from there, in another transaction too, as long as nobody else changes the author's.
    """

    def __init__(self, update: RepoUpdate) -> None:
        self.is_over = False
        self._author = update.author
        self._changes = iter(_ascending(update.changes))
        self._next: Change | None = None
        self._begun = False
        self._last = ""  # the record key of what was given last

    def read(self, connection: Connection, most: int | None = None) -> Iterator[Change]:
        """Give all, or up to about so much by `cost`."""
        if not self._begun:
            self._begun, self._next = True, next(self._changes, None)
        held = _held(connection, self._author, self._last)
        waiting = next(held, None)
        spent = 0
        while most is None or spent < most:
            change = self._next
            if waiting is not None and (change is None or waiting < change.rkey):
                self._last, change = waiting, Delete(waiting)
                waiting = next(held, None)
            elif change is not None:
                if change.rkey < self._last:
                    raise AssertionError("changes that do not ascend")
                if waiting == change.rkey:
                    waiting = next(held, None)
                self._last = change.rkey
                self._next = next(self._changes, None)
            else:
                self.is_over = True
                return
            spent += cost(change)
            yield change


def cost(change: Change) -> int:
    """Tell what it costs to write a change: characters to be analysed, up to two microseconds each."""
    if not isinstance(change, Put):
        return CHANGE_COST
    memory = change.memory
    vectors = len(memory.embedding.vector)
    if memory.next_embedding is not None:
        vectors += len(memory.next_embedding.vector)
    words = len(memory.text) + len(memory.source or "") + sum(map(len, memory.tags))
    return CHANGE_COST + words + vectors // VECTOR_BYTES


def weight(change: Change) -> int:
    """Tell about how many bytes of memory a change holds that differ from one to another."""
    if not isinstance(change, Put):
        return 0
    memory = change.memory
    following = memory.next_embedding
    return len(memory.text) + len(memory.embedding.vector) + (len(following.vector) if following else 0)


def _ascending(changes: Iterable[Change]) -> Iterable[Change]:
    return sorted(changes, key=lambda change: change.rkey) if isinstance(changes, tuple) else changes


def _held(connection: Connection, author: str, last: str) -> Iterator[str]:
    """Read the keys after `last` of the records of an author that are known here, indexed or left out."""
    while page := connection.execute(_HELD, (author, last, PAGE)).fetchall():
        for (rkey,) in page:
            yield rkey
        last = page[-1][0]
