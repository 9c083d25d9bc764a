"""What ranking signals read from a file: importance, and how many memories point to one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from appview.memory.links import MENTION
from appview.memory.scope_sql import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def pointing(connection: Connection, fact_ids: Iterable[int]) -> list[tuple[int, int]]:
    """List the live facts that speak for given ones, as pairs (fact, given one), each pair once."""
    rows = connection.execute(
        "SELECT DISTINCT f.id, target.id FROM json_each(?) AS asked"  # noqa: S608
        " CROSS JOIN facts AS target ON target.id = asked.value"
        " CROSS JOIN fact_links AS l ON l.target_author = target.author AND l.target = target.rkey"
        " AND l.kind IN (SELECT value FROM json_each(?))"
        f" CROSS JOIN facts AS f ON f.id = l.fact_id AND {LIVE}",
        (json.dumps(list(fact_ids)), json.dumps(SUPPORTING)),
    )
    return rows.fetchall()
