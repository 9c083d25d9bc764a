"""What both arms of a search read from a space's file, inside one read transaction.

Every set of facts comes back as a sorted array of ids (int64), so that scope, filters, phrases and
postings meet as sets before anything is ranked. Words come in analysed (`AnalysedDocument`): they hold no
quotes, spaces or control characters.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from appview.memory import meta, vectors
from appview.memory.errors import IndexDamaged, of_index
from appview.memory.index_reads import IndexReads
from appview.memory.meta import data_version
from appview.memory.rows import FACT_COLUMNS, FACT_TABLES, fact
from appview.memory.scope_sql import LIVE, NO_FILTERS, render
from appview.memory.stopping import stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from appview.memory.scope import Scope
    from appview.memory.values import Fact, Filters
    from appview.memory.vectors import VectorIndex
    from appview.sqlite import Connection

TEXT, TAGS, SOURCE, EXACT = range(4)  # columns of facts_fts, in order
_LAST_CHARACTER: Final = "\U0010ffff"
# Where the limit is a bare parameter SQLite plans anew for each value, which takes longer than reading.
_GIVEN: Final = "(? + 0)"
_FEW: Final = 1_000  # ids up to which one look-up each beats a scan of a small table
_SPREAD: Final = 4  # ids a fact from which that is so for any number of them


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fact stands among facts of equal score."""

    ordered_at: int
    author: str
    rkey: str


@dataclass(frozen=True, slots=True)
class Frequency:
    """How many facts of the whole file hold a word, and how often they do."""

    facts: int
    occurrences: int


@dataclass(frozen=True, slots=True)
class Postings:
    """The facts that hold a word: one entry an occurrence, by id; `columns` tells the field."""

    ids: NDArray[np.int64]
    columns: NDArray[np.int64]

    def cut(self, limit: int) -> Postings:
        """Give the first `limit` of them."""
        return self if len(self.ids) <= limit else Postings(self.ids[:limit], self.columns[:limit])

    def by_id(self) -> Postings:
        """Give them in the order of their facts."""
        order = np.argsort(self.ids, kind="stable")
        return Postings(self.ids[order], self.columns[order])


