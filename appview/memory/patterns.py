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
    patterns = list(patterns)
    # Asking for the type costs a fifth of what matching costs, and there may be thousands.
    attributes = [pattern for pattern in patterns if isinstance(pattern, Attribute)]
    return PatternsByKind(
        exact=[pattern.path for pattern in patterns if isinstance(pattern, Exact)],
        subtrees=[pattern.path for pattern in patterns if isinstance(pattern, Subtree)],
        owners=[pattern.value for pattern in attributes if pattern.key == OWNER],
        attributes=[(pattern.key, pattern.value) for pattern in attributes if pattern.key != OWNER],
    )
