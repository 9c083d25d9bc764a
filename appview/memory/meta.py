"""What a file says of itself: whose it is, its config, its analysis, how often it changed.

A file is opened for one space only, and its tables must be what its config says. Where they are not, opening
stops: a wrong answer is worse than none. `made` is drawn when a file is made and `writes` counts the
transactions that changed it: an older copy, and a file in another's place, are told by them.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Final

from appview.control_files import FileState
from appview.errors import StoreDamaged, StoreMismatch
from appview.memory import vectors
from appview.sqlite import check_schema
from lexicons.configs import Config
from lexicons.errors import ContractError

if TYPE_CHECKING:
    from appview.sqlite import Connection
    from lexicons.models import ModelKey
    from lexicons.spaces import SpaceUri

APPLICATION_ID: Final = 0x656E6772  # "engr", set by the first migration
MADE_BYTES: Final = 8  # ours: no two files of a space are taken for each other


def check_owner(connection: Connection) -> None:
    """Stop before a file of another program is changed: run on a new connection, before migrations."""
    # One statement, so one state: another process may be making the file.
    found, tables = connection.execute(
        "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id"
    ).fetchone()
    if found == APPLICATION_ID:
        return
    if found != 0 or tables:
        raise StoreMismatch("the file belongs to another program", hint="name another data folder")


def claim(connection: Connection, space: SpaceUri) -> None:
    """Make a new file the space's own, or raise `StoreMismatch` where it is not."""
    if not _is_of(connection, space):
        write(connection, "space", space)
    check_indexes(connection, read_config(connection))
    if read(connection, "made") is None:
        write(connection, "made", secrets.token_hex(MADE_BYTES))


def _is_of(connection: Connection, space: SpaceUri) -> bool:
    """Tell whether the file is the space's, false where it is nobody's; raise `StoreMismatch`."""
    owner = read(connection, "space")
    if owner not in (None, space):
        raise StoreMismatch(
            f"the file holds the space {owner}, not {space}", hint="restore the file under its own name"
        )
    return owner is not None


def examine(connection: Connection, space: SpaceUri, newest_schema: int) -> FileState | None:
    """Read which file this is without changing it, None where it is empty; raise `StoreMismatch` where it is
    not the space's, or a newer program's."""
    check_owner(connection)
    if check_schema(connection, newest_schema) == 0 or not _is_of(connection, space):
        return None
    return file_state(connection)


def file_state(connection: Connection) -> FileState:
    """Read which file this is, and how often it was written to."""
    return FileState(read(connection, "made") or "", int(read(connection, "writes") or 0))


def count_write(connection: Connection) -> FileState:
    """Say that a transaction has changed the file."""
    connection.execute(
        "INSERT INTO meta VALUES ('writes', '1') ON CONFLICT (key) DO UPDATE SET value = value + 1"
    )
    return file_state(connection)


def check_indexes(connection: Connection, config: Config | None) -> None:
    """Raise `StoreDamaged` where the vector indexes are not those of the config."""
    expected: dict[vectors.Role, ModelKey | None] = {
        "active": config.model if config is not None else None,
        "next": config.next if config is not None else None,
    }
    for role, key in expected.items():
        index = vectors.find(connection, role)
        found = index.key if index is not None else None
        if found != key:
            raise StoreDamaged(f"the file's {role} index is of {found}, its config says {key}")
        if index is not None and not index.fits_its_table(connection):
            raise StoreDamaged(f"the file's {role} index does not have {index.key.dims} dimensions")


def read_config(connection: Connection) -> Config | None:
    """Read the config the file was last configured with."""
    text = read(connection, "config")
    if text is None:
        return None
    try:
        return Config.from_record(json.loads(text))
    except (ContractError, ValueError, AttributeError) as error:
        raise StoreDamaged(f"the file's config cannot be read: {error}") from error


def write_config(connection: Connection, config: Config | None) -> None:
    """Keep the config, or that there is none."""
    if config is None:
        connection.execute("DELETE FROM meta WHERE key = 'config'")
    else:
        write(connection, "config", json.dumps(config.to_record()))


def read(connection: Connection, key: str) -> str | None:
    """Read one entry."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def write(connection: Connection, key: str, value: str) -> None:
    """Write one entry."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def data_version(connection: Connection) -> int:
    """Read the number that grows with every change of what a query can see."""
    return int(read(connection, "data_version") or 0)


def path_tags_version(connection: Connection) -> int:
    """Read how often the tags of paths have changed."""
    return int(read(connection, "path_tags") or 0)


def count_path_tags(connection: Connection) -> None:
    """Say that the tags of a path have changed."""
    write(connection, "path_tags", str(path_tags_version(connection) + 1))


def touch(connection: Connection) -> None:
    """Say that what a query can see has changed."""
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'data_version'")
