"""Attributes that paths give to the facts at and below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.memory import meta
from appview.memory.errors import InvalidPathTag
from appview.memory.paths import PathTree
from appview.memory.tags import NOT_FROM_PATHS, PathTag
from lexicons.memories import MAX_TAG_BYTES, is_attribute_key, normalise_path

if TYPE_CHECKING:
    from appview.memory.writer import Writer
    from appview.sqlite import Connection

INHERITANCE_VERSION: Final = "2"  # of the rules in `appview.memory.tags`


def set_tag(writer: Writer, path: str, key: str, value: str, protected: bool) -> None:
    """Give an attribute to a path; with `protected`, no record below can set the key itself."""
    check(path, key, value)
    writer.connection.execute(
        "INSERT OR REPLACE INTO path_tags (path_id, key, value, protected) VALUES (?, ?, ?, ?)",
        (writer.paths.ensure(path), key, value, protected),
    )
    _hand_down(writer, path)


def remove_tag(writer: Writer, path: str, key: str) -> bool:
    """Take an attribute from a path; false where it had none."""
    path_id = writer.paths.find(path)
    if path_id is None:
        return False
    gone = writer.connection.execute(
        "DELETE FROM path_tags WHERE path_id = ? AND key = ? RETURNING 1", (path_id, key)
    ).fetchall()
    if not gone:
        return False
    _hand_down(writer, path)
    writer.paths.remove_unused([path_id])
    return True


def path_tags(connection: Connection) -> list[tuple[str, PathTag]]:
    """List the tags of all paths, by path and key."""
    rows = connection.execute(
        "SELECT p.full_path, t.key, t.value, t.protected FROM path_tags AS t"
        " JOIN paths AS p ON p.id = t.path_id ORDER BY p.full_path, t.key"
    )
    return [(path, PathTag(key, value, bool(protected))) for path, key, value, protected in rows]


def check(path: str, key: str, value: str) -> None:
    """Raise `InvalidPathTag` for a path, key or value that cannot be."""
    if normalise_path(path) != path:
        raise InvalidPathTag(f"not a path in its normal form: {path!r}", hint=f"write {normalise_path(path)}")
    if len(path.encode()) > MAX_TAG_BYTES:
        raise InvalidPathTag(f"a path of {len(path.encode())} bytes, at most {MAX_TAG_BYTES}")
    if not is_attribute_key(key):
        raise InvalidPathTag(f"not an attribute key: {key!r}")
    if key in NOT_FROM_PATHS:
        raise InvalidPathTag(f"{key} is not an attribute that a path can give")
    size = len(f"{key}={value}".encode())
    if size > MAX_TAG_BYTES:
        raise InvalidPathTag(f"a tag of {size} bytes, at most {MAX_TAG_BYTES}")


def refresh(connection: Connection) -> None:
    """Work out all attributes again where another version of the rules of inheritance has done it."""
    if meta.read(connection, "inheritance") == INHERITANCE_VERSION:
        return
    if connection.execute("SELECT 1 FROM path_tags LIMIT 1").fetchone() is not None:
        _derive(connection, PathTree(connection), "/")
        meta.touch(connection)
    meta.write(connection, "inheritance", INHERITANCE_VERSION)


def _hand_down(writer: Writer, path: str) -> None:
    """Work out again the attributes of the facts at and below a path that has changed."""
    writer.changed = True
    writer.paths.forget_tags()
    _derive(writer.connection, writer.paths, path)


def _derive(connection: Connection, tree: PathTree, path: str) -> None:
    meta.count_path_tags(connection)
    below = path if path == "/" else path + "/"
    rows = connection.execute(
        "SELECT id, full_path FROM paths WHERE full_path = ? OR (full_path >= ? AND full_path < ?)",
        (path, below, below[:-1] + "0"),
    ).fetchall()
    for path_id, full_path in rows:
        inherited = tree.inherited(full_path)
        own: dict[int, dict[str, str]] = {}
        for fact_id, key, value in connection.execute(
            "SELECT f.id, t.key, t.value FROM facts AS f LEFT JOIN fact_tags AS t ON t.fact_id = f.id"
            " WHERE f.path_id = ? AND f.invalidated_at IS NULL",
            (path_id,),
        ):
            of_fact = own.setdefault(fact_id, {})
            if key is not None:
                of_fact[key] = value
        connection.executemany(
            "DELETE FROM effective_tags WHERE fact_id = ?", [(fact_id,) for fact_id in own]
        )
        connection.executemany(
            "INSERT INTO effective_tags (fact_id, key, value) VALUES (?, ?, ?)",
            [
                (fact_id, key, value)
                for fact_id, attributes in own.items()
                for key, value in inherited.effective(attributes).items()
            ],
        )
