"""The keyword index: the only module that writes `facts_fts`, and the index that is made beside it.

An index is good for questions of one analysis. Where the file's is of another one than the program's, the old
index goes on answering while the new one is made: `next_step` plans, in a read, `Step.take` carries out, in
a write, each for a bounded number of facts. A step that finds the file changed since it was planned does
nothing.

Invariants: facts up to `reanalysis.done` are in both indexes or in none; what is written into an index is
analysed by that index's analysis, or, where this program does not have it any more, by its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from appview.memory import meta
from appview.memory.inserts import insert_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from appview.memory.analyser import Analyser
    from appview.sqlite import Connection
    from lexicons.memories import Memory

INDEX: Final = "facts_fts"
NEXT: Final = "facts_fts_next"  # beside it
REPLACED: Final = "replaced_words"  # what is left of one that is not needed any more
BATCH: Final = 500  # ours: facts analysed and written at a time, in about 0.1 s
SWEPT_ROWS: Final = 1_000  # ours: rows of a replaced index removed at a time, 4 MB
_NAME = re.compile(r'(?<=CREATE VIRTUAL TABLE )"?facts_fts"?(?= )')

Row = tuple[int, str, str, str, str]  # fact, and the columns of facts_fts


def claim(connection: Connection, analyser: Analyser) -> None:
    """Say in a new file which analysis fills it."""
    if meta.read(connection, "analysis") is None:
        meta.write(connection, "analysis", analyser.version)


def insert(connection: Connection, analyser: Analyser, facts: Iterable[tuple[int, Memory]]) -> None:
    """Add the words of memories under their fact ids."""
    texts = [(fact_id, memory.text, memory.tags, memory.source) for fact_id, memory in facts]
    found = meta.read(connection, "analysis")
    _add(connection, INDEX, _analysed(analyser.of_version(found or analyser.version) or analyser, texts))
    pending = _pending(connection)
    if pending is not None and pending.version == analyser.version:
        _add(connection, NEXT, _analysed(analyser, [text for text in texts if text[0] <= pending.done]))
    elif pending is not None:
        _abandon(connection)  # another program began it, and what it lacks now nobody would know


def delete(connection: Connection, fact_ids: Iterable[int]) -> None:
    """Remove the words of facts."""
    rows = [(fact_id,) for fact_id in fact_ids]
    connection.executemany("DELETE FROM facts_fts WHERE rowid = ?", rows)
    if _pending(connection) is not None:
        connection.executemany("DELETE FROM facts_fts_next WHERE rowid = ?", rows)


def clear(connection: Connection) -> None:
    """Remove the words of every fact."""
    connection.execute("INSERT INTO facts_fts (facts_fts) VALUES ('delete-all')")
    _abandon(connection)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a file is on its way to the program's analysis, in facts."""

    done: int
    total: int


def progress(connection: Connection, version: str) -> Progress:
    """Count what is of an analysis already and what is to be; reads the index of all facts."""
    pending = _pending(connection)
    last = pending.done if pending is not None else 0
    row = connection.execute(
        "SELECT count(*) FILTER (WHERE id <= ?), count(*) FROM facts WHERE invalidated_at IS NULL", (last,)
    ).fetchone()
    return Progress(row[1] if meta.read(connection, "analysis") == version else row[0], row[1])


def is_due(connection: Connection, version: str) -> bool:
    """Tell whether there is anything to do until the file is wholly of an analysis."""
    found = meta.read(connection, "analysis")
    return (
        (found is not None and found != version) or _exists(connection, NEXT) or _exists(connection, REPLACED)
    )


class Step(Protocol):
    """A bounded piece of the way to the program's analysis."""

    @property
    def facts(self) -> int:
        """How many facts it analyses."""
        ...

    def take(self, connection: Connection, analyser: Analyser) -> bool:
        """Write it; tell whether a query can see that."""
        ...


def next_step(connection: Connection, analyser: Analyser) -> Step | None:
    """Plan what is to be done next; None where the file is wholly of the program's analysis."""
    if _exists(connection, REPLACED):
        return Sweep()
    found, pending = meta.read(connection, "analysis"), _pending(connection)
    is_ours = pending is not None and pending.version == analyser.version and found != analyser.version
    if not is_ours and (pending is not None or _exists(connection, NEXT)):
        return Discard()
    if found is None or found == analyser.version:
        return None
    if pending is None:
        return Begin()
    texts = _texts(connection, "id > ?", (pending.done,))
    if len(texts) < BATCH:
        return Swap(pending, len(texts))
    return Batch(pending, texts[-1][0], _analysed(analyser, texts))


@dataclass(frozen=True, slots=True)
class Begin:
    """Make the empty index beside the one that answers."""

    facts: int = 0

    def take(self, connection: Connection, analyser: Analyser) -> bool:
        """Write it."""
        if not _exists(connection, NEXT):
            (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (INDEX,)).fetchone()
            connection.execute(_NAME.sub(NEXT, sql, count=1))
            connection.execute("INSERT INTO reanalysis VALUES (?, 0)", (analyser.version,))
        return False


