"""Changing the facts of a file: inserting, indexing, retiring, burying, leaving out.

The statements of one transaction, each over many facts. What decides is in `judge` and `apply`; this module
keeps `facts` and everything derived from it in step: whoever inserts or retires through it cannot forget the
keyword index, the vectors, the labels or the attributes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.memory import keywords, strength, vectors
from appview.memory.hidden import set_hidden
from appview.memory.inserts import insert_many
from appview.memory.links import read_links
from appview.memory.paths import ROOT_ID, PathTree
from appview.memory.tags import own_attributes
from lexicons.data import encode
from lexicons.datetimes import parse_micros
from lexicons.embeddings import ENCODING
from lexicons.ids import MEMORY
from lexicons.memories import read_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from appview.memory.analyser import Analyser
    from appview.memory.judge import Fits
    from appview.memory.values import SkipReason
    from appview.sqlite import Connection
    from lexicons.embeddings import Embedding
    from lexicons.memories import Memory
    from lexicons.models import ModelKey

Key = tuple[str, str]  # author, rkey: what a record is called inside a space
LINKS: Final = "fact_links (fact_id, kind, target_author, target)"


@dataclass(frozen=True, slots=True)
class Version:
    """A record as one commit has it."""

    key: Key
    rev: str
    cid: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class NewFact:
    """A version to make live: as a new row after the row it supersedes, or, with `revives`, as an old row."""

    version: Version
    fits: Fits
    supersedes: int | None = None
    revives: int | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """A version to leave out. `memory` is kept where it may fit another config, `tags`, where they are
    known, to tell who may see it; `brief` may be logged."""

    key: Key
    rev: str
    cid: str
    reason: SkipReason
    detail: str
    memory: Memory | None = None
    tags: tuple[str, ...] | None = None
    brief: str = ""


class Writer:
    """Writes facts inside one transaction of a connection."""

    def __init__(self, connection: Connection, analyser: Analyser, now: int) -> None:
        self.connection = connection
        self.now = now
        self.changed = False  # whether a query can see what was done
        self.paths = PathTree(connection)
        self.active = vectors.find(connection, "active")
        self.building = vectors.find(connection, "next")
        self._analyser = analyser
        self._models: dict[ModelKey, int] = {}

    def make_live(self, facts: Sequence[NewFact]) -> None:
        """Write and index facts; none of their records may have a live one."""
        if not facts:
            return
        if self.active is None:
            raise AssertionError("a fact that fits without an active index")
        self.changed = True
        next_id = self._last_id() + 1
        inserts, words, labels, own_tags, effective, links = [], [], [], [], [], []
        current, following = [], []
        for fact in facts:
            memory = fact.version.memory
            topics = read_tags(memory.tags)
            if fact.revives is not None:
                fact_id = fact.revives
            else:
                fact_id, next_id = next_id, next_id + 1
                inserts.append(self._row(fact_id, fact, self.paths.ensure(topics.path)))
            words.append((fact_id, memory))
            labels.extend([(tag, fact_id) for tag in dict.fromkeys(memory.tags)])
            own = own_attributes(topics.attributes)
            links.extend(link_rows(fact_id, fact.version))
            own_tags.extend([(fact_id, key, value) for key, value in own.items()])
            effective.extend(
                [
                    (fact_id, key, value)
                    for key, value in self.paths.inherited(topics.path).effective(own).items()
                ]
            )
            current.append((fact_id, fact.fits.vector))
            if fact.fits.next_vector is not None:
                following.append((fact_id, fact.fits.next_vector))
        connection = self.connection
        connection.executemany(
            "UPDATE facts SET invalidated_at = NULL WHERE id = ?",
            [(fact.revives,) for fact in facts if fact.revives is not None],
        )
        insert_many(
            connection,
            "facts (id, uri, cid, author, rkey, rev, path_id, content, source, tags, created_at, recorded_at,"
            " ordered_at, supersedes_id, embedding_model, embedding, next_embedding_model, next_embedding)",
            inserts,
        )
        keywords.insert(connection, self._analyser, words)
        insert_many(connection, "fact_labels (label, fact_id)", labels)
        insert_many(connection, LINKS, links)
        insert_many(connection, "fact_tags (fact_id, key, value)", own_tags)
        insert_many(connection, "effective_tags (fact_id, key, value)", effective)
        self.active.insert(connection, current)
        if self.building is not None:
            self.building.insert(connection, following)

    def retire(self, fact_ids: Iterable[int]) -> None:
        """Take live facts out of everything that finds them; their rows stay as history."""
        ids = [(fact_id,) for fact_id in fact_ids]
        if not ids:
            return
        self.changed = True
        many = self.connection.executemany
        labels = []
        for (fact_id,) in ids:
            (tags,) = self.connection.execute("SELECT tags FROM facts WHERE id = ?", (fact_id,)).fetchone()
            labels.extend([(tag, fact_id) for tag in json.loads(tags)])
        many("UPDATE facts SET invalidated_at = ? WHERE id = ?", [(self.now, fact_id) for (fact_id,) in ids])
        keywords.delete(self.connection, [fact_id for (fact_id,) in ids])
        many("DELETE FROM fact_labels WHERE label = ? AND fact_id = ?", labels)
        many("DELETE FROM fact_links WHERE fact_id = ?", ids)
        many("DELETE FROM fact_tags WHERE fact_id = ?", ids)
        many("DELETE FROM effective_tags WHERE fact_id = ?", ids)
        for index in (self.active, self.building):
            if index is not None:
                index.delete(self.connection, [fact_id for (fact_id,) in ids])

    def bury(self, key: Key) -> bool:
        """Remove every version of a record and leave a tombstone; false where there was none to remove."""
        rows = self.connection.execute(
            "SELECT id, path_id, 1, deleted_at FROM facts"
            " WHERE author = ?1 AND rkey = ?2 AND invalidated_at IS NULL"
            " UNION ALL SELECT id, path_id, 0, deleted_at FROM facts"
            " WHERE author = ?1 AND rkey = ?2 AND invalidated_at IS NOT NULL ORDER BY id",
            key,
        ).fetchall()
        if all(deleted_at is not None for *_, deleted_at in rows):
            return False
        self.retire([fact_id for fact_id, _, live, _ in rows if live])
        *older, (newest, *_) = rows
        self.connection.executemany("DELETE FROM facts WHERE id = ?", [(row[0],) for row in older])
        self.connection.execute(
            "UPDATE facts SET cid = '', rev = '', path_id = ?, content = '', source = NULL, tags = '[]',"
            " embedding_model = NULL, embedding = NULL, next_embedding_model = NULL, next_embedding = NULL,"
            " supersedes_id = NULL, invalidated_at = coalesce(invalidated_at, ?), deleted_at = ?"
            " WHERE id = ?",
            (ROOT_ID, self.now, self.now, newest),
        )
        self.paths.remove_unused(path_id for _, path_id, *_ in rows)
        strength.forget(self.connection, *key)
        return True

    def erase_author(self, author: str) -> None:
        """Remove everything of an author, tombstones too."""
        live = self.connection.execute(
            "SELECT id FROM facts WHERE author = ? AND invalidated_at IS NULL", (author,)
        ).fetchall()
        self.retire([row[0] for row in live])
        gone = self.connection.execute(
            "DELETE FROM facts WHERE author = ? AND invalidated_at IS NOT NULL RETURNING path_id", (author,)
        ).fetchall()
        self.paths.remove_unused({row[0] for row in gone})
        self.connection.execute("DELETE FROM skipped WHERE author = ?", (author,))
        self.connection.execute("DELETE FROM repos WHERE author = ?", (author,))
        self.set_hidden(author, False)
        strength.forget(self.connection, author)
        self.changed = True

    def set_hidden(self, author: str, hidden: bool) -> None:
        """Hide all that is an author's from readers, or show it again."""
        if set_hidden(self.connection, author, self.now, hidden=hidden):
            self.changed = True

    def leave_out(self, skips: Sequence[Skip]) -> None:
        """Remember records that are not indexed, in place of what was remembered of them before."""
        if not skips:
            return
        self.changed = True
        self.connection.executemany(
            "INSERT OR REPLACE INTO skipped (author, rkey, rev, cid, reason, detail, tags, record, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *skip.key,
                    skip.rev,
                    skip.cid,
                    skip.reason,
                    skip.detail,
                    _tags(skip),
                    encode(skip.memory.to_record()) if skip.memory is not None else None,
                    self.now,
                )
                for skip in skips
            ],
        )

    def take_in(self, keys: Sequence[Key]) -> None:
        """Forget that records were left out."""
        if not keys:
            return
        self.changed = True
        self.connection.executemany("DELETE FROM skipped WHERE author = ? AND rkey = ?", keys)

    def _last_id(self) -> int:
        row = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'facts'").fetchone()
        return 0 if row is None else int(row[0])

    def _row(self, fact_id: int, fact: NewFact, path_id: int) -> tuple[object, ...]:
        version, memory = fact.version, fact.version.memory
        author, rkey = version.key
        following = memory.next_embedding
        return (
            fact_id,
            f"at://{author}/{MEMORY}/{rkey}",
            version.cid,
            author,
            rkey,
            version.rev,
            path_id,
            memory.text,
            memory.source,
            json.dumps(memory.tags),
            memory.created_at,
            self.now,
            min(parse_micros(memory.created_at), self.now),
            fact.supersedes,
            self._model(memory.embedding.key),
            _stored(memory.embedding),
            None if following is None else self._model(following.key),
            None if following is None else _stored(following),
        )

    def _model(self, key: ModelKey) -> int:
        known = self._models.get(key)
        if known is None:
            known = self._models[key] = vectors.model_id(self.connection, key)
        return known


def _tags(skip: Skip) -> str | None:
    tags = skip.memory.tags if skip.memory is not None else skip.tags
    return None if tags is None else json.dumps(tags)


def link_rows(fact_id: int, version: Version) -> list[tuple[int, str, str, str]]:
    """Write what a version points to as rows of `LINKS`."""
    links = read_links(*version.key, version.memory.text, version.memory.tags)
    return [(fact_id, link.kind, link.author, link.target) for link in links]


def _stored(embedding: Embedding) -> bytes:
    # A column holds f16le; of another encoding nothing can be read, and no bytes say the same.
    return embedding.vector if embedding.encoding == ENCODING else b""
