"""Strength in a file: what recalls have left of each memory, for a subject and for the space.

Subjects are texts; `SPACE` stands for the space, whose strength comes from its members' recalls. Who never
recalled a memory sees it with the space's strength; one that no member recalled fades from the day it was
made.

Strength changes what some questions answer, but not `data_version`: it is read from the file by every
question, and nothing that is derived from the file holds it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.memory.forgetting import Trace
from appview.memory.scope_sql import LIVE, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from appview.memory.scope import Scope
    from appview.memory.values import Filters
    from appview.sqlite import Connection

SPACE: Final = ""  # no subject has this name

# Of the live facts with these ids: what the subject's own recalls left, else the space's, else its making.
_TRACES: Final = (
    "SELECT f.id, coalesce(own.recalled_at, ours.recalled_at, f.ordered_at),"
    " coalesce(own.stability_days, ours.stability_days), coalesce(own.recalls, ours.recalls, 0)"
    " FROM json_each(?2) AS asked CROSS JOIN facts AS f ON f.id = asked.value"
    " LEFT JOIN strengths AS own ON own.author = f.author AND own.rkey = f.rkey AND own.subject = ?1"
    " LEFT JOIN strengths AS ours ON ours.author = f.author AND ours.rkey = f.rkey AND ours.subject = ''"
)
_RECALLED: Final = (
    "SELECT r.id FROM strengths AS s CROSS JOIN facts AS r ON r.author = s.author AND r.rkey = s.rkey"
    " AND r.invalidated_at IS NULL WHERE s.subject IN ('', ?)"
)


@dataclass(frozen=True, slots=True)
class Recall:
    """A subject got a memory back at an instant (microseconds). `for_space` tells that a member did."""

    author: str
    rkey: str
    subject: str
    at: int
    for_space: bool = False


def traces(connection: Connection, subject: str, fact_ids: Iterable[int]) -> dict[int, Trace]:
    """Read what is left of facts for a subject (`SPACE` for the space alone), by id."""
    rows = connection.execute(_TRACES, (subject, json.dumps(list(fact_ids))))
    return {
        fact_id: Trace(at) if stability is None else Trace(at, stability, recalls)
        for fact_id, at, stability, recalls in rows
    }


def strongest(
    connection: Connection, subject: str, now: int, scope: Scope, filters: Filters, count: int
) -> list[tuple[int, float]]:
    """Find the facts of which most is left, ids and strengths, best first; equal ones are in no order.

    Facts that nobody recalled fade alike from the day they were made, so of them the newest are the
    strongest: only those, and the recalled ones, are looked at.
    """
    condition = render(scope, filters)
    recalled = connection.execute(
        f"SELECT f.id FROM facts AS f WHERE {LIVE} AND f.id IN ({_RECALLED}){condition.clause}",  # noqa: S608
        (subject, *condition.params),
    )
    ids = {row[0] for row in recalled}
    newest = connection.execute(
        f"SELECT f.id FROM facts AS f WHERE {LIVE}{condition.clause}"  # noqa: S608
        " ORDER BY f.ordered_at DESC, f.author DESC, f.rkey DESC LIMIT ?",
        (*condition.params, count),
    )
    ids.update(row[0] for row in newest)
    left = [(fact_id, trace.strength(now)) for fact_id, trace in traces(connection, subject, ids).items()]
    left.sort(key=lambda item: -item[1])
    if len(left) > count:
        last = left[count - 1][1]
        left = [item for item in left if item[1] >= last]
    return left


def reinforce(connection: Connection, recalls: Sequence[Recall]) -> int:
    """Take recalls in, in the order of their instants; tell how many counted. Memories that are gone are
    passed over."""
    counted = 0
    for recall in sorted(recalls, key=lambda recall: recall.at):
        subjects = (recall.subject, SPACE) if recall.for_space else (recall.subject,)
        known = False
        for subject in subjects:
            known |= _reinforce(connection, recall, subject)
        counted += known
    return counted


def forget(connection: Connection, author: str, rkey: str | None = None) -> None:
    """Forget the recalls of a record, or of all of an author's."""
    if rkey is None:
        connection.execute("DELETE FROM strengths WHERE author = ?", (author,))
    else:
        connection.execute("DELETE FROM strengths WHERE author = ? AND rkey = ?", (author, rkey))


def _reinforce(connection: Connection, recall: Recall, subject: str) -> bool:
    row = connection.execute(
        "SELECT f.ordered_at, s.recalled_at, s.stability_days, s.recalls FROM facts AS f"  # noqa: S608
        " LEFT JOIN strengths AS s ON s.author = f.author AND s.rkey = f.rkey AND s.subject = ?"
        f" WHERE f.author = ? AND f.rkey = ? AND {LIVE}",
        (subject, recall.author, recall.rkey),
    ).fetchone()
    if row is None:
        return False
    made_at, recalled_at, stability, count = row
    before = Trace(made_at) if recalled_at is None else Trace(recalled_at, stability, count)
    after = before.recalled(recall.at)
    connection.execute(
        "INSERT OR REPLACE INTO strengths (author, rkey, subject, recalled_at, recalls, stability_days)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (recall.author, recall.rkey, subject, after.at, after.recalls, after.stability_days),
    )
    return True
