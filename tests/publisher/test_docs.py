"""docs/publisher.md names every command, option, variable, setting, error and method there is."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from publisher.cli import cli
from publisher.errors import PublisherError
from publisher.jsonl import FIELDS, MAX_LINE_BYTES
from publisher.publisher import Publisher
from publisher.settings import Settings, flag, names, variable

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs" / "publisher.md").read_text(encoding="utf-8")


def documented(name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", DOCS) is not None


def options() -> list[tuple[str, str]]:
    found = {("", option) for option in ("--help", "-h", "--version")}
    for command in cli.commands.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                found |= {(command.name or "", option) for option in parameter.opts}
    return sorted(found)


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_a_command_is_documented(command: str) -> None:
    assert re.search(rf"^\| `{command}[ `]", DOCS, re.MULTILINE)


@pytest.mark.parametrize(("command", "option"), options())
def test_an_option_is_documented(command: str, option: str) -> None:
    section = re.search(rf"^### `{command}`\n(.*?)^##", DOCS, re.MULTILINE | re.DOTALL)
    shared = option in {flag(name) for name in names()} or option in ("--json", "--help", "-h", "--version")
    assert documented(option), option
    assert shared or (section and option in section[1]), (
        f"{command} {option} belongs in the command's section"
    )


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            found
            for package in ("publisher", "embedders")
            for path in (ROOT / package).rglob("*.py")
            for found in re.findall(r"ENGRAM_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8"))
        }
        | {variable(name) for name in names()}
    ),
)
def test_an_environment_variable_is_documented(name: str) -> None:
    assert documented(name)


@pytest.mark.parametrize("name", names())
def test_a_setting_is_a_row_with_its_default(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| `{flag(name)}` \| `{variable(name)}` \| (.*?) \|", DOCS, re.MULTILINE)
    assert row
    default = getattr(Settings(), name)
    if isinstance(default, str | float) and not isinstance(default, bool):
        assert f"{default:g}" == row[1] if isinstance(default, float) else default in row[1]


def errors(kind: type[PublisherError] = PublisherError) -> list[type[PublisherError]]:
    return [kind, *(each for sub in kind.__subclasses__() for each in errors(sub))]


@pytest.mark.parametrize("kind", errors())
def test_an_error_stands_beside_its_exit_status(kind: type[PublisherError]) -> None:
    assert re.search(rf"^\| {kind.exit_code} \| [^|]*`{kind.__name__}`", DOCS, re.MULTILINE)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_a_line_is_documented(name: str) -> None:
    assert f"| `{name}` |" in DOCS and f"{MAX_LINE_BYTES:,} bytes a line" in DOCS


@pytest.mark.parametrize("name", [name for name in vars(Publisher) if not name.startswith("_")])
def test_a_method_of_the_library_is_named(name: str) -> None:
    assert documented(name)


def test_the_library_example_is_python_with_names_that_exist() -> None:
    [example] = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    compile(example, "docs/publisher.md", "exec")
    for name in re.search(r"from publisher import (.*)", example)[1].split(", "):  # type: ignore[index]
        assert hasattr(__import__("publisher"), name)
