"""What an index in memory reads from a space's file: everything in bulk, and what changed since.

Numbers come as one text a statement: SQLite joins them without holding Python's lock, so a build of minutes
leaves the threads that answer questions alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from appview.memory.changes import changed_since, last_change, numbers, parsed
from appview.memory.described import describe
from appview.memory.errors import of_index
from appview.memory.meta import path_tags_version
from appview.memory.path_tags import path_tags
from appview.memory.scope_sql import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from appview.memory.described import Described
    from appview.memory.tags import PathTag
    from appview.sqlite import Connection

# Exact words ("=word") stand together, behind the mark alone, which stands between fields.
EXACT_MARK, EXACT_END = "=", ">"
MAX_PLACES_A_READ: Final = 500_000  # occurrences read at once, in about 0.2 s
FACTS_A_READ: Final = 50_000  # facts


@dataclass(frozen=True, slots=True)
class Columns:
    """Facts by ascending id: the number of their path, and what they are ordered by."""

    ids: NDArray[np.int64]
    paths: NDArray[np.int32]
    times: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """What a fact is found by."""

    id: int
    author: str
    path: int
    time: int
    text: str
    tags: tuple[str, ...]
    source: str | None


class PathRow(NamedTuple):
    """A path and the one above it, by number; above the root is 0."""

    number: int
    parent: int
    path: str


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Where words occur: `counts` occurrences of each, one after the other, by fact; `columns` tells the
    field."""

    terms: tuple[str, ...]
    counts: NDArray[np.int64]
    ids: NDArray[np.int64]
    columns: NDArray[np.int64]


