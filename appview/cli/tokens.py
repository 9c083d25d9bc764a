"""`engram-appview token`: credentials for callers without an account."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from appview.cli.operator import actor
from appview.cli.options import opened, run_async, settings_options
from appview.cli.output import json_option, show, table
from appview.errors import NotFound

if TYPE_CHECKING:
    from appview.access.subjects import Token
    from appview.settings import Settings

UNITS: Final = {"m": 60, "h": 3_600, "d": 86_400}  # seconds
DEFAULT_LIFETIME: Final = "90d"
MAX_LIFETIME_SECONDS: Final = 3_650 * 86_400  # ten years; what is to live longer says never
NEVER: Final = "never"


def _read_lifetime(_context: click.Context, parameter: click.Parameter, value: str) -> int | None:
    if value == NEVER:
        return None
    match = re.fullmatch(r"(\d{1,6})([mhd])", value, re.ASCII)
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    if not 0 < seconds <= MAX_LIFETIME_SECONDS:
        reason = f"{value!r} is not a time such as 30m, 12h or 90d (at most 3650d), or {NEVER}"
        raise click.BadParameter(reason, param=parameter)
    return seconds * 1_000_000


def _read_name(_context: click.Context, parameter: click.Parameter, value: str) -> Token:
    from appview.access.subjects import InvalidName, Token

    try:
        return Token(value)
    except InvalidName as error:
        raise click.BadParameter(f"{error}; {error.hint}", param=parameter) from None


name_argument = click.argument("name", callback=_read_name)


@click.group()
def token() -> None:
    """Give callers without an account a credential.

    Who holds the token NAME is `token:NAME` in the access rules. What is changed here counts from the next
    request on.
    """


@token.command("add")
@name_argument
@click.option(
    "--expires",
    "lifetime",
    default=DEFAULT_LIFETIME,
    show_default=True,
    metavar="TIME",
    callback=_read_lifetime,
    help=f"How long it can be used: minutes, hours or days (30m, 12h, 90d), or {NEVER}.",
)
@json_option
@settings_options("data")
def add_token(settings: Settings, name: Token, lifetime: int | None, as_json: bool) -> None:
    """Make the token NAME and print it. It is shown this once and cannot be read again."""
    import secrets

    from appview.access.tokens import make_token
    from appview.clock import now
    from appview.errors import AppviewError

    text, row = make_token(name, now(), lifetime, secrets.token_bytes)

    async def work() -> None:
        async with opened(settings, create=True) as (control, _):
            if not await control.tokens.add(row, actor=actor()):
                raise AppviewError(
                    f"there is a token {name.name} already",
                    hint=f"choose another name, or first: engram-appview token revoke {name.name}",
                )

    run_async(work())
    expires = _instant(row.expires_at)
    document = {"name": row.name, "subject": str(name), "token": text, "expiresAt": expires}
    show(document, [text], as_json=as_json)  # alone on stdout, so that a script can take it from there
    if not as_json:
        click.echo(f"Keep it now: it is not shown again. It stands for {name} in the access rules.", err=True)
        click.echo(f"It expires: {expires or NEVER}.", err=True)


@token.command("list")
@json_option
@settings_options("data")
def list_tokens(settings: Settings, as_json: bool) -> None:
    """List the tokens, when they expire and when each was last used."""
    from appview.clock import now

    async def work() -> list[dict[str, Any]]:
        async with opened(settings) as (control, _):
            return [
                {
                    "name": row.name,
                    "createdAt": _instant(row.created_at),
                    "expiresAt": _instant(row.expires_at),
                    "expired": row.expires_at is not None and row.expires_at <= now(),
                    "lastUsedAt": _instant(row.last_used_at),
                }
                for row in await control.tokens.rows()
            ]

    tokens = run_async(work())
    rows = [
        [
            token["name"],
            f"made {token['createdAt']}",
            f"{'expired' if token['expired'] else 'expires'} {token['expiresAt'] or NEVER}",
            f"last used {token['lastUsedAt'] or NEVER}",
        ]
        for token in tokens
    ]
    show({"tokens": tokens}, table(rows) or ["no tokens"], as_json=as_json)


@token.command("revoke")
@name_argument
@json_option
@settings_options("data")
def revoke_token(settings: Settings, name: Token, as_json: bool) -> None:
    """Make the token NAME worthless. Rules that name its holder stay, for a new token of that name."""
    from appview.access.text import format_rule
    from appview.clock import now

    async def work() -> list[str]:
        async with opened(settings) as (control, access):
            if not await control.tokens.revoke(name.name, actor=actor(), now=now()):
                raise NotFound(f"there is no token {name.name}", hint="see engram-appview token list")
            rules = [statement.to_rule() for statement in access.statements]
            return [format_rule(rule) for rule in rules if rule.fields[0] == str(name)]

    rules = run_async(work())
    lines = [f"the token {name.name} is worthless now"]
    if rules:
        lines += [f"rules still name {name}:", *(f"  {rule}" for rule in rules)]
    show({"name": name.name, "revoked": True, "rules": rules}, lines, as_json=as_json)


def _instant(micros: int | None) -> str | None:
    if micros is None:
        return None
    moment = datetime.fromtimestamp(micros / 1_000_000, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
