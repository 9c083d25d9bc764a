"""login, logout, whoami, status."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from publisher.commands.common import run, show, with_settings
from publisher.errors import PublisherError
from publisher.output import line

if TYPE_CHECKING:
    from publisher.publisher import Publisher
    from publisher.sessions import StoredSession
    from publisher.settings import Settings

IDENTIFIER_VARIABLE = "ENGRAM_IDENTIFIER"


@click.command()
@click.argument("account", required=False, envvar=IDENTIFIER_VARIABLE)
@click.option("--password-stdin", is_flag=True, help="Read the app password from standard input.")
@click.option("--password-file", type=click.Path(path_type=Path), help="Read the app password from a file.")
@with_settings
def login(
    settings: Settings,
    json_output: bool,
    account: str | None,
    password_stdin: bool,
    password_file: Path | None,
) -> None:
    """Sign in as ACCOUNT (a handle or DID) and keep the session.

    The app password comes from --password-stdin, --password-file, ENGRAM_PASSWORD_FILE, ENGRAM_PASSWORD or
    a prompt, never from a flag.
    """
    from publisher.passwords import ask_password, find_password

    if not account:
        raise click.UsageError("Missing argument 'ACCOUNT'.")
    stdin = sys.stdin.buffer if password_stdin else None
    password = find_password(os.environ, file=password_file, stdin=stdin) or ask_password(line(account))
    session = run(settings, lambda publisher: publisher.sign_in(account, password))
    show(json_output, _account(session), f"Signed in as {_who(session)}")


@click.command()
@with_settings
def logout(settings: Settings, json_output: bool) -> None:
    """End the session and forget it."""
    session, ended = run(settings, lambda publisher: publisher.sign_out())
    note = "" if ended else " (the PDS was not reached; its session ends by itself)"
    show(json_output, {**_account(session), "ended": ended}, f"Signed out {_who(session)}{note}")


@click.command()
@with_settings
def whoami(settings: Settings, json_output: bool) -> None:
    """Tell who is signed in, after asking the PDS whether that still holds."""
    session = run(settings, lambda publisher: publisher.check_session())
    show(json_output, _account(session), _who(session))


@click.command()
@with_settings
def status(settings: Settings, json_output: bool) -> None:
    """Tell whether a memory could be published now, and if not, why.

    Loads the model. The exit status is that of the first problem.
    """
    document, problem = run(settings, lambda publisher: _look(publisher, settings))
    lines = [f"{name}: {line(_brief(value))}" for name, value in document.items() if name != "problem"]
    show(json_output, document, *lines)
    if problem is not None:
        raise problem


async def _look(publisher: Publisher, settings: Settings) -> tuple[dict[str, Any], PublisherError | None]:
    document: dict[str, Any] = {"ready": False, "embedder": settings.embedder}
    try:
        document["account"] = _account(await publisher.check_session())
        space = await publisher.space()
        document["space"] = space.uri
        document["authority"] = space.authority.handle or space.authority.did
        config = space.declared()
        document["model"] = config.model.to_record()
        if config.next is not None:
            document["next"] = config.next.to_record()
        await publisher.check_model()
    except PublisherError as error:
        document["problem"] = error.to_json()
        return document, error
    document["ready"] = True
    return document, None


def _account(session: StoredSession) -> dict[str, str]:
    return {"did": session.did, "handle": session.handle, "pds": session.pds}


def _who(session: StoredSession) -> str:
    return line(f"{session.handle} ({session.did}) on {session.pds}")


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(str(inner) for inner in value.values())
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
