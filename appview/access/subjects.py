"""Who asks, what rules are granted to, and what may be done.

A subject comes from a credential; a role only from rules. They are different types, and no text names both:
a role is written `role:<name>`, and no DID, token name or `anonymous` can look like that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, get_args

from appview.errors import AppviewError
from lexicons.syntax import Did

Action = Literal["read", "write", "delete", "admin"]
ACTIONS: Final[frozenset[str]] = frozenset(get_args(Action))

ROLE_PREFIX: Final = "role:"
TOKEN_PREFIX: Final = "token:"  # noqa: S105 - not a secret
ANONYMOUS_NAME: Final = "anonymous"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)
NAME_FORM: Final = "1 to 64 of a-z 0-9 . _ -, a letter or digit first and last"


class InvalidName(AppviewError):
    """A name is not one for a subject or a role."""

    exit_code = 2


@dataclass(frozen=True, slots=True, order=True)
class Account:
    """An ATProto account that has proved itself."""

    did: Did

    def __str__(self) -> str:
        return str(self.did)


@dataclass(frozen=True, slots=True, order=True)
class Token:
    """A holder of a token that this appview has given out. Rules know the name alone: `id`, empty where only
    the name is known, tells a token from a later one of that name."""

    name: str
    id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidName(f"not a valid token name: {self.name!r}", hint=f"expected {NAME_FORM}")

    def __str__(self) -> str:
        return TOKEN_PREFIX + self.name


@dataclass(frozen=True, slots=True, order=True)
class Anonymous:
    """Anybody: no credential was shown."""

    def __str__(self) -> str:
        return ANONYMOUS_NAME


Subject = Account | Token | Anonymous


def holder(subject: Subject) -> str:
    """Name the very holder of a credential, for what is kept of a caller between requests: whoever
    gets another token of a name is somebody else."""
    return f"{subject}#{subject.id}" if isinstance(subject, Token) and subject.id else str(subject)


@dataclass(frozen=True, slots=True, order=True)
class Role:
    """A name that rules give rights to, and that is granted to subjects and to other roles."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidName(f"not a valid role name: {self.name!r}", hint=f"expected {NAME_FORM}")

    def __str__(self) -> str:
        return ROLE_PREFIX + self.name


EVERYONE: Final = Role("everyone")  # held by every subject, Anonymous too, without being granted
MEMBER: Final = Role("member")
AUTHORITY: Final = Role("authority")
OPERATOR: Final = Role("operator")


def parse_subject(text: str) -> Subject:
    """Read a subject as rules write it: a DID, `token:<name>` or `anonymous`; raise `InvalidName`."""
    if text == ANONYMOUS_NAME:
        return Anonymous()
    if text.startswith(TOKEN_PREFIX):
        return Token(text.removeprefix(TOKEN_PREFIX))
    if Did.is_valid(text):
        return Account(Did(text))
    if text.strip().casefold().startswith(ROLE_PREFIX):
        raise InvalidName(f"{text!r} looks like a role, and a subject is expected")
    raise InvalidName(f"not a subject: {text!r}", hint="expected a DID, token:<name> or anonymous")


@lru_cache(maxsize=4_096)  # rules name the same few over and over
def parse_grantee(text: str) -> Subject | Role:
    """Read a subject or a role; raise `InvalidName`."""
    if text.startswith(ROLE_PREFIX):
        return Role(text.removeprefix(ROLE_PREFIX))
    return parse_subject(text)
