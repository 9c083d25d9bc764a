"""Applying what commits changed, in one transaction of a space's file.

Invariants:
- An update whose rev is not above the author's last one is not looked at, unless it is complete: so an event
  that comes twice changes nothing. The order of complete updates is the caller's care.
- A complete update may be applied bit by bit; the author's rev moves with the last. Until then nothing else
  of the author's may be applied.
- A partial update does not move the author's rev: what came before it may still come.
- A version that is live already (same record key, same CID) is not touched.
- Of a record there is at most one of: a live fact, a row in `skipped`.
- A record outside of what its author may write is held as one that is not in the repo.
- A record's changes take effect in order; everything else is done many at a time, in rounds.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appview.memory.complete import MAX_ROUND_BYTES, Merge, weight
from appview.memory.judge import Fits, judge
from appview.memory.rights import is_writable
from appview.memory.scope import digest
from appview.memory.values import Applied, Delete, Put, Refuse, Removal, Visibility
from appview.memory.writer import NewFact, Skip, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from appview.memory.judge import Verdict
    from appview.memory.scope import Scope
    from appview.memory.values import Change, SkipReason, Update
    from appview.memory.writer import Key, Writer
    from appview.sqlite import Connection

MAX_ROUND: Final = 1_000  # records at a time: bounds what a large complete update holds in memory twice
MAX_TOLD: Final = 1_000  # records left out in one transaction that are told of singly

_LIVE: Final = (
    "SELECT f.author, f.rkey, f.id, f.cid FROM json_each(?) AS j CROSS JOIN facts AS f"
    " ON f.author = j.value ->> 0 AND f.rkey = j.value ->> 1 AND f.invalidated_at IS NULL"
)
_SKIPPED: Final = (
    "SELECT s.author, s.rkey, s.cid, s.reason FROM json_each(?) AS j CROSS JOIN skipped AS s"
    " ON s.author = j.value ->> 0 AND s.rkey = j.value ->> 1"
)
_RETIRED: Final = (
    "SELECT f.author, f.rkey, max(f.id), f.cid FROM json_each(?) AS j CROSS JOIN facts AS f"
    " ON f.author = j.value ->> 0 AND f.rkey = j.value ->> 1 AND f.invalidated_at IS NOT NULL"
    " WHERE f.deleted_at IS NULL GROUP BY f.author, f.rkey"
)


@dataclass(slots=True)
class Outcome:
    """What a transaction did, counted while it runs: also what it newly left out, by author and reason, with
    some of the records to tell of."""

    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: Counter[tuple[str, SkipReason]] = field(default_factory=Counter)
    skips: list[Skip] = field(default_factory=list)

    def leave_out(self, skips: Sequence[Skip]) -> None:
        """Count records that are newly left out."""
        self.skipped.update((skip.key[0], skip.reason) for skip in skips)
        for skip in skips[: MAX_TOLD - len(self.skips)]:
            self.skips.append(replace(skip, memory=None, tags=None, detail=""))

    @property
    def applied(self) -> Applied:
        """The counts as a value."""
        reasons: dict[str, int] = {}
        for (_, reason), number in self.skipped.items():
            reasons[reason] = reasons.get(reason, 0) + number
        return Applied(self.created, self.updated, self.deleted, self.unchanged, reasons)


def apply_updates(
    writer: Writer, updates: Sequence[Update], merge: Merge | None = None, most: int | None = None
) -> Outcome:
    """Apply updates in order; with `merge`, of the one update, which is complete, about `most` (by cost) of
    what is left of it. The author's rev moves when it is over."""
    connection = writer.connection
    outcome = Outcome()
    pending: dict[Key, tuple[str, Change, Scope]] = {}
    revs = _known_revs(connection, {update.author for update in updates})
    applied: dict[str, tuple[str, str | None]] = {}
    whole: dict[str, Scope] = {}

    def flush() -> None:
        _apply_round(writer, pending, outcome)
        pending.clear()

    for update in updates:
        if isinstance(update, Visibility):
            writer.set_hidden(update.author, update.hidden)
            continue
        if isinstance(update, Removal):
            flush()
            writer.erase_author(update.author)
            revs.pop(update.author, None)
            applied.pop(update.author, None)
            whole.pop(update.author, None)
            continue
        known = revs.get(update.author)
        if not update.complete and known is not None and update.rev <= known:
            outcome.unchanged += len(update.changes)
            continue
        changes: Iterable[Change] = update.changes
        if update.complete:
            flush()
            merge = merge or Merge(update)
            changes = merge.read(connection, most)
            whole[update.author] = update.scope
        size = 0
        for change in changes:
            key = (update.author, change.rkey)
            size += weight(change)
            if key in pending or len(pending) >= MAX_ROUND or size > MAX_ROUND_BYTES:
                flush()
                size = weight(change)
            pending[key] = (update.rev, change, update.scope)
        if update.partial or (update.complete and merge is not None and not merge.is_over):
            continue
        if update.complete:
            merge = None
        revs[update.author] = update.rev
        applied[update.author] = (update.rev, update.data)
    flush()
    connection.executemany(
        "INSERT INTO repos (author, rev, data, scope) VALUES (?, ?, ?, ?) ON CONFLICT (author) DO UPDATE"
        " SET rev = excluded.rev, data = excluded.data, scope = coalesce(excluded.scope, scope)",
        [
            (author, rev, data, digest(whole[author]) if author in whole else None)
            for author, (rev, data) in applied.items()
        ],
    )
    return outcome


