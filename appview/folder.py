"""The data folder, and the lock that keeps it to one running appview."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from appview.errors import ConfigurationError, StoreBusy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lexicons.spaces import SpaceUri

LOCK_FILE: Final = "lock"
CONTROL_FILE: Final = "control.db"
SPACES_FOLDER: Final = "spaces"
QUERIES_FOLDER: Final = "queries"
FOLDER_MODE: Final = 0o700  # memories and tokens are nobody else's business


def space_file_name(space: SpaceUri) -> str:
    """Name the file of a space: a hash, since a URI is no file name."""
    return f"{hashlib.sha256(space.encode()).hexdigest()}.db"


def make_folder(path: Path) -> None:
    """Make a folder for the owner alone, where there is none; raise `ConfigurationError`."""
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot make the data folder {path}: {error.strerror}", hint="see --data and ENGRAM_DATA"
        ) from error


@contextmanager
def hold_folder(path: Path) -> Iterator[None]:
    """Make the data folder and hold it inside the block; raise `StoreBusy` where another process has it.

    The operating system lets go of the lock when the process ends, however it ends.
    """
    make_folder(path)
    try:
        descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write in the data folder {path}: {error.strerror}", hint="see --data and ENGRAM_DATA"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StoreBusy(
                f"another engram-appview (process {holder}) is running on {path}",
                hint="stop it, or name another folder with --data",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder(path: Path) -> int | None:
    """Tell which process holds the data folder, None where none does."""
    try:
        descriptor = os.open(path / LOCK_FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None
