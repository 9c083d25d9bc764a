"""The tree of paths in a file: finding and making rows, what a path hands down, removing what nobody uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.memory.tags import NOTHING_INHERITED, Inherited, PathTag, ancestors, inherit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.sqlite import Connection

ROOT_ID: Final = 1
MAX_KNOWN: Final = 10_000  # paths remembered in a transaction: a repo may name a new one in every record


class PathTree:
    """The tree as one transaction sees it. Never kept longer: another transaction may remove paths."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ids: dict[str, int] = {"/": ROOT_ID}
        self._inherited: dict[str, Inherited] = {}
        self._tags: dict[str, list[PathTag]] | None = None

    def find(self, path: str) -> int | None:
        """Find the row of a path."""
        known = self._ids.get(path)
        if known is not None:
            return known
        row = self._connection.execute("SELECT id FROM paths WHERE full_path = ?", (path,)).fetchone()
        if row is None:
            return None
        return self._remember(path, int(row[0]))

    def ensure(self, path: str) -> int:
        """Find the row of a path in its normal form, or make it and those above it."""
        known = self.find(path)
        if known is not None:
            return known
        parent_id = ROOT_ID
        for step in ancestors(path)[1:]:
            found = self.find(step)
            if found is None:
                cursor = self._connection.execute(
                    "INSERT INTO paths (parent_id, segment, full_path) VALUES (?, ?, ?)",
                    (parent_id, step.rpartition("/")[2], step),
                )
                found = self._remember(step, int(cursor.lastrowid or 0))
            parent_id = found
        return parent_id

    def _remember(self, path: str, path_id: int) -> int:
        if len(self._ids) >= MAX_KNOWN:
            self._ids = {"/": ROOT_ID}
        self._ids[path] = path_id
        return path_id

    def inherited(self, path: str) -> Inherited:
        """Join the tags from the root down to a path, whether it has a row or not."""
        if self._tags is None:
            self._tags = {}
            for full_path, key, value, protected in self._connection.execute(
                "SELECT p.full_path, t.key, t.value, t.protected FROM path_tags AS t"
                " JOIN paths AS p ON p.id = t.path_id"
            ):
                self._tags.setdefault(full_path, []).append(PathTag(key, value, bool(protected)))
        if not self._tags:
            return NOTHING_INHERITED
        known = self._inherited.get(path)
        if known is None:
            if len(self._inherited) >= MAX_KNOWN:
                self._inherited.clear()
            known = self._inherited[path] = inherit(self._tags.get(step, ()) for step in ancestors(path))
        return known

    def forget_tags(self) -> None:
        """Read the tags of paths again when they are asked for next."""
        self._tags = None
        self._inherited.clear()

    def remove_unused(self, path_ids: Iterable[int]) -> None:
        """Remove those of the paths, and then those above them, that hold, lead to and say nothing."""
        waiting = set(path_ids) - {ROOT_ID}
        while waiting:
            path_id = waiting.pop()
            row = self._connection.execute(
                "DELETE FROM paths WHERE id = ?1"
                " AND NOT EXISTS (SELECT 1 FROM facts WHERE path_id = ?1 AND invalidated_at IS NULL)"
                " AND NOT EXISTS (SELECT 1 FROM facts WHERE path_id = ?1 AND invalidated_at IS NOT NULL)"
                " AND NOT EXISTS (SELECT 1 FROM paths AS child WHERE child.parent_id = ?1)"
                " AND NOT EXISTS (SELECT 1 FROM path_tags WHERE path_id = ?1)"
                " RETURNING parent_id, full_path",
                (path_id,),
            ).fetchone()
            if row is not None:
                self._ids.pop(row[1], None)
                if row[0] != ROOT_ID:
                    waiting.add(row[0])
