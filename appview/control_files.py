"""The part of control.db that says what each space's file was when cursors and memberships last moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lexicons.spaces import SpaceUri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.sqlite import Database

OUTDATED: Final = "the file is not the one that was written last: it is older, or was made anew"


@dataclass(frozen=True, slots=True)
class FileState:
    """Which file a space has (`made` is drawn when one is made), and how many transactions changed it."""

    made: str
    writes: int

    def lacks(self, noted: FileState) -> bool:
        """Tell whether the file is another one than was noted, or an older copy of it."""
        return self.made != noted.made or self.writes < noted.writes


class FileTable:
    """The files of an open control.db."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> dict[SpaceUri, FileState]:
        """Read what every space's file was."""
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT space, made, writes FROM files").fetchall()
        )
        return {SpaceUri(row["space"]): FileState(row["made"], row["writes"]) for row in rows}

    async def get(self, space: SpaceUri) -> FileState | None:
        """Read what a space's file was, None where none was noted."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT made, writes FROM files WHERE space = ?", (space,)
            ).fetchall()
        )
        return FileState(rows[0]["made"], rows[0]["writes"]) if rows else None

    async def put(self, states: Mapping[SpaceUri, FileState]) -> None:
        """Note what files are now: on disk before any cursor that stands for what was written to them."""
        values = [(space, state.made, state.writes) for space, state in states.items()]
        await self._database.write(
            lambda connection: connection.executemany(
                "INSERT OR REPLACE INTO files (space, made, writes) VALUES (?, ?, ?)", values
            )
        )
