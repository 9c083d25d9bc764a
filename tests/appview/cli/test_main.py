"""The frame of the command line: help, exit codes, error documents, `serve`'s conditions."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from appview.cli import cli
from appview.errors import StoreBusy
from appview.folder import hold_folder

if TYPE_CHECKING:
    from tests.appview.cli.conftest import CommandLine

ROOT = Path(__file__).parents[3]
START = [sys.executable, "-c", "from appview.cli import main; main()"]
MAX_HELP_SECONDS = 0.3  # processor time of a process that answers --help
HEAVY = (
    "aiohttp",
    "casbin",
    "numpy",
    "pysqlite3",
    "cryptography",
    "coincurve",
    "structlog",
    "asyncio",
    "atproto",
)


@pytest.mark.parametrize("arguments", [[], ["member"], ["policy"]])
def test_without_a_command_the_help_is_shown(engram: CommandLine, arguments: list[str]) -> None:
    answer = engram(*arguments)
    assert answer.code == 2
    assert "Commands:" in answer.err


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_help_is_no_error(engram: CommandLine, name: str) -> None:
    answer = engram(name, "--help")
    assert answer.code == 0
    assert f"engram-appview {name}" in answer.out


def test_help_loads_nothing_heavy() -> None:
    script = f"import sys, appview.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_help_answers_quickly() -> None:
    def seconds() -> float:
        before = os.times()
        subprocess.run([*START, "--help"], cwd=ROOT, check=True, capture_output=True)
        after = os.times()
        return (after.children_user - before.children_user) + (after.children_system - before.children_system)

    assert min(seconds() for _ in range(3)) < MAX_HELP_SECONDS


def test_version_is_told(engram: CommandLine) -> None:
    try:
        version = importlib.metadata.version("garden-engram")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the distribution is not installed, only its source is here")
    assert engram("--version").out == f"engram-appview, version {version}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["status", "--nonsense"], ["member", "nonsense"]])
def test_wrong_usage_is_a_document_with_json(engram: CommandLine, arguments: list[str]) -> None:
    answer = engram(*arguments, "--json")
    assert answer.code == 2
    assert set(answer.error) == {"code", "message", "hint", "retryable"}
    assert answer.error["code"] == "UsageError"
    assert engram(*arguments).err.startswith("error: ")


def test_bad_setting_names_its_place(engram: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_PORT", "many")
    answer = engram("serve")
    assert answer.code == 2
    assert "error: ENGRAM_PORT must be a whole number" in answer.err


def test_source_that_may_never_be_asked_ends_serve_at_once(engram: CommandLine) -> None:
    answer = engram("serve", "--source", "http://localhost:2583")
    assert answer.code == 2
    assert "error: source: http://localhost is on this machine" in answer.err
    assert "hint: for development and tests: --allow-loopback" in answer.err
    assert not engram.data.exists()


def test_damaged_file_is_a_failure_and_is_kept(engram: CommandLine) -> None:
    engram("space", "list")
    engram.data.mkdir()
    (engram.data / "control.db").write_text("not a database\n" * 100)
    answer = engram("status", "--json")
    assert (answer.code, answer.error["code"]) == (1, "StoreError")
    assert (engram.data / "control.db").read_text().startswith("not a database")


def test_fault_of_the_program_is_reported(engram: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_seconds: object) -> None:
        raise LookupError("lost")

    monkeypatch.setattr("appview.cli.overview.holder", broken)
    engram("member", "add", "did:web:a.example", "did:web:b.example")
    answer = engram("status", "--json")
    assert (answer.code, answer.error["code"]) == (1, "InternalError")
    assert "Traceback" in engram("status").err


@pytest.mark.parametrize(
    ("failure", "code", "says"),
    [
        (OSError(errno.EADDRINUSE, "address in use"), "SystemError", "ENGRAM_PORT"),
        (ExceptionGroup("tasks", [StoreBusy("taken", hint="wait")]), "StoreBusy", "wait"),
        (ModuleNotFoundError("no", name="aiohttp"), "NotInstalled", "garden-engram[appview]"),
        (ModuleNotFoundError("no", name="appview.lost"), "InternalError", "fault of the program"),
    ],
)
def test_failure_of_the_surroundings_has_a_hint(
    engram: CommandLine, monkeypatch: pytest.MonkeyPatch, failure: Exception, code: str, says: str
) -> None:
    def broken(_path: object) -> None:
        raise failure

    engram("member", "add", "did:web:a.example", "did:web:b.example")
    monkeypatch.setattr("appview.cli.overview.holder", broken)
    answer = engram("status", "--json")
    assert (answer.code, answer.error["code"]) == (1, code)
    assert says in answer.error["hint"]


def test_reader_that_leaves_early_is_no_fault(engram: CommandLine) -> None:
    rules = [f"p, token:t{number}, *, path:/{'x' * 100}/{number}, read, allow" for number in range(2_000)]
    (engram.data.parent / "rules").write_text("\n".join(rules))
    assert engram("policy", "import", engram.data.parent / "rules").code == 0
    with subprocess.Popen(
        [*START, "policy", "list"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


class TestServe:
    def test_needs_a_source(self, engram: CommandLine) -> None:
        answer = engram("serve")
        assert answer.code == 2
        assert "--source" in answer.err
        assert not engram.data.exists()

    def test_second_one_on_a_folder_says_who_has_it(self, engram: CommandLine) -> None:
        with hold_folder(engram.data):
            done = subprocess.run(
                [*START, "serve", "--source", "wss://relay.example"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
        assert done.returncode == 1
        assert f"process {os.getpid()}" in done.stderr
        assert str(engram.data) in done.stderr
