"""Access rules: what a stored rule says, or why it says nothing that could be followed.

    p, <subject or role>, <space or *>, path:/a | path:/a/* | tag:key=value, <action>, allow | deny
    g, <subject or role>, <role>, <space or *>

`path:/a` is the facts at `/a`, `path:/a/*` those at `/a` and below it. Deny beats allow. A rule that is
nearly right is refused, never ignored: Casbin itself passes over an effect that it does not know.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from appview.access.errors import InvalidRule
from appview.access.subjects import ACTIONS, EVERYONE, Action, InvalidName, Role, Subject, parse_grantee
from appview.control_rules import Rule
from appview.memory.scope import Attribute, Exact, Pattern, Subtree
from lexicons.errors import InvalidSyntax
from lexicons.memories import MAX_TAG_BYTES, SPACE_ATTRIBUTE, is_attribute_key, normalise_path
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Iterable

RULE_KINDS: Final = frozenset({"p", "g"})
ANY_SPACE: Final = "*"
PATH_PREFIX: Final = "path:"
TAG_PREFIX: Final = "tag:"
OWNER: Final = "owner"  # the attribute that every fact has: its author
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_JOINERS: Final = frozenset("\u200c\u200d")  # invisible, but words and emoji are written with them
_UNREADABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # Unicode categories


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """Who may, or may not, do what with which facts. `space` None: in every space."""

    grantee: Subject | Role
    space: SpaceUri | None
    pattern: Pattern
    action: Action
    allow: bool = True

    def to_rule(self) -> Rule:
        """Write the rule as it is stored."""
        effect = "allow" if self.allow else "deny"
        where = ANY_SPACE if self.space is None else str(self.space)
        return Rule("p", (str(self.grantee), where, format_object(self.pattern), self.action, effect))


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """Who has a role. `space` None: in every space."""

    grantee: Subject | Role
    role: Role
    space: SpaceUri | None

    def to_rule(self) -> Rule:
        """Write the rule as it is stored."""
        where = ANY_SPACE if self.space is None else str(self.space)
        return Rule("g", (str(self.grantee), str(self.role), where))


Statement = Permission | Grant


def parse_rule(rule: Rule) -> Statement:
    """Read a stored rule; raise `InvalidRule` with the reason."""
    try:
        match rule.ptype, rule.fields:
            case "p", (grantee, space, thing, action, effect):
                return Permission(
                    parse_grantee(grantee),
                    _space(space),
                    parse_object(thing),
                    _action(action),
                    _effect(effect),
                )
            case "g", (grantee, role, space):
                return _grant(grantee, role, space)
            case "p", _:
                raise ValueError("expected p, subject, space, object, action, effect")
            case "g", _:
                raise ValueError("expected g, subject, role, space")
            case _:
                raise ValueError("a rule starts with p or g")
    except (ValueError, InvalidName) as error:
        raise InvalidRule(rule, str(error)) from None


def parse_object(text: str) -> Pattern:
    """Read `path:/a`, `path:/a/*` or `tag:key=value`; raise `ValueError` with the reason."""
    if text.startswith(PATH_PREFIX):
        return _path_pattern(text.removeprefix(PATH_PREFIX))
    if text.startswith(TAG_PREFIX):
        return _attribute(text.removeprefix(TAG_PREFIX))
    raise ValueError(f"unknown object {text!r}, expected path:/a, path:/a/* or tag:key=value")


def format_object(pattern: Pattern) -> str:
    """Write a pattern as rules have it."""
    match pattern:
        case Exact(path):
            return PATH_PREFIX + path
        case Subtree(path):
            return PATH_PREFIX + ("/*" if path == "/" else path + "/*")
        case Attribute(key, value):
            return f"{TAG_PREFIX}{key}={value}"


def parse_path(text: str) -> str:
    """Read the one form of a path that rules accept; raise `ValueError` with the reason."""
    if not text.startswith("/"):
        raise ValueError(f"path {text!r} must start with /")
    _check_readable("path", text)
    if normalise_path(text) != text:
        raise ValueError(f"path {text!r} has empty segments, expected {normalise_path(text)!r}")
    size = len(text.encode(errors="replace"))
    if size > MAX_TAG_BYTES:
        raise ValueError(f"path of {size} bytes, no fact has one of more than {MAX_TAG_BYTES}")
    for segment in text.split("/"):
        if segment in (".", ".."):
            raise ValueError(f"path {text!r}: {segment} has no meaning in a path")
        if segment != segment.strip():
            raise ValueError(f"path {text!r} has white space at the edge of a segment")
    if "*" in text:
        raise ValueError(f"path {text!r}: * stands only at the end, as in path:/a/*")
    if _PERCENT.search(text):
        raise ValueError(f"path {text!r}: percent-encoding has no meaning in a path")
    if "\\" in text:
        raise ValueError(f"path {text!r}: segments are divided by / only")
    return text


def to_rules(statements: Iterable[Statement]) -> list[Rule]:
    """Write rules as they are stored."""
    return [statement.to_rule() for statement in statements]


def _grant(grantee: str, role: str, space: str) -> Grant:
    given = parse_grantee(role)
    if not isinstance(given, Role):
        raise ValueError(f"{role!r} is not a role, expected role:<name>")
    if given == EVERYONE:
        raise ValueError("everyone has role:everyone already")
    who = parse_grantee(grantee)
    if who == given:
        raise ValueError("a role cannot be granted to itself")
    return Grant(who, given, _space(space))


@lru_cache(maxsize=4_096)  # rules name the same few over and over
def _space(text: str) -> SpaceUri | None:
    if text == ANY_SPACE:
        return None
    try:
        return SpaceUri(text)
    except InvalidSyntax as error:
        raise ValueError(f"{error}, or * for every space") from None


def _action(text: str) -> Action:
    if text not in ACTIONS:
        raise ValueError(f"unknown action {text!r}, expected " + ", ".join(sorted(ACTIONS)))
    return cast("Action", text)


def _effect(text: str) -> bool:
    if text not in ("allow", "deny"):
        raise ValueError(f"unknown effect {text!r}, expected allow or deny")
    return text == "allow"


def _path_pattern(text: str) -> Pattern:
    if text == "/*":
        return Subtree("/")
    if text.endswith("/*"):
        root = text.removesuffix("/*")
        if root == "/":
            raise ValueError(f"path {text!r} has empty segments, expected '/*'")
        return Subtree(parse_path(root))
    return Exact(parse_path(text))


def _attribute(text: str) -> Attribute:
    key, equals, value = text.partition("=")
    if not equals or not is_attribute_key(key):
        raise ValueError(f"tag {text!r}: expected key=value, the key a-z first, then a-z 0-9 _ . -")
    if key == SPACE_ATTRIBUTE:
        raise ValueError(f"{SPACE_ATTRIBUTE}= only says where a memory goes, no fact has it as an attribute")
    if key == OWNER:
        if not Did.is_valid(value):
            raise ValueError(f"{OWNER}= is the author's DID, not {value!r}")
        return Attribute(key, value)
    size = len(text.encode(errors="replace"))
    if size > MAX_TAG_BYTES:
        raise ValueError(f"tag of {size} bytes, no fact has one of more than {MAX_TAG_BYTES}")
    if value != value.strip():
        raise ValueError(f"tag {text!r} has white space at the edge of its value")
    _check_readable("tag", text)
    return Attribute(key, value)


def _check_readable(kind: str, text: str) -> None:
    """Refuse what a reader of the rules would not see."""
    if text.isascii() and text.isprintable():
        return
    for char in text:
        if char not in _JOINERS and unicodedata.category(char) in _UNREADABLE:
            raise ValueError(f"{kind} {text!r} has the invisible character U+{ord(char):04X}")
