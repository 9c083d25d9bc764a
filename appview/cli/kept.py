"""`engram-appview queries`: the questions that a server has kept, for judging, and for forgetting."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click

from appview.cli.evaluation import warnings_alone
from appview.cli.options import opened, run_async, settings_options, space_argument
from appview.cli.output import json_option, show, table

if TYPE_CHECKING:
    from appview.settings import Settings
    from lexicons.spaces import SpaceUri


@click.group()
def queries() -> None:
    """Questions that the server has kept (setting `query_log`), to be judged and measured."""


@queries.command("list")
@json_option
@settings_options("data")
def list_questions(settings: Settings, /, as_json: bool) -> None:
    """Show of which spaces questions are kept, how many, and since when."""
    from appview.query_log import read_log
    from lexicons.datetimes import Datetime

    async def work() -> list[dict[str, Any]]:
        async with opened(settings) as (control, _):
            found = [(row.uri, read_log(settings.queries_folder, row.uri)) for row in await control.spaces()]
        return [
            {
                "space": uri,
                "questions": len(asked),
                "first": Datetime.from_micros(asked[0].at),
                "last": Datetime.from_micros(asked[-1].at),
            }
            for uri, asked in found
            if asked
        ]

    spaces = run_async(work())
    rows = [
        [each["space"], f"{each['questions']} questions", f"{each['first']} to {each['last']}"]
        for each in spaces
    ]
    show({"spaces": spaces}, table(rows) or ["no questions are kept"], as_json=as_json)


@queries.command()
@space_argument
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="How many questions, a fair sample of all.",
)
@click.option(
    "--depth",
    type=click.IntRange(1, 50),
    default=10,
    show_default=True,
    help="How many hits of each way of searching are to be judged.",
)
@click.option(
    "--output", type=click.File("w", encoding="utf-8", lazy=True), default="-", help="Where to; - is stdout."
)
@settings_options("data")
def export(settings: Settings, /, space: SpaceUri, limit: int, depth: int, output: IO[str]) -> None:
    """Write the kept questions of SPACE as JSON lines, each with candidates whose `relevant` a judge sets.

    `engram-appview eval FILE --space SPACE` measures what comes back.
    """
    import json

    from appview.errors import NotFound
    from appview.evaluation.pooling import pooled
    from appview.folder import space_file_name
    from appview.query_log import read_log

    asked = read_log(settings.queries_folder, space)
    if not asked:
        raise NotFound(
            f"no questions of {space} are kept", hint="the setting query_log says of which spaces they are"
        )

    async def work() -> None:
        path = settings.spaces_folder / space_file_name(space)
        async for line in pooled(path, space, asked, limit=limit, depth=depth):
            output.write(json.dumps(line) + "\n")  # escaped: what others wrote drives no terminal

    with warnings_alone():
        run_async(work())


@queries.command()
@space_argument
@json_option
@settings_options("data")
def remove(settings: Settings, /, space: SpaceUri, as_json: bool) -> None:
    """Remove the kept questions of SPACE. Those of the last second may still come."""
    from appview.errors import StoreError
    from appview.query_log import LogFile

    try:
        changed = LogFile(settings.queries_folder, space).remove()
    except OSError as error:
        raise StoreError(f"cannot remove the kept questions: {error.strerror}") from error
    told = "removed" if changed else "there were none"
    show({"space": space, "changed": changed}, [told], as_json=as_json)
