"""Reading facts back as the versions of records they came from, and deriving again what follows from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from appview.memory import meta
from appview.memory.inserts import insert_many
from appview.memory.links import LINKS_VERSION
from appview.memory.writer import LINKS, Version, link_rows
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from appview.sqlite import Connection

CHUNK: Final = 500  # facts read and judged at a time


def authors_of(connection: Connection) -> frozenset[Did]:
    """List everyone of whom a record is live or left out."""
    rows = connection.execute(
        "SELECT DISTINCT author FROM facts WHERE invalidated_at IS NULL UNION SELECT author FROM skipped"
    )
    return frozenset(Did(row[0]) for row in rows)


def filled_of(connection: Connection) -> dict[Did, str | None]:
    """List everyone whose repo was applied, with the digest of what they might write, where that is known."""
    rows = connection.execute("SELECT author, scope FROM repos")
    return {Did(author): scope for author, scope in rows}


def versions_of(connection: Connection, author: str) -> dict[str, Version]:
    """Read an author's live facts by record key."""
    return {
        version.key[1]: version
        for chunk in live_facts(connection, "f.author = ?", (author,))
        for _, version in chunk
    }


def live_facts(
    connection: Connection, where: str = "1", values: Sequence[str] = ()
) -> Iterator[list[tuple[int, Version]]]:
    """Read live facts with their ids, in chunks. `where` is a condition over `f` that binds `values`."""
    last = 0
    models = {
        row[0]: ModelKey(row[1], row[2], row[3])
        for row in connection.execute("SELECT id, model, digest, dims FROM models")
    }
    while True:
        rows = connection.execute(
            "SELECT f.id, f.author, f.rkey, f.rev, f.cid, f.content, f.source, f.tags, f.created_at,"  # noqa: S608
            " f.embedding_model, f.embedding, f.next_embedding_model, f.next_embedding FROM facts AS f"
            f" WHERE f.id > ? AND f.invalidated_at IS NULL AND {where} ORDER BY f.id LIMIT ?",
            (last, *values, CHUNK),
        ).fetchall()
        if not rows:
            return
        last = rows[-1][0]
        yield [(row[0], _version(row, models)) for row in rows]


def refresh_links(connection: Connection) -> None:
    """Read the links of the facts again where another version of the rules has read them."""
    if meta.read(connection, "links") == LINKS_VERSION:
        return
    connection.execute("DELETE FROM fact_links")
    for chunk in live_facts(connection):
        insert_many(
            connection, LINKS, [row for fact_id, version in chunk for row in link_rows(fact_id, version)]
        )
    meta.touch(connection)
    meta.write(connection, "links", LINKS_VERSION)


def _version(row: Sequence[Any], models: dict[int, ModelKey]) -> Version:
    memory = Memory(
        text=row[5],
        created_at=row[8],
        embedding=Embedding(models[row[9]], row[10]),
        next_embedding=None if row[11] is None else Embedding(models[row[11]], row[12]),
        tags=tuple(json.loads(row[7])),
        source=row[6],
    )
    return Version((row[1], row[2]), row[3], row[4], memory)
