"""Whose repos are followed, which spaces each may write to, and who goes before whom: pure, from spaces and
access rules."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from appview.http.lanes import Standing
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from appview.control_rules import Rule
    from appview.memory.scope import Scope


MARK_DIGITS: Final = 32  # hexadecimal: 128 bits


@dataclass(frozen=True, slots=True)
class Roster:
    """`scopes` has, for every author who may write anything, each space with what may be written there.
    `followed` are the authors and the authorities of all spaces that are known or that rules speak of;
    `standings` has those of them that are more than strangers, and whoever else rules name."""

    scopes: Mapping[Did, Mapping[SpaceUri, Scope]] = field(default_factory=dict)
    followed: frozenset[Did] = frozenset()
    standings: Mapping[Did, Standing] = field(default_factory=dict)

    def standing(self, did: Did) -> Standing:
        """Tell for whose sake something is asked."""
        return self.standings.get(did, Standing.STRANGER)

    def of(self, author: Did) -> Mapping[SpaceUri, Scope]:
        """Give the spaces that an author may write to."""
        return self.scopes.get(author, _NOWHERE)

    @property
    def pairs(self) -> frozenset[tuple[SpaceUri, Did]]:
        """Every (space, author) for which the author's repo feeds the space."""
        return frozenset((space, did) for did, scopes in self.scopes.items() for space in scopes)


def mark(scope: Scope, path_tags: Sequence[object]) -> str:
    """Digest what decides which of an author's records a space holds."""
    patterns = [sorted(map(repr, side)) for side in (scope.allow, scope.deny)]
    return hashlib.sha256(repr((patterns, list(path_tags))).encode()).hexdigest()[:MARK_DIGITS]


_NOWHERE: Mapping[SpaceUri, Any] = {}


def build(
    spaces: Iterable[SpaceUri],
    rules: Iterable[Rule],
    writers: Callable[[SpaceUri], Iterable[Did]],
    scope: Callable[[Did, SpaceUri], Scope],
) -> Roster:
    """Compute the roster. A space that only rules speak of is not written to, but its authority is followed,
    so that its config is found."""
    scopes: dict[Did, dict[SpaceUri, Scope]] = {}
    known = list(spaces)
    for space in known:
        for did in writers(space):
            allowed = scope(did, space)
            if not allowed.is_nothing:
                scopes.setdefault(did, {})[space] = allowed
    named = {SpaceUri(text) for rule in rules for text in rule.fields if SpaceUri.is_valid(text)}
    authorities = {space.authority for space in (*known, *named)}
    standings = dict.fromkeys(authorities, Standing.AUTHORITY) | dict.fromkeys(
        _members(rules), Standing.MEMBER
    )
    return Roster(scopes, frozenset(scopes) | authorities, standings)


def _members(rules: Iterable[Rule]) -> set[Did]:
    """List whom rules name, and the authorities of the spaces that these rules are of; what a space has from
    its beginning names nobody but its authority, and anybody can have one."""
    members: set[Did] = set()
    for rule in rules:
        authorities = {SpaceUri(text).authority for text in rule.fields if SpaceUri.is_valid(text)}
        others = {Did(text) for text in rule.fields if Did.is_valid(text)} - authorities
        if others:
            members |= others | authorities
    return members