@dataclass(frozen=True, slots=True)
class Batch:
    """Add the facts after `pending.done` up to `last`, read and analysed before anything is locked."""

    pending: Pending
    last: int
    rows: Sequence[Row]

    @property
    def facts(self) -> int:
        """How many facts it analyses."""
        return len(self.rows)

    def take(self, connection: Connection, analyser: Analyser) -> bool:
        """Write it. What has gone meanwhile is left out, what has come back to life is added."""
        if _pending(connection) != self.pending:
            return False
        between = (self.pending.done, self.last)
        live = {
            row[0]
            for row in connection.execute(
                "SELECT id FROM facts WHERE id > ? AND id <= ? AND invalidated_at IS NULL", between
            )
        }
        _add(connection, NEXT, [row for row in self.rows if row[0] in live])
        missing = live - {row[0] for row in self.rows}
        if missing:
            texts = _texts(
                connection, "id IN (SELECT value FROM json_each(?))", (json.dumps(sorted(missing)),)
            )
            _add(connection, NEXT, _analysed(analyser, texts))
        connection.execute("UPDATE reanalysis SET done = ?", (self.last,))
        return False


@dataclass(frozen=True, slots=True)
class Swap:
    """Add the last facts, fewer than a batch, and let the new index answer.

    In one: while others write there is always one fact more.
    """

    pending: Pending
    facts: int

    def take(self, connection: Connection, analyser: Analyser) -> bool:
        """Write it."""
        if _pending(connection) != self.pending or _exists(connection, REPLACED):
            return False
        texts = _texts(connection, "id > ?", (self.pending.done,))
        if len(texts) == BATCH:
            return False
        _add(connection, NEXT, _analysed(analyser, texts))
        _remove(connection, INDEX)
        connection.execute(f"ALTER TABLE {NEXT} RENAME TO {INDEX}")
        connection.execute("DELETE FROM reanalysis")
        meta.write(connection, "analysis", analyser.version)
        return True


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove an index that was begun for another analysis."""

    facts: int = 0

    def take(self, connection: Connection, analyser: Analyser) -> bool:
        """Write it."""
        pending = _pending(connection)
        if pending is not None and pending.version == analyser.version:
            return False
        _abandon(connection)
        if _exists(connection, NEXT) and not _exists(connection, REPLACED):
            _remove(connection, NEXT)
        return False


@dataclass(frozen=True, slots=True)
class Sweep:
    """Remove some of what is left of an index that answers no more."""

    facts: int = 0

    def take(self, connection: Connection, analyser: Analyser) -> bool:
        """Write it."""
        if not _exists(connection, REPLACED):
            return False
        gone = connection.execute(
            f"DELETE FROM {REPLACED} WHERE id IN (SELECT id FROM {REPLACED} LIMIT ?)",  # noqa: S608
            (SWEPT_ROWS,),
        ).rowcount
        if not gone:
            connection.execute(f"DROP TABLE {REPLACED}")
        return False


@dataclass(frozen=True, slots=True)
class Pending:
    """The index that is being made: its analysis, and the last fact it has."""

    version: str
    done: int


def _pending(connection: Connection) -> Pending | None:
    row = connection.execute("SELECT version, done FROM reanalysis").fetchone()
    return None if row is None else Pending(row[0], row[1])


def _abandon(connection: Connection) -> None:
    """Keep the index that is being made no longer in step; a later step removes it."""
    connection.execute("DELETE FROM reanalysis")


def _remove(connection: Connection, index: str) -> None:
    """Remove an index at once, but for its words, which take long and are removed bit by bit."""
    connection.execute(f"ALTER TABLE {index} RENAME TO facts_fts_gone")
    connection.execute(f"ALTER TABLE facts_fts_gone_data RENAME TO {REPLACED}")
    connection.execute("DROP TABLE facts_fts_gone")


def _texts(
    connection: Connection, where: str, values: Sequence[int | str]
) -> list[tuple[int, str, Sequence[str], str | None]]:
    """Read what is analysed of the first live facts of a condition."""
    rows = connection.execute(
        "SELECT id, content, tags, source FROM facts"  # noqa: S608
        f" WHERE {where} AND invalidated_at IS NULL ORDER BY id LIMIT ?",
        (*values, BATCH),
    )
    return [(id_, text, tuple(json.loads(tags)), source) for id_, text, tags, source in rows]


def _analysed(analyser: Analyser, texts: Iterable[tuple[int, str, Sequence[str], str | None]]) -> list[Row]:
    """Analyse texts; what many of them say, once."""
    rows: list[Row] = []
    known: dict[tuple[str, tuple[str, ...], str | None], tuple[str, str, str, str]] = {}
    for id_, text, tags, source in texts:
        said = (text, tuple(tags), source)
        columns = known.get(said)
        if columns is None:
            columns = known[said] = analyser.document(text, tags, source).columns
        rows.append((id_, *columns))
    return rows


def _add(connection: Connection, index: str, rows: Sequence[Row]) -> None:
    insert_many(connection, f"{index} (rowid, text, tags, source, exact)", rows)


def _exists(connection: Connection, table: str) -> bool:
    row = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    return row is not None
