"""A fact's effective attributes: what it says of itself and what its path says of it.

The rules, in order:
1. `owner` is the author. Nobody sets it.
2. Of the tags of the paths from the fact's own up to the root, the nearest one with a key wins. Where one of
   them protects the key, that one wins, and of several the one nearest to the root: who governs a part of the
   tree alone cannot undo what was said above it.
3. The fact's own attribute beats the inherited one, unless some path on the way up protects the key.
4. `owner`, `trust` and `space` are never taken from the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lexicons.memories import RESERVED_ATTRIBUTES, SPACE_ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OWNER: Final = "owner"
NOT_FROM_RECORDS: Final = RESERVED_ATTRIBUTES | {SPACE_ATTRIBUTE}
NOT_FROM_PATHS: Final = frozenset({OWNER, SPACE_ATTRIBUTE})


@dataclass(frozen=True, slots=True)
class PathTag:
    """An attribute that a path gives to the facts at and below it."""

    key: str
    value: str
    protected: bool = False


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a path gives to its facts: a value a key, and the keys that a fact cannot set itself."""

    values: Mapping[str, str]
    protected: frozenset[str]

    def effective(self, own: Mapping[str, str]) -> dict[str, str]:
        """Join with a fact's own attributes, as `own_attributes` left them; without `owner`."""
        if not self.values:
            return dict(own)
        kept = {key: value for key, value in own.items() if key not in self.protected}
        return {**self.values, **kept}


NOTHING_INHERITED: Final = Inherited({}, frozenset())


def inherit(levels: Iterable[Iterable[PathTag]]) -> Inherited:
    """Join the tags of the paths from the root down to a fact's own."""
    values: dict[str, str] = {}
    protected: set[str] = set()
    for level in levels:
        for tag in level:
            if tag.key not in protected:
                values[tag.key] = tag.value
            if tag.protected:
                protected.add(tag.key)
    return Inherited(values, frozenset(protected)) if values else NOTHING_INHERITED


@dataclass(frozen=True, slots=True)
class Origin:
    """What a fact has for a key, and the path that gives it: None where the record says it itself."""

    value: str
    path: str | None = None
    protected: bool = False


def origins(path: str, tags: Iterable[tuple[str, PathTag]], own: Mapping[str, str]) -> dict[str, Origin]:
    """Tell where each attribute of a fact at `path` comes from, given the tags of all paths and the record's
    own attributes, as `own_attributes` left them. By the rules of `inherit`, told apart."""
    given: dict[str, list[PathTag]] = {}
    for at, tag in tags:
        given.setdefault(at, []).append(tag)
    found: dict[str, Origin] = {}
    for step in ancestors(path):
        for tag in given.get(step, ()):
            if tag.key not in found or not found[tag.key].protected:
                found[tag.key] = Origin(tag.value, step, tag.protected)
    for key, value in own.items():
        if key not in found or not found[key].protected:
            found[key] = Origin(value)
    return found


def own_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Leave out of a record's attributes those that a record cannot set."""
    return {key: value for key, value in attributes.items() if key not in NOT_FROM_RECORDS}


def ancestors(path: str) -> list[str]:
    """List the paths from the root down to `path` itself."""
    if path == "/":
        return ["/"]
    segments = path[1:].split("/")
    return ["/", *("/" + "/".join(segments[: end + 1]) for end in range(len(segments)))]
