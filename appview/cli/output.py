"""What commands print: one document or readable lines on stdout, errors on stderr, exit codes."""

from __future__ import annotations

import errno
import json
import re
import traceback
from typing import TYPE_CHECKING, Any, Final

import click

from appview.errors import AppviewError
from lexicons.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
PACKAGES: Final = ("appview", "embedders", "lexicons")
# What could drive or deceive a terminal: control characters, marks that reorder a line, lone surrogates.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def show(document: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print the result of a command."""
    if as_json:
        click.echo(_safe(json.dumps(document, ensure_ascii=False, indent=2)))
    else:
        for line in lines:
            click.echo(_safe(line))


def table(rows: Sequence[Sequence[str]], *, indent: str = "") -> list[str]:
    """Lay out rows in columns as wide as their widest cell."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def report(error: Exception, *, as_json: bool) -> int:
    """Tell what went wrong on stderr and return the exit code."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message(), err=True)
            return EXIT_USAGE
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "engram-appview"
            return _tell("UsageError", error.format_message(), f"see {path} --help", error.exit_code, as_json)
        case click.ClickException():
            return _tell(type(error).__name__, error.format_message(), "", error.exit_code, as_json)
        case click.Abort():
            return _tell("Aborted", "nothing was changed", "", EXIT_FAILED, as_json)
        case AppviewError():
            name = type(error).__name__
            return _tell(name, str(error), error.hint, error.exit_code, as_json, retryable=error.retryable)
        case ContractError():
            return _tell(type(error).__name__, str(error), "", EXIT_USAGE, as_json)
        case ExceptionGroup(exceptions=(only,)):  # what a task group makes of one failure
            return report(only, as_json=as_json)
        case OSError():
            hint = "see --port and ENGRAM_PORT" if error.errno == errno.EADDRINUSE else ""
            return _tell("SystemError", str(error), hint, EXIT_FAILED, as_json)
        case ModuleNotFoundError() if (error.name or "").split(".")[0] not in PACKAGES:
            hint = "install the appview's parts: pip install 'garden-engram[appview]'"
            return _tell("NotInstalled", f"{error.name} is not installed", hint, EXIT_FAILED, as_json)
        case _:
            if not as_json:
                traceback.print_exception(error)
            message = f"{type(error).__name__}: {error}"
            return _tell("InternalError", message, "this is a fault of the program", EXIT_FAILED, as_json)


def _tell(
    code: str, message: str, hint: str, exit_code: int, as_json: bool, *, retryable: bool = False
) -> int:
    if as_json:
        error = {"code": code, "message": message, "hint": hint, "retryable": retryable}
        click.echo(_safe(json.dumps({"error": error}, ensure_ascii=False)), err=True)
    else:
        click.echo(_safe(f"error: {message}"), err=True)
        if hint:
            click.echo(_safe(f"hint: {hint}"), err=True)
    return exit_code


def _safe(text: str) -> str:
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
