"""control.db: what the appview knows outside the memory of any one space. All its SQL is here, and that of
its rules in `control_rules`, of its credentials in `control_tokens`, of lists of accounts in `control_lists`,
of what spaces' files were in `control_files`.

Times are microseconds since 1970. Every method is one transaction. The command line and the server open the
same file at once: `policy_version` and `data_version` tell one what the other has done.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from appview.control_files import FileTable
from appview.control_lists import ListTable
from appview.control_rules import (
    Rule,
    change_rules,
    count_entry,
    note,
    read_audit,
    read_changes,
    read_rules,
    read_version,
)
from appview.control_tokens import TokenTable
from appview.kept import Kept
from appview.sqlite import Database
from lexicons.configs import Config
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from appview.control_rules import AuditRow, RulesChange
    from appview.sqlite import Connection, Row

SyncState = Literal["pending", "synchronized", "desynchronized"]
MembershipState = Literal["pending", "synced"]
RepairKind = Literal["mend", "refill", "rebuild"]
READERS: Final = 2  # connections; reads here are short

_REPO: Final = "did rev data status pds handle sync_state error attempts retry_at updated_at"
_repo_values = attrgetter(*_REPO.split())
_space_uri: Final = lru_cache(maxsize=1_024)(SpaceUri)  # thousands of rows name the same few


@dataclass(frozen=True, slots=True)
class SpaceRow:
    """A space. `config` is None before its record is known and once it was deleted."""

    uri: SpaceUri
    authority: Did
    kind: str
    config: Config | None
    config_cid: str | None
    config_rev: str | None
    declared_at: int

    @property
    def is_declared(self) -> bool:
        """Whether a config record has made the space, gone since or not. One that an operator has only made
        room for is not there yet."""
        return self.config is not None or self.config_rev is not None


@dataclass(frozen=True, slots=True)
class RepoRow:
    """An account whose repo is followed. `data` is the CID of the MST root at `rev`."""

    did: Did
    updated_at: int
    rev: str | None = None
    data: str | None = None
    status: str = "active"
    pds: str | None = None
    handle: str | None = None
    sync_state: SyncState = "pending"
    error: str | None = None
    attempts: int = 0
    retry_at: int | None = None


class Control:
    """An open control.db. Make one with `Control.open`, end it with `close`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept = Kept(database)
        self.tokens = TokenTable(database)
        self.lists = ListTable(database)
        self.files = FileTable(database)

    @classmethod
    async def open(cls, path: Path, executor: Executor) -> Self:
        """Open or create the file; raise `StoreError` where it cannot be used."""
        migrations = files("appview") / "migrations"
        return cls(await Database.open(path, migrations, executor, readers=READERS, watched=True))

    async def close(self) -> None:
        """Wait for what is running, then close."""
        await self._database.close()

    # Cursors

    async def cursor(self, source: str) -> int | None:
        """Read how far a source has been read, None where it never was."""
        row = await self._one("SELECT position FROM cursors WHERE source = ?", source)
        return None if row is None else int(row["position"])

    async def cursors(self) -> dict[str, tuple[int, int]]:
        """Read every source's position, and when it was written."""
        rows = await self._all("SELECT source, position, updated_at FROM cursors ORDER BY source")
        return {row["source"]: (row["position"], row["updated_at"]) for row in rows}

    async def set_cursor(self, source: str, position: int, now: int) -> None:
        """Note that everything of a source up to `position` is in the files it feeds."""
        await self._change(
            "INSERT INTO cursors (source, position, updated_at) VALUES (?, ?, ?) ON CONFLICT (source)"
            " DO UPDATE SET position = excluded.position, updated_at = excluded.updated_at",
            (source, position, now),
        )

    async def clear_cursor(self, source: str) -> None:
        """Forget a source's position, so that it is read from wherever it starts."""
        await self._change("DELETE FROM cursors WHERE source = ?", (source,))

    # Spaces

    async def spaces(self) -> list[SpaceRow]:
        """List the spaces, oldest first, without those that the operator has removed."""
        rows = await self._all("SELECT * FROM spaces WHERE admitted = 1 ORDER BY declared_at, uri")
        return [_space(row) for row in rows]

    async def space(self, uri: SpaceUri) -> SpaceRow | None:
        """Find a space; one that the operator has removed is as absent as one never heard of."""
        return await self._kept.get(("space", uri), lambda connection: _find_space(connection, uri))

    async def put_space(self, row: SpaceRow) -> None:
        """Insert or update a space. Whether it is admitted, and when it was first declared, stay."""
        config = None if row.config is None else json.dumps(row.config.to_record(), ensure_ascii=False)
        await self._change(
            "INSERT INTO spaces (uri, authority, kind, config, config_cid, config_rev, declared_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uri) DO UPDATE SET config = excluded.config,"
            " config_cid = excluded.config_cid, config_rev = excluded.config_rev",
            (row.uri, row.authority, row.kind, config, row.config_cid, row.config_rev, row.declared_at),
        )

    async def admits(self, uri: SpaceUri, *, unknown: bool) -> bool:
        """Tell whether a config record may make or change this space: not where the operator has removed it,
        and `unknown` (registration is open) where it was never heard of."""
        row = await self._one("SELECT admitted FROM spaces WHERE uri = ?", uri)
        return unknown if row is None else bool(row["admitted"])

    async def admit_space(self, uri: SpaceUri, now: int, *, actor: str) -> bool:
        """Let a space be here whether or not registration is open, and follow its authority. False where it
        already was."""

        def work(connection: Connection) -> bool:
            row = connection.execute("SELECT admitted FROM spaces WHERE uri = ?", (uri,)).fetchone()
            if row is not None and row["admitted"]:
                return False
            before = [] if row is None else [_said(uri, "removed")]
            note(connection, before, [_said(uri, "added")], actor=actor, action="space add", now=now)
            connection.execute(
                "INSERT INTO spaces (uri, authority, kind, declared_at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (uri) DO UPDATE SET admitted = 1",
                (uri, uri.authority, uri.space_kind, now),
            )
            connection.execute(
                "INSERT INTO repos (did, updated_at) VALUES (?, ?) ON CONFLICT (did)"
                " DO UPDATE SET sync_state = 'pending', retry_at = NULL, updated_at = excluded.updated_at",
                (uri.authority, now),
            )
            connection.execute("UPDATE memberships SET state = 'pending' WHERE space = ?", (uri,))
            return True

        return await self._database.write(work)

    async def remove_space(self, uri: SpaceUri, now: int, *, actor: str) -> bool:
        """Hide a space and refuse it until it is admitted again. False where it already was removed."""

        def work(connection: Connection) -> bool:
            row = connection.execute("SELECT admitted FROM spaces WHERE uri = ?", (uri,)).fetchone()
            if row is not None and not row["admitted"]:
                return False
            before = [] if row is None else [_said(uri, "added")]
            note(connection, before, [_said(uri, "removed")], actor=actor, action="space remove", now=now)
            connection.execute(
                "INSERT INTO spaces (uri, authority, kind, admitted, declared_at) VALUES (?, ?, ?, 0, ?)"
                " ON CONFLICT (uri) DO UPDATE SET admitted = 0",
                (uri, uri.authority, uri.space_kind, now),
            )
            return True

        return await self._database.write(work)

    # Repos

    async def repos(self) -> list[RepoRow]:
        """List the accounts that are followed, by DID."""
        return [_repo(row) for row in await self._all("SELECT * FROM repos ORDER BY did")]

    async def repo(self, did: Did) -> RepoRow | None:
        """Find an account that is followed."""
        row = await self._one("SELECT * FROM repos WHERE did = ?", did)
        return None if row is None else _repo(row)

    async def put_repos(self, rows: Sequence[RepoRow]) -> None:
        """Insert or replace the rows of these accounts, all or none."""
        values = [_repo_values(row) for row in rows]
        await self._database.write(
            lambda connection: connection.executemany(
                "INSERT OR REPLACE INTO repos (did, rev, data, status, pds, handle, sync_state, error,"
                " attempts, retry_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
        )

    async def delete_repo(self, did: Did) -> None:
        """Forget an account and what it had filled."""

        def work(connection: Connection) -> None:
            connection.execute("DELETE FROM repos WHERE did = ?", (did,))
            connection.execute("DELETE FROM memberships WHERE did = ?", (did,))

        await self._database.write(work)

    # Memberships

    async def memberships(self) -> dict[tuple[SpaceUri, Did], MembershipState]:
        """Tell which (space, author) pairs are to be filled, or have been, from the author's whole repo."""
        rows = await self._all("SELECT space, did, state FROM memberships")
        return {(_space_uri(row["space"]), Did(row["did"])): row["state"] for row in rows}

    async def marks(self) -> dict[tuple[SpaceUri, Did], str | None]:
        """Read, of the pairs that have been filled, the mark of what the author might write then."""
        rows = await self._all("SELECT space, did, mark FROM memberships WHERE state = 'synced'")
        return {(_space_uri(row["space"]), Did(row["did"])): row["mark"] for row in rows}

    async def authors(self, space: SpaceUri) -> list[str]:
        """List the DIDs of whom a space may hold something: many, so as they are stored."""
        return await self._database.read(
            lambda connection: [
                did for (did,) in connection.execute("SELECT did FROM memberships WHERE space = ?", (space,))
            ]
        )

    async def put_membership(
        self, space: SpaceUri, did: Did, state: MembershipState, mark: str | None = None
    ) -> None:
        """Note the state of a pair, and for a filled one the mark of what the author may write."""
        await self._change(
            "INSERT INTO memberships (space, did, state, mark) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (space, did) DO UPDATE SET state = excluded.state, mark = excluded.mark",
            (space, did, state, mark),
        )

    async def delete_membership(self, space: SpaceUri, did: Did) -> None:
        """Forget a pair."""
        await self._change("DELETE FROM memberships WHERE space = ? AND did = ?", (space, did))

    async def compare_repo(self, did: Did, now: int) -> bool:
        """Ask for a followed account's repo to be fetched whole, at once. False where it is not followed."""

        def work(connection: Connection) -> bool:
            changed = connection.execute(
                "UPDATE repos SET sync_state = 'pending', retry_at = ?1, updated_at = ?1 WHERE did = ?2",
                (now, did),
            )
            return changed.rowcount > 0

        return await self._database.write(work)

    # Repairs

    async def repairs(self) -> dict[SpaceUri, tuple[RepairKind, int]]:
        """Read which spaces' files are to be put right, how, and when that was asked for."""
        rows = await self._all("SELECT space, kind, asked_at FROM repairs")
        return {SpaceUri(row["space"]): (row["kind"], row["asked_at"]) for row in rows}

    async def ask_repair(self, space: SpaceUri, kind: RepairKind, now: int) -> None:
        """Ask for a space's file to be put right. Of two kinds that are asked for neither is enough."""
        await self._change(
            "INSERT INTO repairs (space, kind, asked_at) VALUES (?, ?, ?) ON CONFLICT (space)"
            " DO UPDATE SET kind = 'rebuild', asked_at = excluded.asked_at"
            " WHERE repairs.kind NOT IN ('rebuild', excluded.kind)",
            (space, kind, now),
        )

    async def begin_refill(self, space: SpaceUri, authors: Iterable[Did] | None = None) -> None:
        """Note that the repos of authors, or of every writer, are to fill the space again."""
        if authors is None:
            await self._change("UPDATE memberships SET state = 'pending' WHERE space = ?", (space,))
        else:
            await self._change(
                "UPDATE memberships SET state = 'pending' WHERE space = ?"
                " AND did IN (SELECT value FROM json_each(?))",
                (space, json.dumps(list(authors))),
            )

    async def end_repair(self, space: SpaceUri) -> None:
        """Note that the space's file is in order."""
        await self._change("DELETE FROM repairs WHERE space = ?", (space,))

    # Rules

    async def rules(self) -> tuple[int, list[Rule]]:
        """Read the policy version and the rules of that version, in the order they were added."""
        return await self._database.read(
            lambda connection: (read_version(connection), read_rules(connection))
        )

    async def changes_since(
        self, version: int
    ) -> tuple[int, list[tuple[tuple[Rule, ...], tuple[Rule, ...]]]]:
        """Read the policy version, and what each change after `version` took away and added, in order.

        There is one entry a version, unless a change was made past this class.
        """
        return await self._database.read(
            lambda connection: (read_version(connection), read_changes(connection, version))
        )

    async def change_rules(
        self,
        add: Iterable[Rule],
        remove: Iterable[Rule] = (),
        *,
        actor: str,
        action: str,
        now: int,
        check: Callable[[int, Sequence[Rule], Sequence[Rule]], object] | None = None,
    ) -> RulesChange:
        """Remove and add rules in one transaction.

        `check` gets the policy version it is made on, the rules that go and those that come, and refuses the
        whole change by raising. What is there already is not added, what is not there not removed; a change
        that does nothing leaves no trace.
        """
        return await self._database.write(
            lambda connection: change_rules(
                connection, add, remove, check, actor=actor, action=action, now=now
            )
        )

    async def note_path_tags(
        self, before: Sequence[Rule], after: Sequence[Rule], *, actor: str, action: str, now: int
    ) -> int:
        """Write into the audit log that tags of paths are about to change; return the entry's number."""
        return await self._database.write(
            lambda connection: note(connection, before, after, actor=actor, action=action, now=now)
        )

    async def count_path_tags(self, entry: int) -> None:
        """Make the change of an entry the policy's version: tags of paths decide what rules say."""
        await self._database.write(lambda connection: count_entry(connection, entry))

    async def policy_version(self) -> int:
        """Read the number that grows with every change of the rules."""
        return await self._kept.get("policy_version", read_version)

    async def data_version(self) -> int:
        """Read a number that changes when another process has changed anything in this file."""
        return await self._database.data_version()

    async def audit(self, limit: int) -> list[AuditRow]:
        """List the last changes of who may do what, newest first."""
        return await self._database.read(lambda connection: read_audit(connection, limit))

    async def _all(self, sql: str, *values: Any) -> list[Row]:
        return await self._database.read(lambda connection: connection.execute(sql, values).fetchall())

    async def _one(self, sql: str, *values: Any) -> Row | None:
        rows = await self._all(sql, *values)
        return rows[0] if rows else None

    async def _change(self, sql: str, values: Sequence[Any]) -> None:
        await self._database.write(lambda connection: connection.execute(sql, values))


def _said(space: SpaceUri, what: Literal["added", "removed"]) -> Rule:
    """Write what holds of a space in the shape that the log of changes has."""
    return Rule("space", (str(space), what))


def _find_space(connection: Connection, uri: SpaceUri) -> SpaceRow | None:
    row = connection.execute("SELECT * FROM spaces WHERE uri = ? AND admitted = 1", (uri,)).fetchone()
    return None if row is None else _space(row)


def _space(row: Row) -> SpaceRow:
    config = None if row["config"] is None else Config.from_record(json.loads(row["config"]))
    return SpaceRow(
        SpaceUri(row["uri"]),
        Did(row["authority"]),
        row["kind"],
        config,
        row["config_cid"],
        row["config_rev"],
        row["declared_at"],
    )


def _repo(row: Row) -> RepoRow:
    return RepoRow(
        did=Did(row["did"]),
        updated_at=row["updated_at"],
        rev=row["rev"],
        data=row["data"],
        status=row["status"],
        pds=row["pds"],
        handle=row["handle"],
        sync_state=row["sync_state"],
        error=row["error"],
        attempts=row["attempts"],
        retry_at=row["retry_at"],
    )
