"""`engram-appview serve`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from appview.cli.options import run_async, settings_options
from appview.errors import ConfigurationError
from appview.folder import hold_folder

if TYPE_CHECKING:
    from appview.settings import Settings


@click.command()
@settings_options()
def serve(settings: Settings) -> None:
    """Follow the sources, index what the writers of each space publish, and answer queries.

    Runs until it is interrupted; what was received is then written before it ends.
    """
    from appview import logs
    from appview.reachable import check_reachable

    if not settings.source:
        raise ConfigurationError(
            "there is no source to follow",
            hint="name a relay or PDS with --source or ENGRAM_SOURCE, as in --source wss://relay.example",
        )
    check_reachable(settings)
    logs.configure(settings.log_format, settings.log_level)
    with hold_folder(settings.data):
        service = importlib.import_module("appview.service")
        run_async(service.serve(settings))
