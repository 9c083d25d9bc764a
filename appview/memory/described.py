"""What access rules see of live facts: their paths, and their effective attributes with `owner`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.memory.scope_sql import LIVE
from appview.memory.tags import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from appview.sqlite import Connection

_PLACES: Final = (
    "SELECT f.id, f.author, p.full_path FROM json_each(?) AS asked"  # noqa: S608
    " CROSS JOIN facts AS f ON f.id = asked.value CROSS JOIN paths AS p ON p.id = f.path_id"
    f" WHERE {LIVE}"
)
_ATTRIBUTES: Final = (
    "SELECT e.fact_id, e.key, e.value FROM json_each(?) AS asked"
    " CROSS JOIN effective_tags AS e ON e.fact_id = asked.value"
)


@dataclass(frozen=True, slots=True)
class Described:
    """A live fact as a scope judges it."""

    id: int
    path: str
    attributes: Mapping[str, str]


def describe(connection: Connection, fact_ids: Iterable[int]) -> list[Described]:
    """Describe facts; those that are not live are left out."""
    asked = json.dumps(list(fact_ids))
    attributes: dict[int, dict[str, str]] = {}
    for fact_id, key, value in connection.execute(_ATTRIBUTES, (asked,)):
        attributes.setdefault(fact_id, {})[key] = value
    return [
        Described(fact_id, path, {**attributes.get(fact_id, {}), OWNER: author})
        for fact_id, author, path in connection.execute(_PLACES, (asked,))
    ]
