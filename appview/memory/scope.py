"""What a caller may do in a space, as a value: the meeting point of access rules and stores.

The access package compiles rules to a `Scope`; a store renders it in its own query language and must select
exactly the facts that `covers` accepts. Deny beats allow; nothing allowed means nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.memory.tags import OWNER

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, order=True)
class Exact:
    """The facts at one path."""

    path: str

    def covers(self, path: str, attributes: Mapping[str, str]) -> bool:
        """Tell whether a fact falls under this pattern."""
        return path == self.path


@dataclass(frozen=True, slots=True, order=True)
class Subtree:
    """The facts at a path and at every path below it."""

    path: str

    def covers(self, path: str, attributes: Mapping[str, str]) -> bool:
        """Tell whether a fact falls under this pattern; a subtree stops at segment borders."""
        return self.path == "/" or path == self.path or path.startswith(self.path + "/")


@dataclass(frozen=True, slots=True, order=True)
class Attribute:
    """The facts with an effective attribute."""

    key: str
    value: str

    def covers(self, path: str, attributes: Mapping[str, str]) -> bool:
        """Tell whether a fact falls under this pattern."""
        return attributes.get(self.key) == self.value


Pattern = Exact | Subtree | Attribute
_ALL: Final = Subtree("/")
DIGEST_DIGITS: Final = 32  # hexadecimal: 128 bits


@dataclass(frozen=True, slots=True)
class Scope:
    """The facts one subject may act on in one space.

    `attributes` are a fact's effective ones, `owner` included.
    """

    allow: frozenset[Pattern] = frozenset()
    deny: frozenset[Pattern] = frozenset()

    @property
    def is_everything(self) -> bool:
        """Whether every fact is covered, whatever its path and attributes."""
        return _ALL in self.allow and not self.deny

    @property
    def is_nothing(self) -> bool:
        """Whether no fact can be covered."""
        return not self.allow or _ALL in self.deny

    def covers(self, path: str, attributes: Mapping[str, str]) -> bool:
        """Tell whether a fact at `path` with these effective attributes is inside.

        The patterns that could cover it are looked up, so that it does not matter how many others there are.
        """
        return _any_covers(self.allow, path, attributes) and not _any_covers(self.deny, path, attributes)


def _any_covers(patterns: frozenset[Pattern], path: str, attributes: Mapping[str, str]) -> bool:
    if not patterns:
        return False
    if _ALL in patterns or Exact(path) in patterns or Subtree(path) in patterns:
        return True
    end = path.rfind("/")
    while end > 0:
        if Subtree(path[:end]) in patterns:
            return True
        end = path.rfind("/", 0, end)
    return any(Attribute(key, value) in patterns for key, value in attributes.items())


EVERYTHING: Final = Scope(allow=frozenset({_ALL}))
NOTHING: Final = Scope()


def reads_attributes(scope: Scope) -> bool:
    """Tell whether more than a record's path and author decides whether it is inside."""
    return any(
        isinstance(pattern, Attribute) and pattern.key != OWNER for pattern in scope.allow | scope.deny
    )


def holds_subtree(scope: Scope, path: str) -> bool:
    """Tell whether a scope has everything at and below a path, whatever its attributes."""
    if not any(isinstance(pattern, Subtree) and pattern.covers(path, {}) for pattern in scope.allow):
        return False
    below = Subtree(path)
    for pattern in scope.deny:
        match pattern:
            case Exact(denied) if not below.covers(denied, {}):
                continue
            case Subtree(denied) if not (below.covers(denied, {}) or pattern.covers(path, {})):
                continue
        return False
    return True


def digest(scope: Scope) -> str:
    """Make a short text of a scope, the same for the same one wherever and whenever."""
    patterns = [sorted(map(repr, side)) for side in (scope.allow, scope.deny)]
    return hashlib.sha256(repr(patterns).encode()).hexdigest()[:DIGEST_DIGITS]
