"""Rules that can be followed and do not do what one would think: what whoever writes them is told.

Such rules are taken, since they may come from another program's policy or wait for something that is yet to
come; they are never taken in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.access.rules import OWNER, Permission
from appview.access.subjects import EVERYONE, Account, Anonymous, Token
from appview.memory.scope import Attribute, Subtree

if TYPE_CHECKING:
    from appview.access.rules import Statement
    from appview.access.subjects import Action, Role, Subject

DELETE: Final = "no method asks for delete: a record goes when its author deletes it, whatever the rules say"
OWN_RECORDS: Final = "an account writes to its own repo alone, so the owner is the one who writes"


def never(who: Subject | Role, action: Action) -> str | None:
    """Say why a subject can never do something, whatever the rules say; None where it can."""
    match who, action:
        case Anonymous(), "admin":
            return "only a known caller governs"
        case Anonymous(), "write":
            return "what is indexed comes from the repos of accounts; without a credential there is none"
        case Token(), "write":
            return "what is indexed comes from the repos of accounts; the holder of a token has none"
        case _:
            return None


def advice(statement: Statement) -> str | None:
    """Say what a rule does not do; None where it does what it says."""
    if not isinstance(statement, Permission):
        return None
    who, pattern, action, allow = statement.grantee, statement.pattern, statement.action, statement.allow
    if action == "delete":
        return DELETE
    reason = never(who, action)
    if reason is not None:
        return f"never counts: {reason}"
    if action == "write":
        if who == EVERYONE and allow:
            return "an account that no rule names is followed from its next memory on, with all before it"
        stranger = isinstance(pattern, Attribute) and pattern.key == OWNER and isinstance(who, Account)
        if stranger and pattern != Attribute(OWNER, str(who)):
            return f"never counts: {OWN_RECORDS}"
    if action == "admin":
        if allow and not isinstance(pattern, Subtree):
            return "never counts: who governs has a path and all below it, as in path:/a/*"
        if allow and who == EVERYONE:
            return "lets every account and every holder of a token govern"
        if isinstance(pattern, Attribute):
            return "keeps from governing anything: what has the tag may come to be at any path"
    return None
