"""The part of control.db that holds the access rules, their version, and the log of all changes of who may do
what. Functions of a connection, each inside a transaction of the caller's.

Times are microseconds since 1970.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from appview.sqlite import Connection

RULE_FIELDS: Final = 6  # v0 to v5 of casbin_rule
_SAME: Final = "ptype = ? AND " + " AND ".join(f"v{number} = ?" for number in range(RULE_FIELDS))


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """An access rule as stored, in Casbin's shape. `appview.access.rules` says what it means."""

    ptype: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join((self.ptype, *self.fields))


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One change: who made it, the rules it took away and those it added.

    A token shows as `token, <name>, <expiry>`, a tag of a path as `tag, <space>, <path>, <key=value>,
    plain | protected`, what an operator has said of a space as `space, <space>, added | removed`.
    """

    at: int
    actor: str
    action: str
    before: tuple[Rule, ...]
    after: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class RulesChange:
    """What a change of the rules did; `version` is the policy version after it."""

    version: int
    added: tuple[Rule, ...] = ()
    removed: tuple[Rule, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything is different now."""
        return bool(self.added or self.removed)


def read_version(connection: Connection) -> int:
    """Read the number that grows with every change of the rules."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'policy_version'").fetchone()
    return int(row["value"])


def read_rules(connection: Connection) -> list[Rule]:
    """Read the rules, in the order they were added."""
    rows = connection.execute("SELECT ptype, v0, v1, v2, v3, v4, v5 FROM casbin_rule ORDER BY id")
    rules = []
    for ptype, *values in rows:
        while values and not values[-1]:
            values.pop()
        rules.append(Rule(ptype, tuple(values)))
    return rules


def read_changes(connection: Connection, version: int) -> list[tuple[tuple[Rule, ...], tuple[Rule, ...]]]:
    """Read what each change after `version` took away and added, in order."""
    rows = connection.execute(
        "SELECT before, after FROM audit WHERE version > ? ORDER BY version", (version,)
    )
    return [(_load(before), _load(after)) for before, after in rows]


def read_audit(connection: Connection, limit: int) -> list[AuditRow]:
    """Read the last changes, newest first."""
    rows = connection.execute("SELECT * FROM audit ORDER BY id DESC LIMIT ?", (limit,))
    return [
        AuditRow(row["at"], row["actor"], row["action"], _load(row["before"]), _load(row["after"]))
        for row in rows
    ]


def change_rules(
    connection: Connection,
    add: Iterable[Rule],
    remove: Iterable[Rule],
    check: Callable[[int, Sequence[Rule], Sequence[Rule]], object] | None,
    *,
    actor: str,
    action: str,
    now: int,
) -> RulesChange:
    """Remove and add rules, as `Control.change_rules` has it."""
    wanted, unwanted = dict.fromkeys(add), dict.fromkeys(remove)
    before = [rule for rule in unwanted if rule not in wanted and _has(connection, rule)]
    after = [rule for rule in wanted if not _has(connection, rule)]
    version = read_version(connection)
    if not before and not after:
        return RulesChange(version)
    if check is not None:
        check(version, before, after)
    columns = ", ".join(f"v{number}" for number in range(RULE_FIELDS))
    connection.executemany(
        f"DELETE FROM casbin_rule WHERE {_SAME}",  # noqa: S608 - column names only
        [_columns(rule) for rule in before],
    )
    connection.executemany(
        f"INSERT INTO casbin_rule (ptype, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        [_columns(rule) for rule in after],
    )
    note(connection, before, after, actor=actor, action=action, now=now, version=version + 1)
    set_version(connection, version + 1)
    return RulesChange(version + 1, tuple(after), tuple(before))


def note(
    connection: Connection,
    before: Iterable[Rule],
    after: Iterable[Rule],
    *,
    actor: str,
    action: str,
    now: int,
    version: int | None = None,
) -> int:
    """Write a change into the audit log; return the entry's number. `version` is the policy version that it
    made, where it made one."""
    cursor = connection.execute(
        "INSERT INTO audit (at, actor, action, before, after, version) VALUES (?, ?, ?, ?, ?, ?)",
        (now, actor, action, _dump(before), _dump(after), version),
    )
    return int(cursor.lastrowid or 0)


def count_entry(connection: Connection, entry: int) -> None:
    """Make the change of an entry of the audit log the policy's version."""
    version = read_version(connection) + 1
    connection.execute("UPDATE audit SET version = ? WHERE id = ?", (version, entry))
    set_version(connection, version)


def set_version(connection: Connection, version: int) -> None:
    """Write the number that grows with every change of the rules."""
    connection.execute("UPDATE meta SET value = ? WHERE key = 'policy_version'", (str(version),))


def _has(connection: Connection, rule: Rule) -> bool:
    found = connection.execute(f"SELECT 1 FROM casbin_rule WHERE {_SAME}", _columns(rule))  # noqa: S608
    return found.fetchone() is not None


def _columns(rule: Rule) -> tuple[str, ...]:
    if not rule.fields or len(rule.fields) > RULE_FIELDS or not all(rule.fields):
        raise ValueError(f"a rule has 1 to {RULE_FIELDS} fields, none empty: {rule}")
    return (rule.ptype, *rule.fields, *("",) * (RULE_FIELDS - len(rule.fields)))


def _dump(rules: Iterable[Rule]) -> str:
    return json.dumps([[rule.ptype, *rule.fields] for rule in rules], ensure_ascii=False)


def _load(text: str) -> tuple[Rule, ...]:
    return tuple(Rule(ptype, tuple(fields)) for ptype, *fields in json.loads(text))
