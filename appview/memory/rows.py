"""Rows of `facts` as `Fact` values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from appview.memory.values import Fact
from lexicons.syntax import AtUri, Did

if TYPE_CHECKING:
    from collections.abc import Sequence

FACT_COLUMNS: Final = (
    "f.id, f.uri, f.cid, f.author, f.rkey, fp.full_path, f.content, f.tags, f.source, f.created_at,"
    " f.recorded_at, f.ordered_at"
)
FACT_TABLES: Final = "facts AS f CROSS JOIN paths AS fp ON fp.id = f.path_id"


def fact(row: Sequence[Any]) -> Fact:
    """Read a row that starts with `FACT_COLUMNS`."""
    return Fact(
        id=row[0],
        uri=AtUri(row[1]),
        cid=row[2],
        author=Did(row[3]),
        rkey=row[4],
        path=row[5],
        text=row[6],
        tags=tuple(json.loads(row[7])),
        source=row[8],
        created_at=row[9],
        recorded_at=row[10],
        ordered_at=row[11],
    )
