"""Errors of a space's memory.

AppviewError
├── InvalidPathTag    an attribute that a path cannot have
└── StoreError        a file that cannot be used (see `appview/errors.py`)
    └── IndexDamaged  what is derived from the facts cannot be read; the facts can
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from appview.errors import AppviewError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from sqlite3 import DatabaseError
else:
    from pysqlite3 import DatabaseError

# Of statements that read an index: it is not there, or contradicts itself.
_OF_DAMAGE: Final = ("SQLITE_CORRUPT", "SQLITE_ERROR")


class InvalidPathTag(AppviewError):
    """An attribute that a path cannot have."""


class IndexDamaged(StoreError):
    """An index of a file cannot be read or lacks something; the facts that it is made of are there."""

    def __init__(self, which: str) -> None:
        super().__init__(f"the {which} index is damaged", hint="engram-appview verify --repair makes it anew")


@contextmanager
def of_index(which: str) -> Iterator[None]:
    """Raise `IndexDamaged` where a statement of the block fails because of the index that it reads."""
    try:
        yield
    except DatabaseError as error:
        if getattr(error, "sqlite_errorname", "").startswith(_OF_DAMAGE):
            raise IndexDamaged(which) from error
        raise
