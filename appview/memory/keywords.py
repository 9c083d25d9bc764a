"""The keyword index: the only module that writes `facts_fts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.memory.inserts import insert_many

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.memory.analyser import Analyser
    from appview.sqlite import Connection
    from lexicons.memories import Memory


def insert(connection: Connection, analyser: Analyser, facts: Iterable[tuple[int, Memory]]) -> None:
    """Add the words of memories under their fact ids."""
    rows = []
    for fact_id, memory in facts:
        words = analyser.document(memory.text, memory.tags, memory.source)
        rows.append((fact_id, words.text, words.tags, words.source, words.exact))
    insert_many(connection, "facts_fts (rowid, text, tags, source, exact)", rows)


def delete(connection: Connection, fact_ids: Iterable[int]) -> None:
    """Remove the words of facts."""
    connection.executemany("DELETE FROM facts_fts WHERE rowid = ?", [(fact_id,) for fact_id in fact_ids])


def clear(connection: Connection) -> None:
    """Remove the words of every fact."""
    connection.execute("INSERT INTO facts_fts (facts_fts) VALUES ('delete-all')")