def records_of(connection: Connection, author: str) -> dict[str, str]:
    """Read the CID of each record of an author that is known here, indexed or left out, by record key."""
    return dict(
        connection.execute(
            "SELECT rkey, cid FROM facts WHERE author = ?1 AND invalidated_at IS NULL"
            " UNION ALL SELECT rkey, cid FROM skipped WHERE author = ?1",
            (author,),
        ).fetchall()
    )


def newest_retired(connection: Connection, keys: Sequence[Key]) -> dict[Key, tuple[int, str]]:
    """Find the last version, fact id and CID, of records that have no live one and are not deleted."""
    rows = connection.execute(_RETIRED, (json.dumps(keys),))
    return {(author, rkey): (fact_id, cid) for author, rkey, fact_id, cid in rows}


def _known_revs(connection: Connection, authors: Iterable[str]) -> dict[str, str]:
    return dict(
        connection.execute(
            "SELECT author, rev FROM repos WHERE author IN (SELECT value FROM json_each(?))",
            (json.dumps(list(authors)),),
        ).fetchall()
    )


def _apply_round(writer: Writer, pending: dict[Key, tuple[str, Change, Scope]], outcome: Outcome) -> None:
    """Apply changes of different records."""
    if not pending:
        return
    connection = writer.connection
    keys = json.dumps(list(pending))
    live = {(row[0], row[1]): (row[2], row[3]) for row in connection.execute(_LIVE, (keys,))}
    skipped = {(row[0], row[1]): (row[2], row[3]) for row in connection.execute(_SKIPPED, (keys,))}
    versions: list[Version] = []
    skips: list[Skip] = []
    for key, (rev, change, scope) in pending.items():
        if not is_writable(writer.paths, key[0], change, scope):
            change = Delete(key[1])
        match change:
            case Delete():
                gone = key in skipped
                if gone:
                    writer.take_in([key])
                if writer.bury(key) or gone:
                    outcome.deleted += 1
                else:
                    outcome.unchanged += 1
            case Refuse():
                skips.append(
                    Skip(
                        key,
                        rev,
                        change.cid,
                        change.reason,
                        change.detail,
                        tags=change.tags,
                        brief=change.brief,
                    )
                )
            case Put() if key in live and live[key][1] == change.cid:
                outcome.unchanged += 1
            case Put():
                versions.append(Version(key, rev, change.cid, change.memory))

    verdicts = _judge(writer, versions)
    fitting: list[tuple[Version, Fits]] = []
    for version, verdict in zip(versions, verdicts, strict=True):
        if isinstance(verdict, Fits):
            fitting.append((version, verdict))
        else:
            key, memory = version.key, version.memory
            skips.append(
                Skip(
                    key, version.rev, version.cid, verdict.reason, verdict.detail, memory, brief=verdict.brief
                )
            )
    news = [skip for skip in skips if skipped.get(skip.key) != (skip.cid, skip.reason)]
    outcome.unchanged += len(skips) - len(news)
    outcome.leave_out(news)

    fresh = [version.key for version, _ in fitting if version.key not in live]
    before = newest_retired(connection, fresh) | live
    changed = [version.key for version, _ in fitting] + [skip.key for skip in news]
    writer.retire(live[key][0] for key in changed if key in live)
    writer.take_in([version.key for version, _ in fitting if version.key in skipped])
    writer.leave_out(news)
    writer.make_live(
        [
            NewFact(version, fits, supersedes=before[version.key][0] if version.key in before else None)
            for version, fits in fitting
        ]
    )
    outcome.updated += sum(1 for version, _ in fitting if version.key in live)
    outcome.created += sum(1 for version, _ in fitting if version.key not in live)


def _judge(writer: Writer, versions: Sequence[Version]) -> list[Verdict]:
    return judge(
        [version.memory for version in versions],
        writer.active.key if writer.active is not None else None,
        writer.building.key if writer.building is not None else None,
    )
