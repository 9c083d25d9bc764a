"""What decides a question: the answer that the service gives, the rules and the tags of paths behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appview.access.advice import DELETE, OWN_RECORDS, never
from appview.access.callers import INACTIVE
from appview.access.rules import OWNER, Permission
from appview.access.subjects import Account, Token
from appview.access.text import format_rule
from appview.memory.scope import Attribute, holds_subtree
from appview.memory.tags import NOT_FROM_RECORDS, Origin, origins, own_attributes
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from appview.access.access import Access
    from appview.access.subjects import Action, Subject
    from appview.control import Control
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
class Beside:
    """What decides beside rules, of a question's subject, space and author: why the service would refuse the
    subject's calls, why the space is not there, and why nothing of the author is shown."""

    caller: str | None = None
    space: str | None = None
    author: str | None = None


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


async def look_beside(
    control: Control, subject: Subject, space: SpaceUri, place: Place, now: int, hidden: Collection[str]
) -> Beside:
    """Find out what decides a question beside rules. `hidden` are authors of whom the space's readers are
    shown nothing."""
    caller = await _refused(control, subject, now)
    owner = place.attributes.get(OWNER)
    author = None
    if owner is not None:
        status = await _inactive(control, Did(owner))
        if status is not None:
            author = f"nothing of its author is shown: the account is {status}"
        elif owner in hidden:
            author = (
                "nothing of its author is shown: the account is not active, or may not write here any more"
            )
    return Beside(caller, await _absent(control, space), author)


def judge(
    access: Access, subject: Subject, space: SpaceUri, action: Action, place: Place, beside: Beside
) -> Verdict:
    """Answer a question as the service would, by the rules in force and what there is beside them."""
    asked = (subject, space, action, place.path, place.attributes)
    allowed, rules = access.enforce(*asked), tuple(access.deciding(*asked))
    notes = list(place.notes)
    scope = access.scope(subject, space, action)
    reason = beside.caller or never(subject, action) or beside.space
    if reason is None and action == "write" and place.attributes.get(OWNER) != str(subject):
        reason = OWN_RECORDS
    if reason is None and action == "read":
        reason = beside.author or _unwritten(access, space, place)
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


async def _refused(control: Control, subject: Subject, now: int) -> str | None:
    """Say why the service would refuse a subject's calls, whatever is asked."""
    if isinstance(subject, Account):
        status = await _inactive(control, subject.did)
        return None if status is None else f"the account is {status}, so its calls are refused (401)"
    if isinstance(subject, Token):
        row = await control.tokens.named(subject.name)
        if row is None:
            return f"there is no token {subject.name}, so calls with one are refused (401)"
        if row.expires_at is not None and row.expires_at <= now:
            return f"the token {subject.name} has expired, so calls with it are refused (401)"
    return None


async def _inactive(control: Control, did: Did) -> str | None:
    repo = await control.repo(did)
    return repo.status if repo is not None and repo.status in INACTIVE else None


async def _absent(control: Control, space: SpaceUri) -> str | None:
    """Say why the service would answer that there is no such space."""
    row = await control.space(space)
    if row is not None and row.is_declared:
        return None
    if row is not None:
        return "there is no such space yet: its config record is not known here (UnknownSpace)"
    if not await control.admits(space, unknown=True):
        return "there is no such space: the operator has removed it (UnknownSpace)"
    return "there is no such space: no config record has declared it here (UnknownSpace)"


def _unwritten(access: Access, space: SpaceUri, place: Place) -> str | None:
    """Say why a memory is not in the space, so that nobody reads it: its author, where known, decides."""
    owner = place.attributes.get(OWNER)
    if owner is None or access.may(Account(Did(owner)), space, "write", place.path, place.attributes):
        return None
    return f"there is nothing to read: {owner} may not write this here, so it is not indexed, or not any more"
