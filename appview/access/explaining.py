"""What decides a question: the answer that the service gives, the rules and the tags of paths behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appview.access.advice import DELETE, OWN_RECORDS, never
from appview.access.rules import OWNER, Permission
from appview.access.subjects import Account
from appview.access.text import format_rule
from appview.memory.scope import Attribute, holds_subtree
from appview.memory.tags import NOT_FROM_RECORDS, Origin, origins, own_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appview.access.access import Access
    from appview.access.subjects import Action, Subject
    from appview.memory.tags import PathTag
    from lexicons.spaces import SpaceUri

NO_RULE: Final = "denied: no rule allows it"


@dataclass(frozen=True, slots=True)
class Place:
    """A memory as rules see it: its path, its attributes and where each comes from. `owner`, where that is
    known, has no origin: it is the author."""

    path: str
    attributes: Mapping[str, str]
    origins: Mapping[str, Origin]
    hidden: bool = False  # readers are shown nothing of its author
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Write it as one line."""
        return ", ".join([f"at {self.path}", *(self._describe(key) for key in sorted(self.attributes))])

    def _describe(self, key: str) -> str:
        text, origin = f"{key}={self.attributes[key]}", self.origins.get(key)
        if origin is None or origin.path is None:
            return text
        return f"{text} (from {origin.path}{', protected' if origin.protected else ''})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a question: the rules that decide, unless something else does, which `notes` tell."""

    allowed: bool
    rules: tuple[Permission, ...]
    place: Place
    notes: tuple[str, ...]
    overruled: bool = False

    @property
    def summary(self) -> str:
        """The answer as the head of a paragraph."""
        if self.overruled:
            return "denied"
        if not self.rules:
            return NO_RULE
        return "allowed by" if self.allowed else "denied by"

    @property
    def lines(self) -> list[str]:
        """The deciding rules, as lines."""
        return [] if self.overruled else [format_rule(permission.to_rule()) for permission in self.rules]

    def to_json(self) -> dict[str, Any]:
        """Write it as a document."""
        found = self.place.origins.items()
        return {
            "allowed": self.allowed,
            "rules": self.lines,
            "path": self.place.path,
            "attributes": dict(self.place.attributes),
            "inherited": {
                key: {"path": origin.path, "protected": origin.protected}
                for key, origin in found
                if origin.path is not None
            },
            "notes": list(self.notes),
        }


def place_at(
    path: str,
    said: Mapping[str, str],
    path_tags: Sequence[tuple[str, PathTag]],
    subject: Subject,
    action: Action,
) -> Place:
    """Tell what rules would see of a memory at a path whose record says `said`, in a space with these tags of
    paths. `owner` in `said` is its author; who writes is the author."""
    owner = said.get(OWNER)
    if owner is None and isinstance(subject, Account) and action in ("write", "delete"):
        owner = str(subject)
    found = origins(path, path_tags, own_attributes(said))
    attributes = {key: origin.value for key, origin in found.items()}
    notes = [
        f"{key}={said[key]} is not looked at: a record cannot set it"
        for key in sorted(said.keys() & NOT_FROM_RECORDS - {OWNER})
    ]
    notes += [
        f"{key}={said[key]} is not looked at: {origin.path} protects {key}"
        for key, origin in sorted(found.items())
        if key in said and origin.path is not None and key not in NOT_FROM_RECORDS
    ]
    if owner is not None:
        attributes[OWNER] = owner
    return Place(path, attributes, found, notes=tuple(notes))


def judge(access: Access, subject: Subject, space: SpaceUri, action: Action, place: Place) -> Verdict:
    """Answer a question as the service would, by the rules in force."""
    asked = (subject, space, action, place.path, place.attributes)
    allowed, rules = access.enforce(*asked), tuple(access.deciding(*asked))
    notes = list(place.notes)
    scope = access.scope(subject, space, action)
    reason = never(subject, action)
    if reason is None and action == "write" and place.attributes.get(OWNER) != str(subject):
        reason = OWN_RECORDS
    if reason is None and action == "read" and place.hidden:
        reason = "nothing of its author is shown: the account is not active, or may not write here any more"
    if reason is None and action == "admin" and allowed and not holds_subtree(scope, place.path):
        reason = f"who governs has all at and below {place.path}, and some of that is out of reach"
    if reason is not None:
        allowed = False
        notes.append(f"denied whatever the rules say: {reason}")
    if action == "delete":
        notes.append(DELETE)
    if OWNER not in place.attributes:
        patterns = scope.allow | scope.deny
        if any(isinstance(each, Attribute) and each.key == OWNER for each in patterns):
            notes.append("rules on tag:owner= decide for the memories of some authors: name one, owner=DID")
    return Verdict(allowed, rules, place, tuple(notes), overruled=reason is not None)
