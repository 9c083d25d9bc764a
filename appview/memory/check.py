"""Verifying a file: what is derived from the facts must follow from them, row by row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from appview.memory import vectors
from appview.memory.errors import IndexDamaged, of_index
from appview.memory.judge import embedding_for
from appview.memory.links import read_links
from appview.memory.paths import PathTree
from appview.memory.stored import live_facts
from appview.memory.tags import own_attributes
from lexicons.memories import read_tags

if TYPE_CHECKING:
    from appview.sqlite import Connection

# What each finds is wrong.
_EMPTY: Final = {
    "a live fact without keywords": "SELECT id FROM facts WHERE invalidated_at IS NULL"
    " AND id NOT IN (SELECT id FROM facts_fts_docsize)",
    "keywords without a live fact": "SELECT id FROM facts_fts_docsize"
    " WHERE id NOT IN (SELECT id FROM facts WHERE invalidated_at IS NULL)",
    "a fact at a path that does not exist": "SELECT id FROM facts"
    " WHERE path_id NOT IN (SELECT id FROM paths)",
    "a record both live and skipped": "SELECT f.id FROM facts AS f JOIN skipped AS s"
    " ON s.author = f.author AND s.rkey = f.rkey WHERE f.invalidated_at IS NULL",
    "a tombstone that still holds something": "SELECT id FROM facts WHERE deleted_at IS NOT NULL"
    " AND (content <> '' OR cid <> '' OR tags <> '[]' OR source IS NOT NULL OR embedding IS NOT NULL"
    " OR next_embedding IS NOT NULL OR path_id <> 1)",
    "a version beside its tombstone": "SELECT f.id FROM facts AS f JOIN facts AS t"
    " ON t.author = f.author AND t.rkey = f.rkey AND t.deleted_at IS NOT NULL AND f.id < t.id",
    "a path that nobody uses": "SELECT id FROM paths AS p WHERE id <> 1"
    " AND NOT EXISTS (SELECT 1 FROM facts WHERE path_id = p.id)"
    " AND NOT EXISTS (SELECT 1 FROM paths AS c WHERE c.parent_id = p.id)"
    " AND NOT EXISTS (SELECT 1 FROM path_tags WHERE path_id = p.id)",
    "a strength of a record that is gone": "SELECT s.number"
    " FROM (SELECT row_number() OVER () AS number, author, rkey FROM strengths) AS s"
    " WHERE NOT EXISTS (SELECT 1 FROM facts AS f WHERE f.author = s.author"
    " AND f.rkey = s.rkey AND f.deleted_at IS NULL)",
    "a path under the wrong parent": "SELECT c.id FROM paths AS c JOIN paths AS p ON p.id = c.parent_id"
    " WHERE c.full_path <> iif(p.id = 1, '', p.full_path) || '/' || c.segment",
}
# The same of the keyword index that is being made beside.
_NEXT_EMPTY: Final = {
    "a live fact without keywords in the next index": "SELECT id FROM facts WHERE invalidated_at IS NULL"
    " AND id <= (SELECT done FROM reanalysis) AND id NOT IN (SELECT id FROM facts_fts_next_docsize)",
    "keywords in the next index without a live fact": "SELECT id FROM facts_fts_next_docsize"
    " WHERE id NOT IN (SELECT id FROM facts WHERE invalidated_at IS NULL)",
}
_MAX_SHOWN: Final = 5  # ids named in one finding


def check(connection: Connection) -> list[str]:
    """List what is wrong with the file; nothing, where all is well."""
    findings: list[str] = []
    try:
        with of_index("keyword"):
            # FTS5 checks what this connection last knew of its index; a query makes it look again.
            connection.execute("SELECT rowid FROM facts_fts WHERE facts_fts MATCH 'x' LIMIT 1").fetchall()
    except IndexDamaged as error:
        findings.append(f"{error}: {error.__cause__}")
    findings += [
        f"sqlite: {row[0]}" for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"
    ]
    findings += [
        f"foreign key of {row[0]} {row[1]}" for row in connection.execute("PRAGMA foreign_key_check")
    ]
    for what, sql in _EMPTY.items():
        _report(findings, what, {row[0] for row in connection.execute(sql)})
    if connection.execute("SELECT 1 FROM reanalysis").fetchone() is not None:
        for what, sql in _NEXT_EMPTY.items():
            _report(findings, what, {row[0] for row in connection.execute(sql)})
    _check_vectors(connection, findings)
    _check_tags(connection, findings)
    return findings


def _check_vectors(connection: Connection, findings: list[str]) -> None:
    live = {row[0] for row in connection.execute("SELECT id FROM facts WHERE invalidated_at IS NULL")}
    for role in vectors.ROLES:
        index = vectors.find(connection, role)
        held = {row[0] for row in connection.execute(index.ids_sql())} if index is not None else set()
        _report(findings, f"a vector of the {role} index without a live fact", held - live)
        if role == "active":
            _report(findings, "a live fact without a vector", live - held)
        if index is None:
            continue
        wrong, missing = set(), set()
        for chunk in live_facts(connection):
            for fact_id, version in chunk:
                embedding = embedding_for(version.memory, index.key)
                expected = vectors.unit_vectors([embedding], index.key.dims)[0] if embedding else None
                if expected is None:
                    wrong |= {fact_id} & held
                elif fact_id not in held:
                    missing.add(fact_id)
                elif index.vector(connection, fact_id) != expected:
                    wrong.add(fact_id)
        _report(findings, f"a wrong vector in the {role} index", wrong)
        _report(findings, f"a usable vector that the {role} index does not have", missing)


def _check_tags(connection: Connection, findings: list[str]) -> None:
    expected: dict[str, set[tuple[int, str, str]]] = {
        "fact_tags": set(),
        "effective_tags": set(),
        "fact_labels": set(),
        "fact_links": set(),
    }
    tree = PathTree(connection)
    for fact_id, author, rkey, text, tags_json, full_path in connection.execute(
        "SELECT f.id, f.author, f.rkey, f.content, f.tags, p.full_path FROM facts AS f"
        " JOIN paths AS p ON p.id = f.path_id"
        " WHERE f.invalidated_at IS NULL"
    ):
        tags = json.loads(tags_json)
        topics = read_tags(tags)
        if topics.path != full_path:
            findings.append(f"a fact at another path than its tags say: {fact_id}")
        own = own_attributes(topics.attributes)
        effective = tree.inherited(full_path).effective(own)
        expected["fact_tags"] |= {(fact_id, key, value) for key, value in own.items()}
        expected["effective_tags"] |= {(fact_id, key, value) for key, value in effective.items()}
        expected["fact_labels"] |= {(fact_id, tag, "") for tag in tags}
        expected["fact_links"] |= {
            (fact_id, link.kind, f"{link.author}/{link.target}")
            for link in read_links(author, rkey, text, tags)
        }
    for table, sql in (
        ("fact_tags", "SELECT fact_id, key, value FROM fact_tags"),
        ("effective_tags", "SELECT fact_id, key, value FROM effective_tags"),
        ("fact_labels", "SELECT fact_id, label, '' FROM fact_labels"),
        ("fact_links", "SELECT fact_id, kind, target_author || '/' || target FROM fact_links"),
    ):
        found = {tuple(row) for row in connection.execute(sql)}
        _report(findings, f"a wrong row in {table}", {row[0] for row in found ^ expected[table]})


def _report(findings: list[str], what: str, ids: set[int]) -> None:
    if ids:
        shown = ", ".join(str(fact_id) for fact_id in sorted(ids)[:_MAX_SHOWN])
        findings.append(f"{what}: {len(ids)} ({shown}{', ...' if len(ids) > _MAX_SHOWN else ''})")
