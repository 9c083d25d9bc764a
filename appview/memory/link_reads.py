"""What points where, as far as a scope shows it.

A target that a reader may not read looks exactly like one that the space does not have.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.memory.links import PATH, Link
from appview.memory.rows import FACT_COLUMNS, FACT_TABLES, fact
from appview.memory.scope_sql import LIVE, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.memory.reads import Position
    from appview.memory.scope import Scope
    from appview.memory.values import Fact, Filters
    from appview.sqlite import Connection

_COLUMNS: Final = 12  # of a fact, in a row that goes on


@dataclass(frozen=True, slots=True)
class Pointed:
    """A link of a memory and the fact it leads to, None for a path and for what is not there to see."""

    link: Link
    fact: Fact | None


@dataclass(frozen=True, slots=True)
class Backlink:
    """A fact that points to another one or to its path, in these ways."""

    fact: Fact
    kinds: tuple[str, ...]


def links_of(connection: Connection, of: Fact, scope: Scope, filters: Filters) -> list[Pointed]:
    """List what a fact points to, by kind and target."""
    condition = render(scope, filters)
    found = [
        Link(*row)
        for row in connection.execute(
            "SELECT kind, target_author, target FROM fact_links WHERE fact_id = ?"
            " ORDER BY kind, target_author, target",
            (of.id,),
        )
    ]
    targets = json.dumps([[link.author, link.target] for link in found if link.kind != PATH])
    rows = connection.execute(
        f"SELECT DISTINCT {FACT_COLUMNS} FROM json_each(?) AS asked CROSS JOIN {FACT_TABLES}"  # noqa: S608
        f" WHERE f.author = asked.value ->> 0 AND f.rkey = asked.value ->> 1 AND {LIVE}{condition.clause}",
        (targets, *condition.params),
    )
    facts = {(str(there.author), there.rkey): there for there in map(fact, rows)}
    return [
        Pointed(link, None if link.kind == PATH else facts.get((link.author, link.target))) for link in found
    ]


def backlinks_of(
    connection: Connection, of: Fact, scope: Scope, filters: Filters, limit: int, before: Position | None
) -> list[Backlink]:
    """List what points to a fact or to its path, newest first, from the one after `before`."""
    condition = render(scope, filters)
    rows = connection.execute(
        f"SELECT {FACT_COLUMNS}, group_concat(DISTINCT back.kind) FROM"  # noqa: S608
        " (SELECT fact_id, kind FROM fact_links WHERE target_author = ? AND target = ?"
        " UNION ALL SELECT fact_id, kind FROM fact_links WHERE target_author = '' AND target = ?) AS back"
        f" CROSS JOIN {FACT_TABLES} WHERE f.id = back.fact_id AND {LIVE} AND f.id <> ?{condition.clause}"
        f"{' AND (f.ordered_at, f.author, f.rkey) < (?, ?, ?)' if before is not None else ''}"
        " GROUP BY f.id ORDER BY f.ordered_at DESC, f.author DESC, f.rkey DESC LIMIT ?",
        (of.author, of.rkey, of.path, of.id, *condition.params, *(before or ()), limit),
    )
    return [Backlink(fact(row), tuple(sorted(row[_COLUMNS].split(",")))) for row in rows]


def links_between(connection: Connection, fact_ids: Sequence[int]) -> list[tuple[int, int, str]]:
    """List which of the facts point to which, and how."""
    asked = json.dumps(list(fact_ids))
    rows = connection.execute(
        "SELECT l.fact_id, target.id, l.kind FROM json_each(?1) AS asked"
        " CROSS JOIN fact_links AS l ON l.fact_id = asked.value AND l.target_author <> ''"
        " CROSS JOIN facts AS target ON target.author = l.target_author AND target.rkey = l.target"
        " AND target.invalidated_at IS NULL WHERE target.id IN (SELECT value FROM json_each(?1))",
        (asked,),
    )
    return [(row[0], row[1], row[2]) for row in rows]