class SearchReads:
    """Reads of one snapshot. Make one a unit of work."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.data_version = data_version(connection)
        self.index: VectorIndex | None = vectors.find(connection, "active")

    @cached_property
    def analysis(self) -> str | None:
        """The version of the analysis that the keyword index is good for."""
        return meta.read(self.connection, "analysis")

    @property
    def bulk(self) -> IndexReads:
        """Reads for an index in memory."""
        return IndexReads(self.connection)

    def until(self, over: Callable[[], bool]) -> AbstractContextManager[None]:
        """Stop the statements of a block, with `Stopped`, once `over` tells so."""
        return stopping(self.connection, over)

    @cached_property
    def _count(self) -> int:
        sql = f"SELECT count(*) FROM facts AS f INDEXED BY facts_live WHERE {LIVE}"  # noqa: S608
        return int(self.connection.execute(sql).fetchone()[0])

    def count(self) -> int:
        """Count the live facts."""
        return self._count

    def are_more_than(self, number: int) -> bool:
        """Tell whether there are more live facts than that, without counting all."""
        sql = f"SELECT 1 FROM facts AS f INDEXED BY facts_live WHERE {LIVE} LIMIT 1 OFFSET ?"  # noqa: S608
        return self.connection.execute(sql, (number,)).fetchone() is not None

    def are_so_many(self, number: int) -> bool:
        """Tell whether that is the number of live facts. The vector index tells at once where it has all."""
        try:
            if self._indexed() == number:
                return True
        except IndexDamaged:
            pass
        return self.count() == number

    def _indexed(self) -> int:
        if self.index is None:
            return 0
        with of_index("vector"):
            sql = f"SELECT count(*) FROM ({self.index.ids_sql()})"  # noqa: S608
            return int(self.connection.execute(sql).fetchone()[0])

    # Which facts.

    def ids(self, scope: Scope, filters: Filters = NO_FILTERS) -> NDArray[np.int64]:
        """List the live facts inside a scope and filters."""
        condition = render(scope, filters)
        # The condition looks every fact's labels up; starting from the label's facts is faster by as much as
        # the label is rare.
        labelled = " AND f.id IN (SELECT fact_id FROM fact_labels WHERE label = ?)" * len(filters.tags)
        return self._ids(
            f"SELECT f.id AS number FROM facts AS f WHERE {LIVE}{labelled}{condition.clause}",  # noqa: S608
            (*filters.tags, *condition.params),
        )

    def every_id(self) -> NDArray[np.int64]:
        """List the live facts. What is derived of them may have lost some."""
        return self._ids(f"SELECT f.id AS number FROM facts AS f INDEXED BY facts_live WHERE {LIVE}")  # noqa: S608

    def phrase(self, words: Sequence[str]) -> NDArray[np.int64]:
        """List the facts that hold marked exact words one after the other; raise `IndexDamaged`."""
        quoted = " ".join(words).replace('"', '""')
        with of_index("keyword"):
            return self._ids(
                "SELECT rowid AS number FROM facts_fts WHERE facts_fts MATCH ?", (f'exact : "{quoted}"',)
            )

    def neighbours(
        self, ids: Iterable[int], scope: Scope, reach: int, gap: int, filters: Filters = NO_FILTERS
    ) -> dict[int, tuple[int, ...]]:
        """List what stands around facts: inside a scope and filters, at the same path, the `reach` before
        and as many after in time order, no further away than `gap` microseconds."""
        condition = render(scope, filters)

        def side(order: str, compare: str, edge: str) -> tuple[str, tuple[object, ...]]:
            # Three reads of the index, nearest first: one comparison of all three columns would walk through
            # every fact of the same instant.
            within = f"f.ordered_at {compare} a.ordered_at AND f.ordered_at {edge} ?"
            ties = "f.ordered_at = a.ordered_at AND f.author"
            parts = [
                (f"{ties} = a.author AND f.rkey {compare} a.rkey", f"f.rkey {order}", ()),
                (f"{ties} {compare} a.author", f"f.author {order}, f.rkey {order}", ()),
                (within, f"f.ordered_at {order}, f.author {order}, f.rkey {order}", (gap,)),
            ]
            reads = " UNION ALL ".join(
                "SELECT id FROM (SELECT f.id FROM facts AS f"  # noqa: S608
                f" WHERE f.path_id = a.path_id AND {LIVE} AND {where}{condition.clause}"
                f" ORDER BY {by} LIMIT {_GIVEN})"
                for where, by, _ in parts
            )
            params = [value for _, _, own in parts for value in (*own, *condition.params, reach)]
            nearest = f"SELECT id FROM ({reads}) LIMIT {_GIVEN}"  # noqa: S608
            return f"(SELECT group_concat(id) FROM ({nearest}))", (*params, reach)  # noqa: S608

        before, params_before = side("DESC", "<", ">= a.ordered_at -")
        after, params_after = side("ASC", ">", "<= a.ordered_at +")
        rows = self.connection.execute(
            f"SELECT a.id, {before}, {after}"  # noqa: S608
            " FROM json_each(?) AS asked CROSS JOIN facts AS a ON a.id = asked.value",
            (*params_before, *params_after, json.dumps(list(ids))),
        )
        return {
            id_: tuple([int(number) for part in (before, after) if part for number in part.split(",")])
            for id_, before, after in rows
        }

    # Words. All raise `IndexDamaged` where their index cannot be read.

    def frequencies(self, terms: Sequence[str]) -> dict[str, Frequency]:
        """Count each word that occurs."""
        with of_index("keyword"):
            rows = self.connection.execute(
                "SELECT w.term, w.doc, w.cnt FROM json_each(?) AS asked CROSS JOIN facts_fts_words AS w"
                " ON w.term = asked.value",
                (json.dumps(terms),),
            )
            return {term: Frequency(facts, occurrences) for term, facts, occurrences in rows}

    def occurrences(self, terms: Sequence[str], starts: Sequence[str], enough: int) -> int:
        """Count how often words, and words that start so, occur, at least as far as `enough`: a twentieth of
        what reading them costs."""
        ranges = [(term, term) for term in terms]
        ranges += [(start, start + _LAST_CHARACTER) for start in starts]
        with of_index("keyword"):
            (count,) = self.connection.execute(
                "SELECT total(cnt) FROM (SELECT w.cnt FROM json_each(?) AS asked"
                " CROSS JOIN facts_fts_words AS w"
                " ON w.term >= asked.value ->> 0 AND w.term <= asked.value ->> 1 LIMIT ?)",
                (json.dumps(ranges), enough + 1),  # a word occurs at least once
            ).fetchone()
        return int(count)

    def postings(self, term: str, limit: int | None) -> Postings:
        """Read where a word occurs, by fact, at most `limit` occurrences."""
        return self._postings("term = ?", (term,), limit)

    def postings_of_prefix(self, prefix: str, limit: int | None) -> Postings:
        """Read where words occur that start with a prefix, by word, at most `limit` occurrences."""
        return self._postings("term >= ? AND term < ?", (prefix, prefix + _LAST_CHARACTER), limit)

    def lengths(self, ids: NDArray[np.int64] | None = None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Count the exact words of facts, of all of them unless told: ids and counts."""
        if ids is None:
            return self._lengths("facts_fts_docsize AS d", ())
        if len(ids) <= _FEW or len(ids) < (int(ids[-1]) - int(ids[0])) // _SPREAD:
            asked = "json_each(?) AS asked CROSS JOIN facts_fts_docsize AS d ON d.id = asked.value"
            return self._lengths(asked, (json.dumps(ids.tolist()),))
        found, counts = self._lengths(
            "facts_fts_docsize AS d WHERE d.id BETWEEN ? AND ?", (int(ids[0]), int(ids[-1]))
        )
        wanted = np.isin(found, ids, assume_unique=True)
        return found[wanted], counts[wanted]

    def _lengths(self, where: str, params: Sequence[object]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        # FTS5 keeps the number of words a column as variable-length integers, `exact` last; three bytes hold
        # more than a record can.
        with of_index("keyword"):
            ids, sizes = self.connection.execute(
                "SELECT group_concat(number), group_concat(size, '') FROM"  # noqa: S608
                f" (SELECT d.id AS number, hex(substr(d.sz, -3)) AS size FROM {where} ORDER BY d.id)",
                params,
            ).fetchone()
        if ids is None:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        tail = np.frombuffer(bytes.fromhex(sizes), np.uint8).reshape(-1, 3).astype(np.int64)
        high, middle, low = tail[:, 0], tail[:, 1], tail[:, 2]
        counts = low + np.where(middle >= 0x80, (middle & 0x7F) << 7, 0)
        counts += np.where((middle >= 0x80) & (high >= 0x80), (high & 0x7F) << 14, 0)
        return np.fromstring(ids, np.int64, sep=","), counts.astype(np.float32)

    # Vectors.

    def embeddings(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Read the published vectors of facts in the active model, in the order of their ids."""
        if self.index is None:
            return np.empty(0, np.int64), np.empty((0, 0), np.float16)
        key = self.index
        rows = self.connection.execute(
            "SELECT f.id, CASE f.embedding_model WHEN ? THEN f.embedding ELSE f.next_embedding END"
            " FROM json_each(?) AS asked CROSS JOIN facts AS f ON f.id = asked.value ORDER BY f.id",
            (key.model_id, json.dumps(ids.tolist())),
        ).fetchall()
        width = 2 * key.key.dims
        usable = [(id_, vector) for id_, vector in rows if vector is not None and len(vector) == width]
        found = np.fromiter((id_ for id_, _ in usable), np.int64, len(usable))
        data = np.frombuffer(b"".join([vector for _, vector in usable]), dtype="<f2")
        return found, data.reshape(len(usable), key.key.dims)

    def nearest(
        self, vector: bytes, k: int, scope: Scope | None = None, filters: Filters = NO_FILTERS
    ) -> list[int]:
        """List the ids of the facts nearest to a float32 unit vector, of all or of those inside a scope and
        filters, at most `vectors.MAX_K`; raise `IndexDamaged` where the index does not hold all facts."""
        if self.index is None:
            return []
        allowed = ""
        params: tuple[str | int, ...] = ()
        if scope is not None:
            condition = render(scope, filters)
            allowed = f"SELECT f.id FROM facts AS f WHERE {LIVE}{condition.clause}"  # noqa: S608
            params = condition.params
        with of_index("vector"):
            if self._indexed() != self.count():
                raise IndexDamaged("vector")
            rows = self.connection.execute(
                self.index.nearest_sql(allowed), (vector, min(k, vectors.MAX_K), *params)
            ).fetchall()
        return [row[0] for row in rows]

    # Facts.

    def places(self, ids: Iterable[int]) -> dict[int, Place]:
        """Read what orders facts of equal score; those that are not live are left out."""
        rows = self.connection.execute(
            "SELECT f.id, f.ordered_at, f.author, f.rkey FROM json_each(?) AS asked"  # noqa: S608
            f" CROSS JOIN facts AS f ON f.id = asked.value WHERE {LIVE}",
            (json.dumps(list(ids)),),
        )
        return {row[0]: Place(row[1], row[2], row[3]) for row in rows}

    def facts(self, ids: Sequence[int]) -> dict[int, Fact]:
        """Read live facts by id."""
        rows = self.connection.execute(
            f"SELECT {FACT_COLUMNS} FROM json_each(?) AS asked CROSS JOIN {FACT_TABLES}"  # noqa: S608
            f" WHERE f.id = asked.value AND {LIVE}",
            (json.dumps(list(ids)),),
        )
        return {row[0]: fact(row) for row in rows}

    def _postings(self, which: str, params: Sequence[object], limit: int | None) -> Postings:
        with of_index("keyword"):
            packed = self._numbers(
                "SELECT doc * 4 + CASE col WHEN 'text' THEN 0 WHEN 'tags' THEN 1 WHEN 'source' THEN 2"  # noqa: S608
                f" ELSE 3 END AS number FROM facts_fts_places WHERE {which} LIMIT {_GIVEN}",
                (*params, -1 if limit is None else limit),
            )
        return Postings(packed >> 2, packed & 3)

    def _ids(self, sql: str, params: Sequence[object] = ()) -> NDArray[np.int64]:
        ids = self._numbers(sql, params)
        ids.sort()
        return ids

    def _numbers(self, sql: str, params: Sequence[object]) -> NDArray[np.int64]:
        """Run a query for one column `number`, in the order it gives. Handing over one text costs a
        quarter of handing over rows."""
        text = self.connection.execute(
            f"SELECT group_concat(number) FROM ({sql})",  # noqa: S608
            params,
        ).fetchone()[0]
        return np.fromstring(text, np.int64, sep=",") if text is not None else np.empty(0, np.int64)
