"""What an index in memory reads from a space's file: everything in bulk, and what changed since.

Numbers come as one text a statement: SQLite joins them without holding Python's lock, so a build of minutes
leaves the threads that answer questions alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory.scope_sql import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from appview.memory.vectors import VectorIndex
    from appview.sqlite import Connection

# Exact words ("=word") are for phrases and beginnings; they stand together, and an index leaves them out.
EXACT_FROM, EXACT_TO = "=", ">"
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


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Where words occur: `counts` occurrences of each, one after the other; `columns` tells the field."""

    terms: tuple[str, ...]
    counts: NDArray[np.int64]
    ids: NDArray[np.int64]
    columns: NDArray[np.int64]


class IndexReads:
    """Reads of one snapshot for building and following an index."""

    def __init__(self, connection: Connection, index: VectorIndex) -> None:
        self._connection = connection
        self._index = index

    def last_change(self) -> int:
        """Read the number of the newest change."""
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
        return 0 if row is None else int(row[0])

    def changed_since(self, number: int) -> NDArray[np.int64] | None:
        """List the facts that changed after a change, None where that is not known any more."""
        if number > self.last_change():
            return None  # the file was replaced by an older one
        oldest = self._connection.execute("SELECT min(number) FROM changes").fetchone()[0]
        if oldest is None or oldest > number + 1:
            return None if self.last_change() > number else np.empty(0, np.int64)
        found = self._numbers("SELECT fact_id AS number FROM changes WHERE number > ?", (number,))
        return np.unique(found)

    def live_among(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tell which facts are live: the active index has them."""
        found = self._numbers(
            f"SELECT rowid AS number FROM ({self._index.ids_sql()})"  # noqa: S608
            " WHERE rowid IN (SELECT value FROM json_each(?))",
            (json.dumps(ids.tolist()),),
        )
        return np.sort(found)

    def columns(self) -> Columns:
        """Read the columns of all live facts."""
        ids = np.sort(self._numbers(f"SELECT rowid AS number FROM ({self._index.ids_sql()})"))  # noqa: S608
        parts: list[NDArray[np.int64]] = []
        for start in range(0, len(ids), FACTS_A_READ):
            part = ids[start : start + FACTS_A_READ]
            text = self._connection.execute(
                "SELECT group_concat(id || ',' || path_id || ',' || ordered_at) FROM"  # noqa: S608
                " (SELECT f.id, f.path_id, f.ordered_at FROM facts AS f NOT INDEXED"
                f" WHERE f.id BETWEEN ? AND ? AND {LIVE} ORDER BY f.id)",
                (int(part[0]), int(part[-1])),
            ).fetchone()[0]
            parts.append(_parse(text).reshape(-1, 3))
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

    def occurrences(self) -> Iterator[Occurrences]:
        """Read where every searchable word occurs, words in the order of their bytes, facts by id."""
        for where in (f"term < '{EXACT_FROM}'", f"term >= '{EXACT_TO}'"):
            pending: list[tuple[str, int]] = []
            total = 0
            # All at once: the words of a file are few.
            rows = self._connection.execute(
                f"SELECT term, cnt FROM facts_fts_words WHERE {where}"  # noqa: S608
            ).fetchall()
            for term, count in rows:
                if pending and total + count > MAX_PLACES_A_READ:
                    yield self._occurrences(pending)
                    pending, total = [], 0
                pending.append((term, count))
                total += count
            if pending:
                yield self._occurrences(pending)

    def labels(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """List the facts of every label, labels in the order of their bytes."""
        rows = self._connection.execute(
            "SELECT label, group_concat(fact_id) FROM fact_labels GROUP BY label ORDER BY label"
        )
        for label, ids in rows:
            yield label, np.sort(_parse(ids))

    def authors(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """List the live facts of every author, authors in the order of their bytes."""
        rows = self._connection.execute(
            "SELECT f.author, f.id FROM facts AS f INDEXED BY facts_live"  # noqa: S608
            f" WHERE {LIVE} ORDER BY f.author"
        )
        for author, found in groupby(rows, key=itemgetter(0)):
            yield author, np.sort(np.fromiter((row[1] for row in found), np.int64))

    def paths(self, exact: Iterable[str], subtrees: Iterable[str]) -> NDArray[np.int64]:
        """List the numbers of paths and of those at and below others."""
        subtree = json.dumps(sorted(subtrees))
        return self._numbers(
            "SELECT id AS number FROM paths WHERE full_path IN (SELECT value FROM json_each(?))"
            " UNION ALL SELECT p.id FROM json_each(?) AS s CROSS JOIN paths AS p ON p.full_path = s.value"
            " UNION ALL SELECT p.id FROM json_each(?) AS s CROSS JOIN paths AS p"
            " ON p.full_path > s.value || '/' AND p.full_path < s.value || '0'",
            (json.dumps(sorted(exact)), subtree, subtree),
        )

    def with_attributes(self, pairs: Iterable[tuple[str, str]]) -> NDArray[np.int64]:
        """List the facts that have any of some effective attributes."""
        return self._numbers(
            "SELECT e.fact_id AS number FROM json_each(?) AS a CROSS JOIN effective_tags AS e"
            " ON e.key = a.value ->> 0 AND e.value = a.value ->> 1",
            (json.dumps(sorted(pairs)),),
        )

    def _occurrences(self, words: Sequence[tuple[str, int]]) -> Occurrences:
        packed = self._numbers(
            "SELECT doc * 4 + CASE col WHEN 'text' THEN 0 WHEN 'tags' THEN 1 WHEN 'source' THEN 2 ELSE 3 END"
            " AS number FROM facts_fts_places WHERE term >= ? AND term <= ?",
            (words[0][0], words[-1][0]),
        )
        counts = np.fromiter((count for _, count in words), np.int64, len(words))
        return Occurrences(tuple([term for term, _ in words]), counts, packed >> 2, packed & 3)

    def _numbers(self, sql: str, params: Sequence[object] = ()) -> NDArray[np.int64]:
        return _parse(
            self._connection.execute(f"SELECT group_concat(number) FROM ({sql})", params).fetchone()[0]  # noqa: S608
        )


def _parse(text: str | None) -> NDArray[np.int64]:
    return np.fromstring(text, np.int64, sep=",") if text is not None else np.empty(0, np.int64)
