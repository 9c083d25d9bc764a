"""The command line `engram-appview`. Importing it costs little: a command loads what it needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

import click

from appview.cli.asking import search
from appview.cli.evaluation import evaluate
from appview.cli.kept import queries
from appview.cli.output import report
from appview.cli.overview import status
from appview.cli.repos import repos
from appview.cli.rules import policy
from appview.cli.serving import serve
from appview.cli.spaces import member, space
from appview.cli.tokens import token
from appview.cli.verification import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "engram-appview"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="garden-engram", prog_name=PROGRAM)
def cli() -> None:
    """Index what a network's agents remember, and answer questions about it."""


cli.add_command(serve)
cli.add_command(status)
cli.add_command(repos)
cli.add_command(verify)
cli.add_command(search)
cli.add_command(member)
cli.add_command(space)
cli.add_command(policy)
cli.add_command(token)
cli.add_command(evaluate)
cli.add_command(queries)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; whatever goes wrong is told on stderr.

    Click itself ends the process quietly where the reader of its output has gone.
    """
    try:
        result = cli.main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the outermost layer: it translates
        return report(error, as_json="--json" in arguments)
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells have it
    return result if isinstance(result, int) else 0


def main() -> NoReturn:
    """Run the command line and leave."""
    sys.exit(run(sys.argv[1:]))
