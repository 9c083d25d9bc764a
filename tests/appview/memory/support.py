"""Memories, updates and files for the tests of a space's memory."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

import pysqlite3

from appview.memory import vectors
from appview.memory.analyser import AnalysedDocument
from appview.memory.apply import apply_updates
from appview.memory.check import check
from appview.memory.configure import configure
from appview.memory.values import Delete, Put, Refuse, RepoUpdate
from appview.memory.writer import Writer
from appview.sqlite import migrate
from lexicons.configs import Config
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from appview.memory.apply import Outcome
    from appview.memory.complete import Merge
    from appview.memory.values import Change
    from appview.sqlite import Connection

AUTHORITY, ALICE, BOB = Did("did:plc:authority"), Did("did:plc:alice"), Did("did:plc:bob")
SPACE = SpaceUri.public(AUTHORITY)
OLD, NEW, OTHER = ModelKey("old", "sha256:o", 4), ModelKey("new", "sha256:n", 6), ModelKey("x", "sha256:x", 4)
CREATED_AT = "2026-11-30T09:15:00.000Z"
NOW = 1_800_000_000_000_000  # 2027-01-15, after CREATED_AT
CONFIG = Config(OLD, CREATED_AT)
# Statements that damage a file with one live fact, and what the check says of it.
DAMAGE = {
    "DELETE FROM facts_fts WHERE rowid = 1": "without keywords",
    "INSERT INTO facts_fts (rowid, text) VALUES (99, 'x')": "keywords without a live fact",
    "DELETE FROM facts_vec_1 WHERE rowid = 1": "a live fact without a vector",
    "INSERT INTO facts_vec_1 (rowid, embedding) VALUES (99, '[1,0,0,0]')": "without a live fact",
    "UPDATE facts_vec_1 SET embedding = '[1,0,0,0]' WHERE rowid = 1": "a wrong vector",
    "INSERT INTO effective_tags VALUES (1, 'k', 'v')": "a wrong row in effective_tags",
    "INSERT INTO fact_labels VALUES ('l', 1)": "a wrong row in fact_labels",
    "INSERT INTO fact_tags VALUES (1, 'k', 'v')": "a wrong row in fact_tags",
    "UPDATE facts SET path_id = 7": "a path that does not exist",
    "INSERT INTO paths (parent_id, segment, full_path) VALUES (1, 'x', '/x')": "nobody uses",
    "INSERT INTO paths (parent_id, segment, full_path) VALUES (1, 'x', '/y')": "wrong parent",
    "INSERT INTO skipped SELECT author, rkey, rev, cid, 'blank', '', '[]', NULL, 0 FROM facts": "both",
}


class WordAnalyser:
    """Splits at white space and folds case: enough to see what is in the keyword index."""

    def __init__(self, version: str = "words-1") -> None:
        self.version = version

    def of_version(self, version: str) -> WordAnalyser | None:
        return self if version == self.version else None

    def document(self, text: str, tags: Sequence[str], source: str | None) -> AnalysedDocument:
        return AnalysedDocument(" ".join(text.lower().split()), " ".join(tags), source or "", "")


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    time: int = NOW

    def __call__(self) -> int:
        return self.time


def embedding(key: ModelKey = OLD, seed: int = 1) -> Embedding:
    """Make an embedding whose direction depends on `seed`."""
    return Embedding.of(key, [1.0 + (seed * 7 + position * 3) % 11 for position in range(key.dims)])


def memory(
    text: str = "water the tomatoes",
    *tags: str,
    key: ModelKey = OLD,
    next_key: ModelKey | None = None,
    seed: int = 1,
    created_at: str = CREATED_AT,
    source: str | None = None,
) -> Memory:
    """Make a memory."""
    following = embedding(next_key, seed) if next_key is not None else None
    return Memory(text, created_at, embedding(key, seed), following, tags, source)


def rev(number: int) -> str:
    """Make the rev of the commit with a number."""
    return str(Tid.from_micros(1_000_000 + number))


def put(rkey: str, value: Memory | None = None, cid: str = "") -> Put:
    """Write a record; its CID is made from its value unless given."""
    value = value if value is not None else memory()
    return Put(rkey, cid or f"bafy{sha256(repr(value).encode()).hexdigest()[:16]}", value)


def refuse(rkey: str, reason: str = "blank", tags: tuple[str, ...] | None = None) -> Refuse:
    return Refuse(rkey, f"bafyrefused{rkey}", reason, "a reason", tags)  # type: ignore[arg-type]


def delete(rkey: str) -> Delete:
    return Delete(rkey)


def commit(number: int, *changes: Change, author: Did = ALICE, complete: bool = False) -> RepoUpdate:
    """Make the update of one commit."""
    return RepoUpdate(author, rev(number), changes, data=f"bafydata{number}", complete=complete)


def history(seed: int, length: int = 120) -> list[RepoUpdate]:
    """Make the commits of one author: creates, updates and deletes of a few records."""
    chance = random.Random(seed)
    updates = []
    for number in range(length):
        changes: list[Change] = []
        for rkey in chance.sample("abcdefgh", chance.randint(1, 4)):
            if chance.random() < 0.3:
                changes.append(delete(rkey))
            else:
                key = OTHER if chance.random() < 0.1 else OLD
                path = chance.choice(["/", "/p", "/p/q", "/r"])
                words = f"commit {number} " * chance.randint(1, 400)
                changes.append(put(rkey, memory(words, path, f"k={number}", key=key, seed=number)))
        updates.append(commit(number, *changes))
    return updates


def state_after(updates: Sequence[RepoUpdate]) -> dict[str, str]:
    """Work out the (rkey, CID) of the author's repo after commits, the obvious way."""
    records: dict[str, str] = {}
    for update in updates:
        for change in update.changes:
            if isinstance(change, Delete):
                records.pop(change.rkey, None)
            else:
                records[change.rkey] = change.cid
    return records


class File:
    """A space's file without a store around it: in memory, one statement after another."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.now = NOW

    def writer(self) -> Writer:
        return Writer(self.connection, WordAnalyser(), self.now)

    def configure(self, config: Config | None) -> Outcome:
        return configure(self.writer(), config)

    def apply(self, *updates: RepoUpdate, merge: Merge | None = None, most: int | None = None) -> Outcome:
        return apply_updates(self.writer(), updates, merge, most)

    def revs(self) -> dict[str, str]:
        return dict(self.connection.execute("SELECT author, rev FROM repos").fetchall())

    def check(self) -> list[str]:
        return check(self.connection)


@contextmanager
def space_file(config: Config | None = CONFIG) -> Iterator[File]:
    """Open a file in memory that has been configured."""
    connection = pysqlite3.connect(":memory:", isolation_level=None)
    try:
        vectors.prepare(connection)
        migrate(connection, files("appview.memory") / "migrations")
        opened = File(connection)
        if config is not None:
            opened.configure(config)
        yield opened
    finally:
        connection.close()
