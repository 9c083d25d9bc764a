"""The patterns of a scope, sorted by how a store looks them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from appview.memory.scope import Attribute, Exact, Subtree
from appview.memory.tags import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.memory.scope import Pattern


@dataclass(frozen=True, slots=True)
class PatternsByKind:
    """Paths, roots of subtrees, authors and (key, value) attributes. `owner` is no attribute of a row: it is
    the fact's author."""

    exact: list[str]
    subtrees: list[str]
    owners: list[str]
    attributes: list[tuple[str, str]]


def by_kind(patterns: Iterable[Pattern]) -> PatternsByKind:
    """Sort patterns by kind, each kind in the order given."""
    kinds = PatternsByKind([], [], [], [])
    for pattern in patterns:
        match pattern:
            case Exact():
                kinds.exact.append(pattern.path)
            case Subtree():
                kinds.subtrees.append(pattern.path)
            case Attribute() if pattern.key == OWNER:
                kinds.owners.append(pattern.value)
            case Attribute():
                kinds.attributes.append((pattern.key, pattern.value))
    return kinds
