"""What a proven change of a repo means for the spaces: pure, from records to updates.

A memory goes to every known space where its author may write at its path and with its attributes (where rules
speak of attributes the space's file has the last word, because it knows what its paths say); a tag
`space=<did>` narrows that to the public space of that account. A record that cannot be indexed is refused in
the spaces it would have gone to, so that each can say so. A record that moved away from a space is deleted
there. A config record speaks for its own author's space only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from appview.memory.scope import reads_attributes
from appview.memory.values import Delete, Put, Refuse, RepoUpdate
from lexicons import data
from lexicons.catalog import garden
from lexicons.configs import Config
from lexicons.errors import ContractError
from lexicons.ids import CONFIG, CONFIG_RKEY, MEMORY
from lexicons.memories import (
    MAX_TAG_BYTES,
    MAX_TAGS,
    RESERVED_ATTRIBUTES,
    SPACE_ATTRIBUTE,
    Memory,
    Topics,
    read_tags,
)
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping, Sequence

    from appview.memory.scope import Scope
    from appview.memory.values import Change

# What a tag `space=` names that keeps its record out of every space.
Stray = Literal["no DID", "no space that takes it"]

MAX_DETAIL: Final = 200  # characters of a reason that are kept


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One record of a proven commit or repo, of a collection that concerns us. `block` is None where the
    record is gone; `existed` tells that there was a version before."""

    collection: str
    rkey: str
    cid: str | None
    block: bytes | None
    existed: bool = True


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """An author's config record: a config, nothing any more, or (with `problem`, which does not quote it)
    one that is not valid."""

    author: Did
    rev: str
    cid: str | None
    config: Config | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """A memory record and where it wants to go. `topics` is None where its tags could not be read."""

    change: Put | Refuse
    topics: Topics | None


def judge_memory(rkey: str, cid: str, block: bytes) -> Judged:
    """Decode and check a memory record; what is wrong with it becomes a `Refuse`."""
    judged = judge_bytes(block)
    return Judged(with_key(judged.change, rkey, cid), judged.topics)


def judge_bytes(block: bytes) -> Judged:
    """Decode and check the bytes of a memory record, whatever it is called: key and CID are left empty."""
    topics: Topics | None = None
    tags: tuple[str, ...] | None = None
    try:
        value = data.decode_record(block)
        tags = _tags_of(value)
        topics = None if tags is None else read_tags(tags)
        garden().validate_record(MEMORY, value)
        memory = Memory.from_record(value)
    except ContractError as error:
        return Judged(_refuse(error, tags), topics)
    if not memory.text.strip():
        return Judged(Refuse("", "", "blank", "the text is blank", memory.tags, "text: is blank"), topics)
    return Judged(Put("", "", memory), topics)


def with_key(change: Put | Refuse, rkey: str, cid: str) -> Put | Refuse:
    """Give what was judged of a record's bytes its key, which may be one that no memory can have, and CID."""
    if not is_key(rkey) and (isinstance(change, Put) or change.reason != "record"):
        try:
            garden().check_key(MEMORY, rkey)
        except ContractError as error:
            change = _refuse(error, change.memory.tags if isinstance(change, Put) else change.tags)
    if isinstance(change, Put):
        return Put(rkey, cid, change.memory)
    return replace(change, rkey=rkey, cid=cid)


def is_key(rkey: str) -> bool:
    """Tell whether a memory can have a record key; its lexicon says that it is a TID."""
    return Tid.is_valid(rkey)


def _refuse(error: ContractError, tags: tuple[str, ...] | None) -> Refuse:
    return Refuse("", "", "record", str(error)[:MAX_DETAIL], _kept(tags), error.summary[:MAX_DETAIL])


def judge_config(author: Did, rev: str, record: RecordChange) -> ConfigChange | None:
    """Read a config record; None for one that is not at the one key that counts."""
    if record.rkey != CONFIG_RKEY:
        return None
    if record.block is None or record.cid is None:
        return ConfigChange(author, rev, None, None)
    try:
        value = data.decode_record(record.block)
        garden().validate_record(CONFIG, value, record.rkey)
        return ConfigChange(author, rev, record.cid, Config.from_record(value))
    except ContractError as error:
        return ConfigChange(author, rev, record.cid, None, error.summary[:MAX_DETAIL])


