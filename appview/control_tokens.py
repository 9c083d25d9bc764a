"""The part of control.db that holds credentials: this appview's own tokens, and used tokens of accounts.

Times are microseconds since 1970, but for `expires` of a used token, which is in seconds as the token has it.
Adding and revoking leave a row in the audit log, in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from appview.control_rules import Rule, note
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appview.sqlite import Connection, Database, Row

NEVER: Final = "never"


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token that this appview has given out."""

    name: str
    id: str
    hash: bytes  # SHA-256 of the whole token
    created_at: int
    expires_at: int | None = None
    last_used_at: int | None = None


SpentToken = tuple[Did, bytes, int]  # issuer, digest, expires


class TokenTable:
    """The tokens of an open control.db."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, row: TokenRow, *, actor: str) -> bool:
        """Keep a token; False where there is one of this name already."""

        def work(connection: Connection) -> bool:
            added = connection.execute(
                "INSERT INTO tokens (name, id, hash, created_at, expires_at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (name) DO NOTHING",
                (row.name, row.id, row.hash, row.created_at, row.expires_at),
            ).rowcount
            if added:
                note(connection, [], [_shown(row)], actor=actor, action="token add", now=row.created_at)
            return added > 0

        return await self._database.write(work)

    async def revoke(self, name: str, *, actor: str, now: int) -> bool:
        """Forget a token; False where there is none of this name."""

        def work(connection: Connection) -> bool:
            found = connection.execute("DELETE FROM tokens WHERE name = ? RETURNING *", (name,)).fetchall()
            if found:
                before = [_shown(_token(row)) for row in found]
                note(connection, before, [], actor=actor, action="token revoke", now=now)
            return bool(found)

        return await self._database.write(work)

    async def rows(self) -> list[TokenRow]:
        """List the tokens by name."""
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT * FROM tokens ORDER BY name").fetchall()
        )
        return [_token(row) for row in rows]

    async def named(self, name: str) -> TokenRow | None:
        """Find the token of a name."""
        row = await self._database.read(
            lambda connection: connection.execute("SELECT * FROM tokens WHERE name = ?", (name,)).fetchone()
        )
        return None if row is None else _token(row)

    async def find(self, token_id: str) -> TokenRow | None:
        """Find a token by the part of it that is no secret."""
        row = await self._database.read(
            lambda connection: connection.execute("SELECT * FROM tokens WHERE id = ?", (token_id,)).fetchone()
        )
        return None if row is None else _token(row)

    async def save(
        self, used: Mapping[str, int], spent: Sequence[SpentToken], floors: Mapping[Did, int], now: int
    ) -> None:
        """Note when tokens (by id) were last used and which tokens of accounts were; drop expired ones.

        `floors` says up to which expiry an account's tokens are remembered no more, but all refused.
        """

        def work(connection: Connection) -> None:
            connection.executemany(
                "UPDATE tokens SET last_used_at = ? WHERE id = ? AND coalesce(last_used_at, 0) < ?",
                [(at, token_id, at) for token_id, at in used.items()],
            )
            connection.execute("DELETE FROM spent_tokens WHERE expires <= ?", (now // 1_000_000,))
            connection.executemany(
                "INSERT OR IGNORE INTO spent_tokens (issuer, digest, expires) VALUES (?, ?, ?)", spent
            )
            connection.execute("DELETE FROM spent_floors WHERE until <= ?", (now // 1_000_000,))
            connection.executemany(
                "INSERT INTO spent_floors (issuer, until) VALUES (?, ?) ON CONFLICT (issuer)"
                " DO UPDATE SET until = max(until, excluded.until)",
                floors.items(),
            )
            connection.executemany(
                "DELETE FROM spent_tokens WHERE issuer = ? AND expires <= ?", floors.items()
            )

        await self._database.write(work)

    async def spent(self) -> list[SpentToken]:
        """List the used tokens of accounts."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT issuer, digest, expires FROM spent_tokens"
            ).fetchall()
        )
        return [(Did(row["issuer"]), row["digest"], row["expires"]) for row in rows]

    async def floors(self) -> list[tuple[Did, int]]:
        """List the accounts of whose tokens none is taken that expires by a time."""
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT issuer, until FROM spent_floors").fetchall()
        )
        return [(Did(row["issuer"]), row["until"]) for row in rows]


def _token(row: Row) -> TokenRow:
    return TokenRow(
        row["name"], row["id"], row["hash"], row["created_at"], row["expires_at"], row["last_used_at"]
    )


def _shown(row: TokenRow) -> Rule:
    """Write a token in the shape that the audit log has for rules, without anything secret."""
    return Rule("token", (row.name, _day(row.expires_at)))


def _day(micros: int | None) -> str:
    if micros is None:
        return NEVER
    return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat(timespec="seconds")
