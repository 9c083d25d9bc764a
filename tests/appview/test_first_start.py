"""Several processes that begin on an empty data folder at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from appview import sqlite
from appview.sqlite import migrate, schema_version

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CONTROL = files("appview") / "migrations"
# Opens the file as soon as it is told to, so that all of them do so at once.
OPEN = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from appview.control import Control

async def work(path):
    with ThreadPoolExecutor(2) as executor:
        control = await Control.open(path, executor)
        _, rules = await control.rules()
        await control.close()
    print(len(rules), flush=True)

print("ready", flush=True)
for line in sys.stdin:
    try:
        asyncio.run(work(Path(line.strip())))
    except Exception as error:
        print(repr(error), flush=True)
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that wait for the name of a file to open."""
    command = [sys.executable, "-c", OPEN]
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    started = [subprocess.Popen(command, **options) for _ in range(3)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_processes_that_make_the_same_file_at_once_all_succeed(
    processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for turn in range(12):
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{tmp_path / f'{turn}.db'}\n")
            process.stdin.flush()
        assert [process.stdout and process.stdout.readline() for process in processes] == ["8\n"] * 3


def test_whoever_waits_for_another_to_migrate_finds_it_done(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    first, second = (sqlite._connect(path, None) for _ in range(2))
    first.execute("BEGIN IMMEDIATE")
    failures: list[Exception] = []

    def wait() -> None:
        try:
            migrate(second, CONTROL)
        except Exception as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    first.execute("COMMIT")
    migrate(first, CONTROL)
    waiting.join(timeout=10)
    assert (waiting.is_alive(), failures) == (False, [])
    assert schema_version(first) == schema_version(second) > 0
    for connection in (first, second):
        connection.close()


def test_a_migration_is_done_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "001_first.sql").write_text("-- One; two.\nCREATE TABLE a (x TEXT DEFAULT ';');\n")
    connection = sqlite._connect(tmp_path / "x.db", None)
    migrate(connection, tmp_path)
    (tmp_path / "002_second.sql").write_text(
        "CREATE TABLE b (x);\nCREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END;\n"
        "CREATE TABLE a (y);\n"
    )
    with pytest.raises(sqlite.sqlite3.Error, match="already exists"):
        migrate(connection, tmp_path)
    assert schema_version(connection) == 1
    assert [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")] == ["a"]
    (tmp_path / "002_second.sql").write_text(
        "CREATE TABLE b (x);\nCREATE TRIGGER t AFTER INSERT ON a\nBEGIN\n  DELETE FROM b;\nEND;\n-- The end."
    )
    migrate(connection, tmp_path)
    assert schema_version(connection) == 2
    connection.close()
