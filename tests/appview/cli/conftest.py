"""A data folder, and the command line run on it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from appview.cli import run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error on stderr."""
        return json.loads(self.err)["error"]


@dataclass(frozen=True)
class CommandLine:
    """`engram-appview` in this process, on a data folder of its own."""

    data: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object) -> Answer:
        """Run a command."""
        code = run([str(argument) for argument in arguments])
        out, err = self.capsys.readouterr()
        return Answer(code, out, err)


@pytest.fixture
def engram(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command line with no settings but its data folder."""
    (tmp_path / "engram.toml").write_text("")
    monkeypatch.setenv("ENGRAM_CONFIG", str(tmp_path / "engram.toml"))
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path / "data"))
    return CommandLine(tmp_path / "data", capsys)