class IndexReads:
    """Reads of one snapshot for building and following an index."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def last_change(self) -> int:
        """Read the number of the newest change."""
        return last_change(self._connection)

    def changed_since(self, number: int) -> NDArray[np.int64] | None:
        """List the facts that changed after a change, None where that is not known any more."""
        return changed_since(self._connection, number)

    def live_among(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tell which facts are live."""
        found = self._numbers(
            "SELECT f.id AS number FROM json_each(?) AS asked CROSS JOIN facts AS f ON f.id = asked.value"  # noqa: S608
            f" WHERE {LIVE}",
            (json.dumps(ids.tolist()),),
        )
        return np.sort(found)

    def columns(self) -> Columns:
        """Read the columns of all live facts."""
        every = f"SELECT f.id AS number FROM facts AS f INDEXED BY facts_live WHERE {LIVE}"  # noqa: S608
        ids = np.sort(self._numbers(every))
        parts: list[NDArray[np.int64]] = []
        for start in range(0, len(ids), FACTS_A_READ):
            part = ids[start : start + FACTS_A_READ]
            text = self._connection.execute(
                "SELECT group_concat(id || ',' || path_id || ',' || ordered_at) FROM"  # noqa: S608
                " (SELECT f.id, f.path_id, f.ordered_at FROM facts AS f NOT INDEXED"
                f" WHERE f.id BETWEEN ? AND ? AND {LIVE} ORDER BY f.id)",
                (int(part[0]), int(part[-1])),
            ).fetchone()[0]
            parts.append(parsed(text).reshape(-1, 3))
        table = np.concatenate(parts) if parts else np.empty((0, 3), np.int64)
        return Columns(table[:, 0].copy(), table[:, 1].astype(np.int32), table[:, 2].copy())

    def sources(self, ids: NDArray[np.int64]) -> list[Source]:
        """Read what facts are found by, in the order of their ids."""
        rows = self._connection.execute(
            "SELECT f.id, f.author, f.path_id, f.ordered_at, f.content, f.tags, f.source"
            " FROM json_each(?) AS asked CROSS JOIN facts AS f ON f.id = asked.value ORDER BY f.id",
            (json.dumps(ids.tolist()),),
        )
        return [
            Source(id_, author, path, time, text, tuple(json.loads(tags)), source)
            for id_, author, path, time, text, tags, source in rows
        ]

    def occurrences(self) -> Iterator[tuple[Occurrences, Occurrences]]:
        """Read where every word and every exact word occurs, words in the order of their bytes. Each answer
        is of one stretch of the alphabet: an exact word comes with the word of the same letters. Raises
        `IndexDamaged`."""
        # All at once: the words of a file are few.
        with of_index("keyword"):
            words = self._connection.execute(
                "SELECT term, term, cnt FROM facts_fts_words WHERE term < ? OR term >= ?",
                (EXACT_MARK, EXACT_END),
            ).fetchall()
            exact = self._connection.execute(
                "SELECT substr(term, 2), term, cnt FROM facts_fts_words WHERE term > ? AND term < ?",
                (EXACT_MARK, EXACT_END),
            ).fetchall()
        words.extend(exact)
        words.sort(key=itemgetter(0))
        pending: tuple[list[tuple[str, int]], list[tuple[str, int]]] = ([], [])
        total, behind = 0, False
        for word, same in groupby(words, key=itemgetter(0)):
            group = [(term, count) for _, term, count in same]
            more = sum(count for _, count in group)
            # No stretch reaches from before the exact words to behind them.
            if total and (total + more > MAX_PLACES_A_READ or behind != (word >= EXACT_END)):
                yield self._occurrences(pending[0]), self._occurrences(pending[1])
                pending, total = ([], []), 0
            for term, count in group:
                pending[term.startswith(EXACT_MARK)].append((term, count))
            total, behind = total + more, word >= EXACT_END
        if total:
            yield self._occurrences(pending[0]), self._occurrences(pending[1])

    def labels(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """List the facts of every label, labels in the order of their bytes."""
        rows = self._connection.execute(
            "SELECT label, group_concat(fact_id) FROM fact_labels GROUP BY label ORDER BY label"
        )
        for label, ids in rows:
            yield label, np.sort(parsed(ids))

    def authors(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """List the live facts of every author, authors in the order of their bytes."""
        rows = self._connection.execute(
            "SELECT f.author, f.id FROM facts AS f INDEXED BY facts_live"  # noqa: S608
            f" WHERE {LIVE} ORDER BY f.author"
        )
        for author, found in groupby(rows, key=itemgetter(0)):
            yield author, np.sort(np.fromiter((row[1] for row in found), np.int64))

    def own_attributes(self) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
        """List the facts of every attribute that facts have of their own, by key and value in the order of
        their bytes."""
        rows = self._connection.execute(
            "SELECT key, value, group_concat(fact_id) FROM fact_tags GROUP BY key, value ORDER BY key, value"
        )
        for key, value, ids in rows:
            yield key, value, np.sort(parsed(ids))

    def tree(self) -> list[PathRow]:
        """Read all paths."""
        return self._paths("SELECT id, coalesce(parent_id, 0), full_path FROM paths")

    def branches(self, numbers: Iterable[int]) -> list[PathRow]:
        """Read some paths and those above them."""
        return self._paths(
            "WITH RECURSIVE up (id) AS (SELECT value FROM json_each(?) UNION"
            " SELECT p.parent_id FROM up CROSS JOIN paths AS p ON p.id = up.id"
            " WHERE p.parent_id IS NOT NULL)"
            " SELECT p.id, coalesce(p.parent_id, 0), p.full_path"
            " FROM up CROSS JOIN paths AS p ON p.id = up.id",
            (json.dumps(sorted(numbers)),),
        )

    def path_tags(self, known: int | None = None) -> tuple[int, list[tuple[str, PathTag]] | None]:
        """Read the attributes that paths give and their version; None where that is the known one."""
        version = path_tags_version(self._connection)
        return version, None if version == known else path_tags(self._connection)

    def in_order(self) -> NDArray[np.int64]:
        """List the live facts path by path, in the order of time, author and record key."""
        return self._numbers(
            "SELECT f.id AS number FROM facts AS f INDEXED BY facts_by_path"  # noqa: S608
            f" WHERE {LIVE} ORDER BY f.path_id, f.ordered_at, f.author, f.rkey"
        )

    def beside(self, ids: NDArray[np.int64]) -> dict[int, tuple[int | None, int | None]]:
        """Find, for live facts, the one right before and the one right behind at the same path."""
        before, behind = _next("<", "DESC"), _next(">", "ASC")
        rows = self._connection.execute(
            f"SELECT a.id, {before}, {behind}"  # noqa: S608
            " FROM json_each(?) AS asked CROSS JOIN facts AS a ON a.id = asked.value",
            (json.dumps(ids.tolist()),),
        )
        return {id_: (before, behind) for id_, before, behind in rows}

    def describe(self, ids: Iterable[int]) -> list[Described]:
        """Read what a scope judges facts by."""
        return describe(self._connection, ids)

    def _paths(self, sql: str, params: Sequence[object] = ()) -> list[PathRow]:
        return [PathRow(*row) for row in self._connection.execute(sql, params)]

    def _occurrences(self, words: Sequence[tuple[str, int]]) -> Occurrences:
        if not words:
            return Occurrences((), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
        with of_index("keyword"):
            packed = self._numbers(
                "SELECT doc * 4 + CASE col WHEN 'text' THEN 0 WHEN 'tags' THEN 1 WHEN 'source' THEN 2"
                " ELSE 3 END AS number FROM facts_fts_places WHERE term >= ? AND term <= ?",
                (words[0][0], words[-1][0]),
            )
        counts = np.fromiter((count for _, count in words), np.int64, len(words))
        return Occurrences(tuple([term for term, _ in words]), counts, packed >> 2, packed & 3)

    def _numbers(self, sql: str, params: Sequence[object] = ()) -> NDArray[np.int64]:
        return numbers(self._connection, sql, params)


def _next(compare: str, order: str) -> str:
    # Three reads of the index: one comparison of all three columns would walk through every fact of the same
    # instant.
    ties = "f.ordered_at = a.ordered_at AND f.author"
    parts = (
        (f"{ties} = a.author AND f.rkey {compare} a.rkey", f"f.rkey {order}"),
        (f"{ties} {compare} a.author", f"f.author {order}, f.rkey {order}"),
        (f"f.ordered_at {compare} a.ordered_at", f"f.ordered_at {order}, f.author {order}, f.rkey {order}"),
    )
    reads = " UNION ALL ".join(
        "SELECT id FROM (SELECT f.id FROM facts AS f"  # noqa: S608
        f" WHERE f.path_id = a.path_id AND {LIVE} AND {where} ORDER BY {by} LIMIT 1)"
        for where, by in parts
    )
    return f"(SELECT id FROM ({reads}) LIMIT 1)"  # noqa: S608
