"""Simple reads of a space: one memory, lists, the tree, counts. Each is what a scope shows and no more."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from appview.memory import vectors
from appview.memory.meta import read_config
from appview.memory.paths import PathTree
from appview.memory.rights import covers, covers_unread
from appview.memory.rows import FACT_COLUMNS, FACT_TABLES, fact
from appview.memory.scope_sql import LIVE, render
from appview.memory.tags import OWNER
from appview.memory.values import PathNode, SkippedCount, SpaceStatus
from lexicons.syntax import Did

if TYPE_CHECKING:
    from appview.memory.scope import Scope
    from appview.memory.values import Fact, Filters
    from appview.sqlite import Connection
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import AtUri

Position = tuple[int, str, str]  # ordered_at, author, rkey: where a fact stands in every list
_POSITION: Final = "(f.ordered_at, f.author, f.rkey)"


def get(connection: Connection, uri: AtUri, scope: Scope) -> Fact | None:
    """Find a live memory by the URI of its record."""
    row = connection.execute(
        f"SELECT {FACT_COLUMNS} FROM {FACT_TABLES} WHERE {LIVE}"  # noqa: S608
        " AND f.author = ? AND f.rkey = ? AND f.uri = ?",
        (uri.authority, uri.rkey, uri),
    ).fetchone()
    if row is None:
        return None
    found = fact(row)
    if not scope.is_everything:
        # One fact: asking the scope itself costs less than rendering it.
        tags = connection.execute("SELECT key, value FROM effective_tags WHERE fact_id = ?", (found.id,))
        if not scope.covers(found.path, {**dict(tags.fetchall()), OWNER: found.author}):
            return None
    return found


@dataclass(frozen=True, slots=True)
class Placed:
    """What access rules see of a memory: its path and its effective attributes with `owner`. `own` are those
    that its record has."""

    path: str
    attributes: dict[str, str]
    own: dict[str, str]


def place(connection: Connection, uri: AtUri) -> Placed | None:
    """Find what access rules see of a live memory."""
    row = connection.execute(
        "SELECT f.id, f.author, p.full_path FROM facts AS f JOIN paths AS p ON p.id = f.path_id"  # noqa: S608
        f" WHERE {LIVE} AND f.author = ? AND f.rkey = ? AND f.uri = ?",
        (uri.authority, uri.rkey, uri),
    ).fetchone()
    if row is None:
        return None
    tags = connection.execute("SELECT key, value FROM effective_tags WHERE fact_id = ?", (row[0],))
    own = connection.execute("SELECT key, value FROM fact_tags WHERE fact_id = ?", (row[0],))
    return Placed(row[2], {**dict(tags.fetchall()), OWNER: row[1]}, dict(own.fetchall()))


def newest(
    connection: Connection, scope: Scope, filters: Filters, limit: int, before: Position | None
) -> list[Fact]:
    """List memories, newest first, from the one after `before`."""
    condition = render(scope, filters)
    rows = connection.execute(
        f"SELECT {FACT_COLUMNS} FROM {FACT_TABLES} WHERE {LIVE}{condition.clause}"  # noqa: S608
        f"{f' AND {_POSITION} < (?, ?, ?)' if before is not None else ''}"
        " ORDER BY f.ordered_at DESC, f.author DESC, f.rkey DESC LIMIT ?",
        (*condition.params, *(before or ()), limit),
    )
    return [fact(row) for row in rows]


def at_path(
    connection: Connection, scope: Scope, path: str, limit: int, after: Position | None, filters: Filters
) -> list[Fact]:
    """List the memories of exactly one path, oldest first, from the one after `after`."""
    condition = render(scope, filters)
    rows = connection.execute(
        f"SELECT {FACT_COLUMNS} FROM {FACT_TABLES} WHERE {LIVE}"  # noqa: S608
        f" AND f.path_id = (SELECT id FROM paths WHERE full_path = ?){condition.clause}"
        f"{f' AND {_POSITION} > (?, ?, ?)' if after is not None else ''}"
        " ORDER BY f.ordered_at, f.author, f.rkey LIMIT ?",
        (path, *condition.params, *(after or ()), limit),
    )
    return [fact(row) for row in rows]


def children(
    connection: Connection, scope: Scope, parent: str, limit: int, after: str | None, filters: Filters
) -> list[PathNode]:
    """List one level of the tree by segment, from the one after `after`; paths without a visible fact at or
    below them are not there."""
    condition = render(scope, replace(filters, path=parent))
    rows = connection.execute(
        "SELECT p.full_path, v.facts FROM"  # noqa: S608
        f" (SELECT f.path_id, count(*) AS facts FROM facts AS f WHERE {LIVE}{condition.clause}"
        " GROUP BY f.path_id)"
        " AS v CROSS JOIN paths AS p ON p.id = v.path_id",
        condition.params,
    )
    prefix = parent if parent == "/" else parent + "/"
    facts: dict[str, int] = {}
    descendants: dict[str, int] = {}
    below: dict[str, set[str]] = {}
    for full_path, count in rows:
        if full_path == parent:
            continue
        segment, _, rest = full_path[len(prefix) :].partition("/")
        if after is not None and segment <= after:
            continue
        descendants[segment] = descendants.get(segment, 0) + count
        if rest:
            below.setdefault(segment, set()).add(rest.partition("/")[0])
        else:
            facts[segment] = count
    return [
        PathNode(
            prefix + segment,
            segment,
            facts.get(segment, 0),
            descendants[segment],
            len(below.get(segment, ())),
        )
        for segment in sorted(descendants)[:limit]
    ]


def status(connection: Connection, space: SpaceUri, scope: Scope) -> SpaceStatus:
    """Count what a scope shows of the space."""
    condition = render(scope)
    memories = connection.execute(
        f"SELECT count(*) FROM facts AS f WHERE {LIVE}{condition.clause}",  # noqa: S608
        condition.params,
    ).fetchone()[0]
    active, building = vectors.find(connection, "active"), vectors.find(connection, "next")
    built = 0
    if building is not None:
        built = connection.execute(
            f"SELECT count(*) FROM ({building.ids_sql()}) AS v CROSS JOIN facts AS f ON f.id = v.rowid"  # noqa: S608
            f" WHERE {LIVE}{condition.clause}",
            condition.params,
        ).fetchone()[0]
    return SpaceStatus(
        space=space,
        config=read_config(connection),
        active=active.key if active is not None else None,
        memories=memories,
        building=building.key if building is not None else None,
        building_memories=built,
        skipped=_skipped(connection, scope),
    )


def _skipped(connection: Connection, scope: Scope) -> tuple[SkippedCount, ...]:
    """Count the records left out, of those the scope would show if they were indexed."""
    reasons: dict[str, dict[str, int]] = {}
    if scope.is_everything:
        rows = connection.execute(
            "SELECT author, reason, NULL, count(*) FROM skipped GROUP BY author, reason"
        )
    else:
        rows = connection.execute(
            "SELECT author, reason, tags, count(*) FROM skipped GROUP BY author, reason, tags"
        )
    tree = PathTree(connection)
    for author, reason, tags, count in rows:
        if not scope.is_everything:
            shown = (
                covers_unread(scope, author)
                if tags is None
                else covers(tree, scope, author, json.loads(tags))
            )
            if not shown:
                continue
        of_author = reasons.setdefault(author, {})
        of_author[reason] = of_author.get(reason, 0) + count
    return tuple(SkippedCount(Did(author), counts) for author, counts in sorted(reasons.items()))
