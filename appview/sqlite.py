"""One SQLite file in WAL mode: one writer, several readers, off the event loop.

A unit of work is a plain function of a connection. `write` runs it inside one immediate transaction and
commits before it answers; `read` runs it inside one read transaction, so that all its statements see the same
state. Functions run on the threads of a shared executor: one hop a unit of work, not one a statement.

Invariants: at most one write transaction at a time; a connection goes back to the pool only when its function
has ended; a cancelled call interrupts its statement; the write-ahead log is above `MAX_JOURNAL_BYTES` by no
more than what is written while one reader reads.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from appview.errors import StoreDamaged, StoreError, StoreMismatch

if TYPE_CHECKING:
    import sqlite3  # the same interface, and it has types
else:
    # The interpreter's own sqlite3 may be built without extension loading or a current FTS5; this one is not.
    import pysqlite3 as sqlite3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor
    from importlib.resources.abc import Traversable
    from pathlib import Path

Connection = sqlite3.Connection
Row = sqlite3.Row
T = TypeVar("T")

BUSY_TIMEOUT_MS: Final = 5_000  # another process (the command line) may be writing
BUSY_PAUSE_SECONDS: Final = 0.005  # between two tries where SQLite itself does not wait
CACHE_KIB: Final = 8_192  # page cache of one connection
JOURNAL_LIMIT_BYTES: Final = 64 * 1024 * 1024  # the write-ahead log is cut back to this after a checkpoint
# Readers that follow one another without a break keep the log from being begun anew, and it grows by all that
# is written. Above this size a write first waits, as long as for another process, until nobody reads from it.
MAX_JOURNAL_BYTES: Final = 2 * JOURNAL_LIMIT_BYTES
INTERRUPT_SECONDS: Final = 0.02  # ours, between two interrupts of a call that is cancelled
MAX_ROLLBACKS: Final = 100  # ours, that interrupts may fall on before it is an error
DEFAULT_READERS: Final = 4  # connections a file
# Errors of the file or its disk, and what to do; any other is one of the statement, so ours.
_HINTS: Final = {
    "SQLITE_FULL": "free some disk space; nothing is lost, what was not written is asked for again",
    "SQLITE_READONLY": "give the program the right to write to the file and to its folder",
    "SQLITE_CANTOPEN": "check that the folder exists and that the program may read and write in it",
    "SQLITE_CORRUPT": "the file is damaged: restore it, or move it away to have it built again",
    "SQLITE_NOTADB": "the file is not a database: move it away to have it built again",
    "SQLITE_BUSY": "another process is writing to the file; try again",
    "SQLITE_IOERR": "the disk does not answer: look into the system's log",
}
_MIGRATION = re.compile(r"(\d{3})_[a-z0-9_]+\.sql")


class Database:
    """An open file. Make one with `Database.open`, end it with `close`."""

    def __init__(
        self,
        path: Path,
        executor: Executor,
        writer: Connection,
        readers: Sequence[Connection],
        watcher: Connection | None = None,
    ) -> None:
        self._name = path.name
        self._journal = path.with_name(path.name + "-wal")
        self._executor = executor
        self._writer = writer
        self._watcher = watcher
        self.closing = False  # tells a read of minutes to end
        self.failed: Callable[[StoreError], None] = lambda _error: None  # hears why a transaction failed
        self._write_lock = asyncio.Lock()
        self._all_readers = tuple(readers)
        self._idle: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        for reader in readers:
            self._idle.put_nowait(reader)

    @classmethod
    async def open(
        cls,
        path: Path,
        migrations: Traversable,
        executor: Executor,
        *,
        readers: int = DEFAULT_READERS,
        prepare: Callable[[Connection], None] | None = None,
        watched: bool = False,
    ) -> Self:
        """Open or create the file and bring its schema up to date.

        `prepare` is run on every connection first (extensions, functions); one more is there to be `watched`
        by. Raises `StoreMismatch` for a file that a newer version wrote, `StoreError` for one that is not a
        database or cannot be written.
        """

        def work() -> tuple[Connection, list[Connection]]:
            connections: list[Connection] = []
            try:
                writer = _connect(path, prepare)
                connections.append(writer)
                migrate(writer, migrations)
                for _ in range(readers + watched):
                    connections.append(_connect(path, prepare))
                    connections[-1].execute("PRAGMA query_only = ON")
                if watched:
                    connections[-1].execute("PRAGMA busy_timeout = 0")
            except sqlite3.Error as error:
                for connection in connections:
                    connection.close()
                raise _store_error(path.name, error) from error
            except StoreError:
                for connection in connections:
                    connection.close()
                raise
            return writer, connections[1:]

        loop = asyncio.get_running_loop()
        writer, opened = await loop.run_in_executor(executor, work)
        watcher = opened.pop() if watched else None
        return cls(path, executor, writer, opened, watcher)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one write transaction; what it did is on disk when this answers, or undone.

        Raises `StoreError` where the file or its disk does not play along.
        """
        async with self._write_lock:
            if self._journal_bytes() > MAX_JOURNAL_BYTES:
                with suppress(sqlite3.Error):
                    await self._cut_journal()
            return await self._run(self._writer, "BEGIN IMMEDIATE", work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one read transaction on an idle reader."""
        connection = await self._idle.get()
        try:
            return await self._run(connection, "BEGIN", work)
        finally:
            self._idle.put_nowait(connection)

    async def data_version(self) -> int:
        """Read a number that changes when another process or connection has committed to the file, and not
        when `write` has."""
        async with self._write_lock:
            loop = asyncio.get_running_loop()
            rows = await loop.run_in_executor(
                self._executor, lambda: self._writer.execute("PRAGMA data_version").fetchall()
            )
        return int(rows[0][0])

    def mark(self) -> int | None:
        """Read a number that changes when any connection of any process commits to the file, None where it
        cannot be told now. Call it on one thread; the file must be `watched`.

        It waits for nobody and reads no page: what it looks at is memory that all share.
        """
        if self._watcher is None:
            raise AssertionError("the file is not watched")
        try:
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return None

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the file and cut it to nothing, where no reader holds it."""
        async with self._write_lock:
            await self._cut_journal()

    def _journal_bytes(self) -> int:
        try:
            return self._journal.stat().st_size
        except OSError:
            return 0

    async def _cut_journal(self) -> None:
        """Wait for who reads from the log, and cut it; new readers need it no more."""
        await self._hop(
            self._writer, lambda: self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        )

    async def close(self) -> None:
        """Wait for what is running, then close every connection."""
        self.closing = True
        async with self._write_lock:
            for _ in self._all_readers:
                await self._idle.get()
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._close_all)

    def _close_all(self) -> None:
        for connection in self._all_readers:
            connection.close()
        if self._watcher is not None:
            self._watcher.close()
        with suppress(sqlite3.Error):
            self._writer.execute("PRAGMA optimize")
        self._writer.close()

    async def _run(self, connection: Connection, begin: str, work: Callable[[Connection], T]) -> T:
        def transaction() -> T:
            connection.execute(begin)
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise
            return result

        try:
            return await self._hop(connection, transaction)
        except sqlite3.Error as error:
            if _kind(error) not in _HINTS:
                raise
            failure = _store_error(self._name, error)
            self.failed(failure)
            raise failure from error

    async def _hop(self, connection: Connection, transaction: Callable[[], T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._executor, transaction)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # An interrupt ends the statement that runs; one that begins a moment later knows nothing of it.
            while not future.done():
                connection.interrupt()
                with suppress(asyncio.CancelledError):  # to be cancelled twice changes nothing
                    await asyncio.wait([future], timeout=INTERRUPT_SECONDS)
            if not future.cancelled():
                future.exception()  # nobody else asks for it
            raise


def _roll_back(connection: Connection) -> None:
    """Give a transaction up, though interrupts may still come."""
    for _ in range(MAX_ROLLBACKS):
        if not connection.in_transaction:
            return
        with suppress(sqlite3.OperationalError):
            connection.execute("ROLLBACK")
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _kind(error: sqlite3.Error) -> str:
    """Name an error without its extension: `SQLITE_IOERR_WRITE` is a `SQLITE_IOERR`."""
    return "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])


def _store_error(name: str, error: sqlite3.Error) -> StoreError:
    failure = StoreError(f"cannot use {name}: {error}", hint=_HINTS.get(_kind(error), ""))
    failure.__cause__ = error
    return failure


def _connect(path: Path, prepare: Callable[[Connection], None] | None) -> Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        _set_up(connection, prepare)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: Connection, prepare: Callable[[Connection], None] | None) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    _use_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_LIMIT_BYTES}")
    if prepare is not None:
        prepare(connection)


