"""What commands have in common: their settings, the SPACE argument, and the opened control.db."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import click

from appview.errors import NotFound
from appview.folder import make_folder
from appview.settings import CONFIG_VARIABLE, SETTINGS, Settings
from lexicons.errors import InvalidSyntax
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Handle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from appview.access.access import Access
    from appview.control import Control

P = ParamSpec("P")
R = TypeVar("R")
THREADS: Final = 2  # a command does one thing at a time


def settings_options(
    *names: str,
) -> Callable[[Callable[Concatenate[Settings, P], R]], Callable[P, R]]:
    """Give a command the options of these settings (of all, without names), and the settings."""

    def decorate(command: Callable[Concatenate[Settings, P], R]) -> Callable[P, R]:
        wanted = [setting for setting in SETTINGS if not names or setting.name in names]

        @wraps(command)
        def run(*args: Any, **kwargs: Any) -> R:
            config = kwargs.pop("config")
            flags = {setting.name: kwargs.pop(setting.name) for setting in wanted}
            settings = Settings.load(flags, config_file=None if config is None else Path(config))
            return command(settings, *args, **kwargs)

        decorated: Callable[..., R] = run
        for setting in reversed(wanted):
            about = f"{setting.description} [{setting.variable}; default: {setting.default.replace('`', '')}]"
            if setting.kind == "true or false":
                flag = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"
                decorated = click.option(flag, setting.name, default=None, help=about)(decorated)
            else:
                decorated = click.option(
                    setting.flag,
                    setting.name,
                    metavar=setting.kind.upper(),
                    multiple=setting.repeats,
                    help=about,
                )(decorated)
        return click.option("--config", metavar="FILE", help=f"TOML file with settings. [{CONFIG_VARIABLE}]")(
            decorated
        )

    return decorate


def _read_space(_context: click.Context, parameter: click.Parameter, value: str) -> SpaceUri:
    try:
        return SpaceUri.public(Did(value)) if value.startswith("did:") else SpaceUri(value)
    except InvalidSyntax as error:
        reason = _of_handle(value) or f"{error}; give a space's URI or its authority's DID"
        raise click.BadParameter(reason, param=parameter) from None


def _read_did(_context: click.Context, parameter: click.Parameter, value: str) -> Did:
    try:
        return Did(value)
    except InvalidSyntax as error:
        reason = _of_handle(value) or f"{error}; give the account's DID"
        raise click.BadParameter(reason, param=parameter) from None


def _of_handle(value: str) -> str:
    """Say how to find the DID of a handle, which may change hands and so has no place in the rules; empty for
    what is no handle."""
    handle = value.removeprefix("@").lower()
    if not Handle.is_valid(handle):
        return ""
    return (
        f"{value!r} is a handle, and handles change hands; give the DID: it is at"
        f" https://{handle}/.well-known/atproto-did, or in the DNS record TXT _atproto.{handle},"
        " and the account's own `engram-publisher whoami` tells it"
    )


def _read_optional_space(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> SpaceUri | None:
    return None if value is None else _read_space(context, parameter, value)


optional_space_argument = click.argument("space", required=False, callback=_read_optional_space)
space_argument = click.argument("space", callback=_read_space)
did_argument = click.argument("did", callback=_read_did)


def run_async(work: Coroutine[Any, Any, R]) -> R:
    """Run the work of a command."""
    import asyncio

    return asyncio.run(work)


@asynccontextmanager
async def opened(settings: Settings, *, create: bool = False) -> AsyncIterator[tuple[Control, Access]]:
    """Open control.db and its rules beside a server that may be running.

    Raises `NotFound` where there is no appview in the data folder, unless `create`.
    """
    from concurrent.futures import ThreadPoolExecutor

    from appview.access.access import Access
    from appview.clock import now
    from appview.control import Control

    if create:
        make_folder(settings.data)
    elif not settings.control_file.exists():
        raise NotFound(
            f"there is no appview's data in {settings.data}",
            hint="name its folder with --data or ENGRAM_DATA",
        )
    with ThreadPoolExecutor(THREADS) as executor:
        control = await Control.open(settings.control_file, executor)
        try:
            yield control, await Access.open(control, now)
        finally:
            await control.close()
