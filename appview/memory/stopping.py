"""Stopping the statements of a connection from inside: SQLite asks, every so many steps, whether to go on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from appview.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from sqlite3 import OperationalError

    from appview.sqlite import Connection
else:
    from pysqlite3 import OperationalError

STEPS: Final = 20_000  # instructions of SQLite between two looks at the clock, below a millisecond


class Stopped(StoreError):
    """A statement was stopped because its time was over."""

    def __init__(self) -> None:
        super().__init__("reading was stopped", hint="ask for less, or allow more time")


@contextmanager
def stopping(connection: Connection, over: Callable[[], bool]) -> Iterator[None]:
    """Raise `Stopped` from whatever statement runs inside the block once `over` tells so."""
    connection.set_progress_handler(lambda: int(over()), STEPS)
    try:
        yield
    except OperationalError as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT" and over():
            raise Stopped from error
        raise
    finally:
        connection.set_progress_handler(None, 0)