def _use_wal(connection: Connection) -> None:
    """Put the file into WAL mode, which SQLite does not wait for where another process is just doing so."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _kind(error) != "SQLITE_BUSY" or time.monotonic() >= deadline:
                raise
            time.sleep(BUSY_PAUSE_SECONDS)
        else:
            return


def migrate(connection: Connection, migrations: Traversable) -> None:
    """Run the numbered SQL files that the database has not seen, all in one transaction: of several processes
    that begin at once, one does it and the others find it done."""
    files = sorted(
        (int(match[1]), entry)
        for entry in migrations.iterdir()
        if (match := _MIGRATION.fullmatch(entry.name)) is not None
    )
    newest = files[-1][0] if files else 0
    if schema_version(connection) == newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        have = check_schema(connection, newest)
        for number, entry in files:
            if number > have:
                for statement in statements(entry.read_text(encoding="utf-8")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def statements(script: str) -> Iterator[str]:
    """Divide a script whose statements end at the end of a line. `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def newest_schema(migrations: Traversable) -> int:
    """Read the number of the last migration that there is."""
    return max(
        (int(match[1]) for entry in migrations.iterdir() if (match := _MIGRATION.fullmatch(entry.name))),
        default=0,
    )


def check_schema(connection: Connection, newest: int) -> int:
    """Read the number of the last migration; raise `StoreMismatch` where a newer program made it."""
    have = schema_version(connection)
    if have > newest:
        raise StoreMismatch(
            f"the file has schema version {have}, this program knows {newest}",
            hint="start the newer version of the program that wrote it",
        )
    return have


def schema_version(connection: Connection) -> int:
    """Read the number of the last migration."""
    row: Any = connection.execute("PRAGMA user_version").fetchone()
    return int(row[0])


def look_into(path: Path, work: Callable[[Connection], T]) -> T:
    """Look into a file beside whoever has it open, changing nothing and waiting for nobody; raise
    `StoreError` where it cannot be read."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return work(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _store_error(path.name, error) from error


def peek(path: Path, work: Callable[[Connection], T]) -> T | None:
    """Look into a file; None where there is none, or it cannot be read, or lacks what `work` reads."""
    if not path.exists():
        return None
    try:
        return look_into(path, work)
    except StoreError:
        return None


def is_damage(error: StoreError) -> bool:
    """Tell whether the file itself is at fault, so that trying again cannot help."""
    cause = error.__cause__
    return isinstance(error, StoreDamaged) or (
        isinstance(cause, sqlite3.Error) and _kind(cause) in ("SQLITE_CORRUPT", "SQLITE_NOTADB")
    )


def is_beyond_use(error: StoreError) -> bool:
    """Tell whether the file cannot be used as it is: it is damaged, or not what it is opened for."""
    return isinstance(error, StoreMismatch) or is_damage(error)
