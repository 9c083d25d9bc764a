"""Following a change of a space's config, in one transaction of its file.

The active index belongs to `config.model`, the next index to `config.next`. Whatever the change (declare,
next, promote, cancel, the config's removal), afterwards: every live fact is in the active index; the next
index holds the facts with a usable vector for the next model; records that do not fit are in `skipped`
and those that fit are live. A space without a config indexes nothing: its records all wait in `skipped`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.memory import vectors
from appview.memory.apply import Outcome, newest_retired
from appview.memory.judge import Fits, judge
from appview.memory.meta import write_config
from appview.memory.stored import CHUNK, live_facts
from appview.memory.writer import NewFact, Skip, Version
from lexicons.data import decode_record
from lexicons.memories import Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.memory.judge import Unfit
    from appview.memory.writer import Writer
    from lexicons.configs import Config
    from lexicons.models import ModelKey


def configure(writer: Writer, config: Config | None) -> Outcome:
    """Bring indexes, facts and skipped records in line with a config."""
    connection, outcome = writer.connection, Outcome()
    write_config(connection, config)
    writer.changed = True
    active = config.model if config is not None else None
    following = config.next if config is not None else None
    model_changed = active != (writer.active.key if writer.active is not None else None)
    if model_changed:
        _change_model(writer, active, outcome)
    if following != (writer.building.key if writer.building is not None else None):
        _build_next(writer, following)
    if model_changed:
        _judge_skipped(writer, outcome)
    return outcome


def _change_model(writer: Writer, key: ModelKey | None, outcome: Outcome) -> None:
    """Give the space an active index of `key`, and take out the facts that do not fit it."""
    connection = writer.connection
    if writer.building is not None and writer.building.key == key:
        vectors.promote(connection)
        writer.active, writer.building = vectors.find(connection, "active"), None
        assert writer.active is not None  # noqa: S101
        unindexed = f"f.id NOT IN ({writer.active.ids_sql()})"
        for chunk in live_facts(connection, unindexed):
            take_out(writer, chunk, key, outcome)
        return
    vectors.drop(connection, "active")
    writer.active = vectors.create(connection, "active", key) if key is not None else None
    for chunk in live_facts(connection):
        if writer.active is not None and key is not None:
            verdicts = judge([version.memory for _, version in chunk], key)
            writer.active.insert(
                connection,
                [
                    (fact_id, verdict.vector)
                    for (fact_id, _), verdict in zip(chunk, verdicts, strict=True)
                    if isinstance(verdict, Fits)
                ],
            )
            chunk = [
                item for item, verdict in zip(chunk, verdicts, strict=True) if not isinstance(verdict, Fits)
            ]
        take_out(writer, chunk, key, outcome)


def _build_next(writer: Writer, key: ModelKey | None) -> None:
    """Give the space a next index of `key` from what the facts hold, or none."""
    connection = writer.connection
    vectors.drop(connection, "next")
    writer.building = vectors.create(connection, "next", key) if key is not None else None
    if writer.building is None or key is None:
        return
    for chunk in live_facts(connection):
        verdicts = judge([version.memory for _, version in chunk], key)
        writer.building.insert(
            connection,
            [
                (fact_id, verdict.vector)
                for (fact_id, _), verdict in zip(chunk, verdicts, strict=True)
                if isinstance(verdict, Fits)
            ],
        )


def take_out(
    writer: Writer, chunk: Sequence[tuple[int, Version]], key: ModelKey | None, outcome: Outcome
) -> None:
    """Move live facts that do not fit the model to the skipped records."""
    skips = []
    verdicts = judge([version.memory for _, version in chunk], key)
    for (_, version), verdict in zip(chunk, verdicts, strict=True):
        if isinstance(verdict, Fits):
            raise AssertionError("a fact that fits was not in the index")
        skips.append(_skip(version, verdict))
    writer.retire([fact_id for fact_id, _ in chunk])
    writer.leave_out(skips)
    outcome.leave_out(skips)


def _judge_skipped(writer: Writer, outcome: Outcome) -> None:
    """Judge again the records that were left out for a reason that lies in the config."""
    connection = writer.connection
    active = writer.active.key if writer.active is not None else None
    building = writer.building.key if writer.building is not None else None
    last = ("", "")
    while True:
        rows = connection.execute(
            "SELECT author, rkey, rev, cid, reason, record FROM skipped"
            " WHERE record IS NOT NULL AND (author, rkey) > (?, ?) ORDER BY author, rkey LIMIT ?",
            (*last, CHUNK),
        ).fetchall()
        if not rows:
            return
        last = (rows[-1][0], rows[-1][1])
        versions = [
            Version((row[0], row[1]), row[2], row[3], Memory.from_record(decode_record(row[5])))
            for row in rows
        ]
        verdicts = judge([version.memory for version in versions], active, building)
        skips: list[Skip] = []
        fitting: list[tuple[Version, Fits]] = []
        for row, version, verdict in zip(rows, versions, verdicts, strict=True):
            if isinstance(verdict, Fits):
                fitting.append((version, verdict))
            elif verdict.reason != row[4]:
                skips.append(_skip(version, verdict))
        writer.leave_out(skips)
        outcome.leave_out(skips)
        writer.take_in([version.key for version, _ in fitting])
        before = newest_retired(connection, [version.key for version, _ in fitting])
        writer.make_live([_come_back(version, fits, before.get(version.key)) for version, fits in fitting])
        outcome.created += len(fitting)


def _come_back(version: Version, fits: Fits, before: tuple[int, str] | None) -> NewFact:
    if before is None:
        return NewFact(version, fits)
    fact_id, cid = before
    if cid == version.cid:
        return NewFact(version, fits, revives=fact_id)
    return NewFact(version, fits, supersedes=fact_id)


def _skip(version: Version, verdict: Unfit) -> Skip:
    key, memory = version.key, version.memory
    return Skip(key, version.rev, version.cid, verdict.reason, verdict.detail, memory, brief=verdict.brief)
