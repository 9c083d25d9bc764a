"""What ranking signals read from a file: importance, and how many memories point to one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from appview.memory.links import MENTION
from appview.memory.scope_sql import LIVE, render

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.memory.scope import Scope
    from appview.memory.values import Filters
    from appview.sqlite import Connection

IMPORTANCE: Final = "importance"  # the attribute: a whole number from 1 to 10
MIN_IMPORTANCE: Final = 1
MAX_IMPORTANCE: Final = 10
# Links that speak for what they lead to; to be contradicted or superseded does not.
SUPPORTING: Final = (MENTION, "derived-from", "caused-by", "similar-to")

_IMPORTANCE: Final = (
    "SELECT e.fact_id, e.value FROM json_each(?) AS asked CROSS JOIN effective_tags AS e"
    " ON e.fact_id = asked.value AND e.key = ?"
)


def importances(connection: Connection, fact_ids: Iterable[int]) -> dict[int, int]:
    """Read the importance of facts, their own or that of their path; what is no whole number from 1 to 10 is
    none."""
    known: dict[int, int] = {}
    for fact_id, text in connection.execute(_IMPORTANCE, (json.dumps(list(fact_ids)), IMPORTANCE)):
        if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_IMPORTANCE)):
            value = int(text)
            if MIN_IMPORTANCE <= value <= MAX_IMPORTANCE:
                known[fact_id] = value
    return known


def pointed_to(
    connection: Connection, scope: Scope, filters: Filters, fact_ids: Iterable[int]
) -> dict[int, int]:
    """Count the facts inside a scope and filters that speak for each of the given ones; 0 is left out."""
    condition = render(scope, filters)
    rows = connection.execute(
        "SELECT target.id, count(DISTINCT f.id) FROM json_each(?) AS asked"  # noqa: S608
        " CROSS JOIN facts AS target ON target.id = asked.value"
        " CROSS JOIN fact_links AS l ON l.target_author = target.author AND l.target = target.rkey"
        " AND l.kind IN (SELECT value FROM json_each(?))"
        f" CROSS JOIN facts AS f ON f.id = l.fact_id AND {LIVE} WHERE 1{condition.clause} GROUP BY target.id",
        (json.dumps(list(fact_ids)), json.dumps(SUPPORTING), *condition.params),
    )
    return {row[0]: row[1] for row in rows}
