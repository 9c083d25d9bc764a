"""The documentation names every setting, command, option and default rule, as the code has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from appview.access.policy import MAX_ROLE_LINKS
from appview.access.text import format_rule, parse_lines
from appview.cli import PROGRAM, cli
from appview.control import Control
from appview.settings import CONFIG_VARIABLE, SETTINGS, Setting, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def commands(group: click.Group, path: str = PROGRAM) -> Iterator[tuple[str, click.Command]]:
    """Walk all commands that do something."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(cli))


def row_of(command: str) -> list[str]:
    """Find the cells of a command's row, however its arguments are called."""
    rows = [line.strip("|\n ").split(" | ") for line in PAGE.splitlines() if line.startswith(f"| `{command}")]
    return next(row for row in rows if re.fullmatch(rf"`{command}( [A-Z.]+)*`", row[0]))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_setting_has_its_row(setting: Setting) -> None:
    s = setting
    assert f"| `{s.name}` | `{s.variable}` | `{s.flag}` | {s.kind} | {s.default} | {s.description} |" in PAGE


def test_page_has_no_setting_that_is_none() -> None:
    assert set(re.findall(r"ENGRAM_[A-Z_]+", PAGE)) - {"ENGRAM_REGISTRATON"} == {
        CONFIG_VARIABLE,
        *(setting.variable for setting in SETTINGS),
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_its_row_with_its_options(command: str) -> None:
    parameters = COMMANDS[command].params
    cells = row_of(command)
    options = {p.opts[0] for p in parameters if isinstance(p, click.Option)}
    if command == f"{PROGRAM} serve":
        assert options == {"--config", *(setting.flag for setting in SETTINGS)}
        assert cells[2] == "all settings"
    else:
        assert set(re.findall(r"--[a-z-]+", cells[2])) == options
    arguments = [p.name.upper() for p in parameters if isinstance(p, click.Argument) and p.name]
    shown = re.findall(r"[A-Z]+", cells[0].removeprefix(f"`{command}"))
    assert [name.removesuffix("S") if name == "RULES" else name for name in arguments] == shown


def test_page_has_no_command_that_is_none() -> None:
    documented = re.findall(rf"^\| `({PROGRAM}(?: [a-z]+)+)", PAGE, re.MULTILINE)
    assert sorted(documented) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_command_says_what_it_is_for(command: str) -> None:
    assert COMMANDS[command].help
    for parameter in COMMANDS[command].params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


async def test_default_rules_are_those_of_a_new_file(tmp_path: Path, executor: Executor) -> None:
    control = await Control.open(tmp_path / "control.db", executor)
    _, rules = await control.rules()
    await control.close()
    assert "\n".join(format_rule(rule) for rule in rules) in PAGE


def test_rules_of_the_examples_can_be_followed() -> None:
    rules = re.findall(r"policy (?:add|remove) '(.*)'", PAGE)
    assert len(parse_lines(rules)) == 2


def test_example_file_can_be_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "engram.toml"
    path.write_text(example)
    assert Settings.load(environ={}, config_file=path).registration == "closed"


def test_limits_are_those_of_the_code() -> None:
    assert f"at most {MAX_ROLE_LINKS} such grants" in PAGE