def targets(author: Did, topics: Topics | None, scopes: Mapping[SpaceUri, Scope]) -> frozenset[SpaceUri]:
    """Choose, among the spaces where the author may write something, those that take this record."""
    if topics is None:
        return frozenset(space for space, scope in scopes.items() if not scope.is_nothing)
    candidates: Iterable[SpaceUri] = scopes
    named = topics.attributes.get(SPACE_ATTRIBUTE)
    if named is not None:
        if not Did.is_valid(named):
            return frozenset()
        candidates = (SpaceUri.public(Did(named)),)
    attributes = _attributes(author, topics)
    return frozenset(
        space
        for space in candidates
        if (scope := scopes.get(space)) is not None
        and (scope.is_everything or scope.covers(topics.path, attributes) or reads_attributes(scope))
    )


def route_commit(
    author: Did,
    rev: str,
    tree: str | None,
    records: Iterable[RecordChange],
    scopes: Mapping[SpaceUri, Scope],
    strays: Counter[Stray] | None = None,
) -> dict[SpaceUri, RepoUpdate]:
    """Turn the memory records of one commit into an update for each space it changes.

    `scopes` says what the author may write, for every space where that is anything; `strays` counts the
    records that a tag keeps out of all of them. What many of the records are is judged once.
    """
    changes: dict[SpaceUri, list[Change]] = {}
    known: dict[str, Judged] = {}
    for record in records:
        if record.collection != MEMORY or not scopes:
            continue
        if record.block is None or record.cid is None:
            for space in scopes:
                changes.setdefault(space, []).append(Delete(record.rkey))
            continue
        judged = known.get(record.cid)
        if judged is None:
            judged = known[record.cid] = judge_bytes(record.block)
        change = with_key(judged.change, record.rkey, record.cid)
        chosen = targets(author, judged.topics, scopes)
        count_stray(judged.topics, chosen, strays)
        for space in scopes:
            if space in chosen:
                changes.setdefault(space, []).append(change)
            elif record.existed:
                changes.setdefault(space, []).append(Delete(record.rkey))
    return {
        space: RepoUpdate(author, rev, tuple(made), tree, scope=scopes[space])
        for space, made in changes.items()
    }


def route_record(
    author: Did, rev: str, record: RecordChange, scopes: Mapping[SpaceUri, Scope]
) -> dict[SpaceUri, RepoUpdate]:
    """Turn one memory record, known as of `rev` when the commits before it may not be, into an update for
    each space it changes."""
    updates = route_commit(author, rev, None, [record], scopes)
    return {space: replace(update, partial=True) for space, update in updates.items()}


def refusals(updates: Iterable[RepoUpdate]) -> Sequence[tuple[Literal["record", "blank"], str, str]]:
    """List what updates refuse: (reason, record key, detail), each record once."""
    found: dict[str, tuple[Any, str, str]] = {}
    for update in updates:
        for change in update.changes:
            if isinstance(change, Refuse):
                found[change.rkey] = (change.reason, change.rkey, change.detail)
    return list(found.values())


def count_stray(topics: Topics | None, chosen: frozenset[SpaceUri], strays: Counter[Stray] | None) -> None:
    """Count a record that is in no space because its tag `space=` names none that takes it."""
    if strays is not None and (stray := stray_of(topics, chosen)) is not None:
        strays[stray] += 1


def stray_of(topics: Topics | None, chosen: frozenset[SpaceUri]) -> Stray | None:
    """Tell what keeps a record out of every space, where that is its tag `space=`."""
    named = None if topics is None else topics.attributes.get(SPACE_ATTRIBUTE)
    if named is None or chosen:
        return None
    return "no space that takes it" if Did.is_valid(named) else "no DID"


def _tags_of(value: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Read the tags of a record that may be wrong in any way; None where they make no sense."""
    tags = value.get("tags")
    if tags is None:
        return ()
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return None
    return tuple(tags)


def _kept(tags: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Give the tags of a refused record where they are no more than a good one has."""
    if tags is None or len(tags) > MAX_TAGS or any(len(tag) > MAX_TAG_BYTES for tag in tags):
        return None
    return tags


def _attributes(author: Did, topics: Topics) -> dict[str, str]:
    """Give the attributes that access rules see: the record's own, and its author as `owner`."""
    seen = {
        key: value
        for key, value in topics.attributes.items()
        if key not in RESERVED_ATTRIBUTES and key != SPACE_ATTRIBUTE
    }
    return {**seen, "owner": str(author)}
