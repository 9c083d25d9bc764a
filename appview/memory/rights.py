"""What an author may write decides what is held of the author.

A record is judged by its path and by its effective attributes: what the paths of the space say counts for
the one who writes as for the one who reads. A refused record whose tags cannot be read is judged by nothing:
it is counted where the author may write anything.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from appview.memory.scope import Attribute, Subtree
from appview.memory.scope_sql import LIVE, render
from appview.memory.tags import OWNER, own_attributes
from appview.memory.values import Delete, Put
from lexicons.memories import read_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from appview.memory.paths import PathTree
    from appview.memory.scope import Scope
    from appview.memory.values import Change
    from appview.memory.writer import Writer


def covers(tree: PathTree, scope: Scope, author: str, tags: Sequence[str]) -> bool:
    """Tell whether a record with these tags is inside a scope."""
    topics = read_tags(tags)
    attributes = tree.inherited(topics.path).effective(own_attributes(topics.attributes))
    return scope.covers(topics.path, {**attributes, OWNER: author})


def covers_unread(scope: Scope, author: str) -> bool:
    """Tell whether a scope has a record of an author whatever its tags are, which cannot be read."""
    own = Attribute(OWNER, author)
    return (Subtree("/") in scope.allow or own in scope.allow) and all(
        isinstance(pattern, Attribute) and pattern.key == OWNER and pattern != own for pattern in scope.deny
    )


def is_writable(tree: PathTree, author: str, change: Change, scope: Scope) -> bool:
    """Tell whether an author may have made a change."""
    if scope.is_everything or isinstance(change, Delete):
        return True
    if scope.is_nothing:
        return False
    tags = change.memory.tags if isinstance(change, Put) else change.tags
    return tags is None or covers(tree, scope, author, tags)


def withdraw(writer: Writer, authors: Iterable[str], scope: Scope) -> int:
    """Take out what is held of authors outside of `scope`, as if it were not in their repos; return how many
    records that were."""
    if scope.is_everything:
        return 0
    condition = render(scope)
    connection = writer.connection
    dids = json.dumps(list(authors))
    gone = {
        (author, rkey)
        for author, rkey in connection.execute(
            f"SELECT f.author, f.rkey FROM facts AS f WHERE {LIVE}"  # noqa: S608
            f" AND f.author IN (SELECT value FROM json_each(?)) AND NOT ({condition.sql})",
            (dids, *condition.params),
        )
    }
    for author, rkey, tags in connection.execute(
        "SELECT author, rkey, tags FROM skipped WHERE author IN (SELECT value FROM json_each(?))", (dids,)
    ):
        known = None if tags is None else json.loads(tags)
        if scope.is_nothing or (known is not None and not covers(writer.paths, scope, author, known)):
            gone.add((author, rkey))
    keys = sorted(gone)
    writer.take_in(keys)
    for key in keys:
        writer.bury(key)
    return len(keys)
