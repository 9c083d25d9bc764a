"""Values that go into and come out of a space's memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from appview.memory.scope import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from appview.memory.scope import Scope
    from lexicons.configs import Config
    from lexicons.memories import Memory
    from lexicons.models import ModelKey
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import AtUri, Did

# Why a writer's record is not indexed. `model` and `vector` are judged against the config and may change
# with it.
SkipReason = Literal["record", "blank", "model", "vector", "no-config"]


@dataclass(frozen=True, slots=True)
class Put:
    """A record that satisfies its lexicon, created or updated."""

    rkey: str
    cid: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class Refuse:
    """A record that can never be indexed as it stands. `tags` is None where they cannot be told. `detail` may
    quote the record, `brief` does not."""

    rkey: str
    cid: str
    reason: SkipReason
    detail: str
    tags: tuple[str, ...] | None = None
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """A record that is gone from its repo."""

    rkey: str


Change = Put | Refuse | Delete


@dataclass(frozen=True, slots=True)
class RepoUpdate:
    """What one commit of one author changes in a space, or, where `complete`, all the author has there.

    A complete update makes the space hold exactly its `Put`s and `Refuse`s for the author. What of them is
    outside of `scope`, what the author may write, is not there. Its changes may be too many for memory: then
    each pass reads them anew, by ascending record key.
    A partial one knows its records as of `rev`, and nothing of what else happened up to then.
    """

    author: Did
    rev: str
    changes: Collection[Change]
    data: str | None = None
    complete: bool = False
    scope: Scope = EVERYTHING
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Visibility:
    """An author's account became inactive, or active again: what is the author's is hidden, or is not."""

    author: Did
    hidden: bool


@dataclass(frozen=True, slots=True)
class Removal:
    """An author's account was deleted: all that the space holds of it goes, as if nothing had ever come."""

    author: Did


Update = RepoUpdate | Visibility | Removal


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch of updates did. `skipped` counts by reason."""

    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """A live memory as a caller sees it. Times are microseconds since 1970."""

    id: int
    uri: AtUri
    cid: str
    author: Did
    rkey: str
    path: str
    text: str
    tags: tuple[str, ...]
    source: str | None
    created_at: str
    recorded_at: int
    ordered_at: int
    superseded: bool = False  # for the one who reads: another fact has taken its place


@dataclass(frozen=True, slots=True)
class Filters:
    """What a query narrows to. `tags` match the record's tags as written, all of them; `since` is an instant
    in microseconds against `ordered_at`; `path` is a subtree; `without` are ids of facts to leave out."""

    author: Did | None = None
    tags: tuple[str, ...] = ()
    since: int | None = None
    path: str | None = None
    without: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SkippedCount:
    """How many of an author's records are not indexed, by reason."""

    author: Did
    reasons: Mapping[str, int]

    @property
    def count(self) -> int:
        """All of them."""
        return sum(self.reasons.values())


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """What a space holds for a caller. `building` counts what the next model's index holds so far."""

    space: SpaceUri
    config: Config | None
    active: ModelKey | None
    memories: int
    building: ModelKey | None
    building_memories: int
    skipped: tuple[SkippedCount, ...]


@dataclass(frozen=True, slots=True)
class PathNode:
    """One path below another: facts at it, facts at and below it, paths directly below it."""

    path: str
    segment: str
    facts: int
    descendants: int
    children: int
