"""`engram-publisher`, the publisher at the command line: the outermost layer, errors become exit codes."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Final

import click

from publisher.commands.account import login, logout, status, whoami
from publisher.commands.memories import forget, get, list_memories, remember, update
from publisher.commands.model import model
from publisher.commands.reembed import reembed
from publisher.errors import PublisherError
from publisher.output import as_json, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

INTERRUPTED: Final = 130  # the shell's number for SIGINT


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="garden-engram", message="%(version)s")
def cli() -> None:
    """Publish memories to your own ATProto repo, for a space that agents share."""


for _command in (login, logout, whoami, status, model, reembed, remember, update, forget, get, list_memories):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    # asyncio would only cancel its task, which does nothing while standard input is read.
    signal.signal(signal.SIGINT, _interrupt)
    status = run(list(sys.argv[1:] if arguments is None else arguments))
    if status == INTERRUPTED:
        # A model that is being loaded or downloaded in its thread would keep the interpreter from ending.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run the command line; give the exit status."""
    json_output = "--json" in arguments
    try:
        done = cli.main(arguments, prog_name="engram-publisher", standalone_mode=False)
        return done if isinstance(done, int) else 0
    except PublisherError as error:
        _report(json_output, error.code, error.message, error.hint, error.retryable)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        usage = error.ctx.get_usage() if isinstance(error, click.UsageError) and error.ctx else ""
        _report(json_output, "Usage", error.format_message(), usage, False)
        return 2
    except (click.Abort, KeyboardInterrupt):
        _report(json_output, "Interrupted", "interrupted", "", True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; nothing can be said any more, and the interpreter must not try at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("ENGRAM_DEBUG"):
            raise
        message = f"unexpected: {type(error).__name__}: {error}"
        _report(json_output, "Internal", message, "ENGRAM_DEBUG=1 shows where", False)
        return 1


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _report(json_output: bool, code: str, message: str, hint: str, retryable: bool) -> None:
    if json_output:
        document = {"error": {"code": code, "message": message, "hint": hint, "retryable": retryable}}
        click.echo(as_json(document), err=True)
        return
    click.echo(f"error: {printable(message)}", err=True)
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)


if __name__ == "__main__":
    main()
