"""A `Scope` and `Filters` as one SQL condition over the alias `f` of `facts`.

The condition accepts exactly the facts that `Scope.covers` accepts. Everything comes in as a bound value,
lists as one JSON array each, so the text of the statement depends on the kinds of pattern and not on
their number. `EVERYTHING` without filters is no condition at all: who may read all pays nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.memory.patterns import by_kind
from appview.memory.scope import Subtree
from appview.memory.values import Filters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.memory.scope import Pattern, Scope

Param = str | int
LIVE: Final = "f.invalidated_at IS NULL"
NO_FILTERS: Final = Filters()

# A path below `s` starts with s + '/', so it sorts from there to s + '0', the next character.
_EXACT: Final = "f.path_id IN (SELECT id FROM paths WHERE full_path IN (SELECT value FROM json_each(?)))"
_SUBTREE: Final = (
    "f.path_id IN (SELECT p.id FROM json_each(?) AS s CROSS JOIN paths AS p ON p.full_path = s.value"
    " UNION ALL SELECT p.id FROM json_each(?) AS s CROSS JOIN paths AS p"
    " ON p.full_path > s.value || '/' AND p.full_path < s.value || '0')"
)
_OWNER: Final = "f.author IN (SELECT value FROM json_each(?))"
# Attributes and labels are looked up once a statement, from their index, so a rare one costs next to nothing.
# Asking fact by fact is cheaper only where a read stops early, and seven times dearer where it does not.
_ATTRIBUTE: Final = (
    "f.id IN (SELECT e.fact_id FROM json_each(?) AS a CROSS JOIN effective_tags AS e"
    " ON e.key = a.value ->> 0 AND e.value = a.value ->> 1)"
)
_LABEL: Final = "f.id IN (SELECT l.fact_id FROM fact_labels AS l WHERE l.label = ?)"
_WITHOUT: Final = "f.id NOT IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition over `f` and the values it binds; `sql` is empty where every fact passes."""

    sql: str = ""
    params: tuple[Param, ...] = ()

    @property
    def clause(self) -> str:
        """The condition after others, ` AND ...`, or nothing."""
        return f" AND {self.sql}" if self.sql else ""


def render(scope: Scope, filters: Filters = NO_FILTERS) -> Condition:
    """Write the condition of a scope and filters; it says nothing about a fact being live."""
    if scope.is_nothing:
        return Condition("0")
    parts: list[str] = []
    params: list[Param] = []
    if Subtree("/") not in scope.allow:
        condition = _any_of(scope.allow)
        parts.append(condition.sql)
        params.extend(condition.params)
    if scope.deny:
        condition = _any_of(scope.deny)
        parts.append(f"NOT {condition.sql}")
        params.extend(condition.params)
    if filters.author is not None:
        parts.append("f.author = ?")
        params.append(filters.author)
    if filters.since is not None:
        parts.append("f.ordered_at >= ?")
        params.append(filters.since)
    if filters.path is not None and filters.path != "/":
        paths = json.dumps([filters.path])
        parts.append(_SUBTREE)
        params.extend((paths, paths))
    for tag in dict.fromkeys(filters.tags):
        parts.append(_LABEL)
        params.append(tag)
    if filters.without:
        parts.append(_WITHOUT)
        params.append(json.dumps(sorted(filters.without)))
    return Condition(" AND ".join(parts), tuple(params))


def _any_of(patterns: Iterable[Pattern]) -> Condition:
    kinds = by_kind(patterns)
    parts: list[str] = []
    params: list[Param] = []
    statements = (
        (_EXACT, kinds.exact),
        (_SUBTREE, kinds.subtrees),
        (_OWNER, kinds.owners),
        (_ATTRIBUTE, kinds.attributes),
    )
    for sql, values in statements:
        if values:
            parts.append(sql)
            # In order, so that the same scope is the same statement with the same values.
            params.extend([json.dumps(sorted(values))] * sql.count("?"))
    return Condition(f"({' OR '.join(parts)})", tuple(params))
