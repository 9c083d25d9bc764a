"""Where a password comes from: never from a flag, which every process of the machine could read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from publisher.errors import BadSetting, NotSignedIn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

PASSWORD_VARIABLE: Final = "ENGRAM_PASSWORD"  # noqa: S105 - a name
PASSWORD_FILE_VARIABLE: Final = "ENGRAM_PASSWORD_FILE"  # noqa: S105
MAX_PASSWORD_BYTES: Final = 4096  # ours


def find_password(environment: Mapping[str, str], *, file: Path | None, stdin: BinaryIO | None) -> str | None:
    """Read the password from standard input or a file where asked, else from the environment.

    None: it must be asked for. Raise `BadSetting` where a source is empty or unusable.
    """
    if stdin is not None:
        return _first_line(stdin.read(MAX_PASSWORD_BYTES + 1), "standard input")
    if file is None and environment.get(PASSWORD_FILE_VARIABLE):
        file = Path(environment[PASSWORD_FILE_VARIABLE]).expanduser()
    if file is not None:
        try:
            with file.open("rb") as stream:
                return _first_line(stream.read(MAX_PASSWORD_BYTES + 1), str(file))
        except OSError as error:
            raise BadSetting(f"the password file cannot be read: {error}") from None
    return environment.get(PASSWORD_VARIABLE) or None


def ask_password(account: str) -> str:
    """Ask at the terminal, unseen; raise `NotSignedIn` where there is none."""
    if not sys.stdin.isatty():
        raise NotSignedIn(
            "no password given and no terminal to ask at",
            f"use --password-stdin, --password-file, {PASSWORD_VARIABLE} or {PASSWORD_FILE_VARIABLE}",
        )
    import click

    return str(click.prompt(f"App password of {account}", hide_input=True, err=True))


def _first_line(content: bytes, place: str) -> str:
    if len(content) > MAX_PASSWORD_BYTES:
        raise BadSetting(f"{place} holds more than {MAX_PASSWORD_BYTES} bytes, not a password")
    try:
        text = content.decode().splitlines()
    except UnicodeDecodeError:
        raise BadSetting(f"the password in {place} is not UTF-8") from None
    if not text or not text[0].strip():
        raise BadSetting(f"no password in {place}")
    return text[0].strip()
