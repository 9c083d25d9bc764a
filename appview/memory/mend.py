"""Deriving anew all that follows from the facts: keywords, vectors, labels, attributes, places in the tree.

What the facts themselves say stays, and with it history and recall, which no repo could give back. Afterwards
`check` finds nothing, unless the facts or the tree are wrong; then only the authors' repos can help.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from appview.memory import keywords, vectors
from appview.memory.apply import Outcome
from appview.memory.configure import take_out
from appview.memory.judge import Fits, judge
from appview.memory.meta import read_config
from appview.memory.stored import live_facts
from appview.memory.writer import NewFact
from appview.sqlite import statements
from lexicons.memories import read_tags

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from appview.memory.writer import Writer
    from appview.sqlite import Connection

_CLEAR: Final = (
    "DELETE FROM fact_labels",
    "DELETE FROM fact_tags",
    "DELETE FROM effective_tags",
    "DELETE FROM fact_links",
    "DELETE FROM skipped WHERE EXISTS (SELECT 1 FROM facts AS f WHERE f.author = skipped.author"
    " AND f.rkey = skipped.rkey AND f.invalidated_at IS NULL)",
    "DELETE FROM facts AS f WHERE EXISTS (SELECT 1 FROM facts AS t WHERE t.author = f.author"
    " AND t.rkey = f.rkey AND t.deleted_at IS NOT NULL AND f.id < t.id)",
    "UPDATE facts SET cid = '', rev = '', content = '', source = NULL, tags = '[]', embedding_model = NULL,"
    " embedding = NULL, next_embedding_model = NULL, next_embedding = NULL, supersedes_id = NULL,"
    " path_id = 1 WHERE deleted_at IS NOT NULL",
)


# Tables, and what belongs to them, that hold nothing but what follows from the facts.
_DERIVED: Final = ("fact_tags", "effective_tags", "fact_labels", "fact_links", "facts_fts")
_CREATED: Final = re.compile(
    rf"\s*(?:--[^\n]*\n\s*)*CREATE (?:UNIQUE |VIRTUAL )?(?:TABLE|INDEX) ((?:{'|'.join(_DERIVED)})\w*)"
)


def restore(connection: Connection, migrations: Traversable) -> list[str]:
    """Make derived tables anew, empty, that are not there any more; name them."""
    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    lost: list[str] = []
    for entry in sorted(migrations.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".sql"):
            for statement in statements(entry.read_text(encoding="utf-8")):
                found = _CREATED.match(statement)
                if found is not None and found[1] not in there:
                    connection.execute(statement)
                    lost.append(found[1])
    return lost


def mend(writer: Writer) -> None:
    """Clear what is derived and derive it from the live facts."""
    connection, outcome = writer.connection, Outcome()
    writer.changed = True
    for statement in _CLEAR:
        connection.execute(statement)
    keywords.clear(connection)
    config = read_config(connection)
    active = config.model if config is not None else None
    following = config.next if config is not None else None
    for role in vectors.ROLES:
        vectors.drop(connection, role)
    writer.active = vectors.create(connection, "active", active) if active is not None else None
    writer.building = vectors.create(connection, "next", following) if following is not None else None
    for chunk in live_facts(connection):
        connection.executemany(
            "UPDATE facts SET path_id = ?1 WHERE id = ?2 AND path_id <> ?1",
            [(writer.paths.ensure(read_tags(each.memory.tags).path), fact_id) for fact_id, each in chunk],
        )
        verdicts = judge([version.memory for _, version in chunk], active, following)
        judged = list(zip(chunk, verdicts, strict=True))
        writer.make_live(
            [
                NewFact(version, verdict, revives=fact_id)
                for (fact_id, version), verdict in judged
                if isinstance(verdict, Fits)
            ]
        )
        unfit = [item for item, verdict in judged if not isinstance(verdict, Fits)]
        take_out(writer, unfit, active, outcome)
    writer.paths.remove_unused([row[0] for row in connection.execute("SELECT id FROM paths").fetchall()])
