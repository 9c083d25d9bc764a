"""Authors whose accounts are not active: what is theirs stays in the file and no reader sees it.

Hiding narrows the scope of every reader by a deny of `owner=<author>`. What a scope does not show takes part
in nothing, statistics of words included: a hidden author changes no answer, and to show one again costs
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.memory.scope import Attribute, Scope
from appview.memory.tags import OWNER
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Collection

    from appview.sqlite import Connection


def hidden_authors(connection: Connection) -> frozenset[Did]:
    """Read whom readers do not see."""
    return frozenset(Did(row[0]) for row in connection.execute("SELECT author FROM hidden"))


def set_hidden(connection: Connection, author: str, now: int, *, hidden: bool) -> bool:
    """Hide or show an author; false where that is so already."""
    if hidden:
        done = connection.execute("INSERT OR IGNORE INTO hidden (author, since) VALUES (?, ?)", (author, now))
    else:
        done = connection.execute("DELETE FROM hidden WHERE author = ?", (author,))
    return done.rowcount > 0


def without(scope: Scope, authors: Collection[str]) -> Scope:
    """Take authors out of a scope."""
    if not authors:
        return scope
    return Scope(scope.allow, scope.deny | {Attribute(OWNER, author) for author in authors})
