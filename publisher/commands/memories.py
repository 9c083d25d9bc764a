"""remember, update, forget, get, list."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from publisher.commands.common import memory_json, memory_lines, run, show, with_settings
from publisher.errors import PartlyDone, PublisherError, Refused
from publisher.output import line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from publisher.drafts import Draft
    from publisher.publisher import Publisher
    from publisher.repo import Committed
    from publisher.settings import Settings
    from publisher.writing import Outcome

MAX_STDIN_BYTES = 1_000_000  # ours: far above what a memory may hold, so that its real size can be told


@click.command()
@click.argument("text", required=False)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the text of one memory from standard input.")
@click.option("--jsonl", type=click.File("rb"), help="Read memories from a file of JSON Lines (- for stdin).")
@click.option("--tag", "-t", "tags", multiple=True, metavar="TAG", help="A path, attribute or label.")
@click.option("--source", metavar="TEXT", help="Where the memory comes from.")
@click.option("--only-space", is_flag=True, help="Keep the memory out of the account's other spaces.")
@with_settings
def remember(
    settings: Settings,
    json_output: bool,
    text: str | None,
    from_stdin: bool,
    jsonl: BinaryIO | None,
    tags: tuple[str, ...],
    source: str | None,
    only_space: bool,
) -> None:
    """Publish TEXT as a memory, or several memories from JSON Lines.

    A tag that starts with / is the path, key=value an attribute, anything else a label. What is printed has
    been committed by the PDS.
    """
    if (text is not None) + from_stdin + (jsonl is not None) != 1:
        raise click.UsageError("Give TEXT, --stdin or --jsonl, one of them.")
    if jsonl is not None:
        if tags or source is not None:
            raise click.UsageError("--tag and --source have no meaning with --jsonl: each line has its own.")
        _remember_lines(settings, json_output, jsonl, only_space)
        return
    content = _from_stdin() if text is None else text
    done = run(
        settings,
        lambda publisher: publisher.remember(content, tags=tags, source=source, narrow=only_space),
    )
    _show_committed(json_output, done)


def _remember_lines(settings: Settings, json_output: bool, stream: BinaryIO, narrow: bool) -> None:
    from publisher.jsonl import read_lines

    numbers: list[int] = []
    results: list[dict[str, Any]] = []
    errors: list[PublisherError] = []

    def drafts() -> Iterator[Draft | PublisherError]:
        for number, draft in read_lines(stream):
            numbers.append(number)
            yield draft

    def report(outcome: Outcome) -> None:
        number = numbers[outcome.index]
        if outcome.committed is not None:
            results.append({"line": number, **outcome.committed.to_json()})
            text = f"line {number}: {outcome.committed.uri}"
        else:
            error = outcome.error or PublisherError("nothing is known about it")
            errors.append(error)
            results.append({"line": number, "error": error.to_json()})
            text = f"line {number}: {error.message}"
        if not json_output:
            click.echo(line(text), err=outcome.committed is None)

    async def work(publisher: Publisher) -> None:
        async for outcome in publisher.remember_many(drafts(), narrow=narrow):
            report(outcome)

    try:
        run(settings, work)
    finally:  # whatever ends it, what has been published is told
        published = len(results) - len(errors)
        document = {"published": published, "failed": len(errors), "outcomes": results}
        show(json_output, document, f"{published} published, {len(errors)} not")
    if errors:
        raise _together(errors, published)


def _together(errors: list[PublisherError], published: int) -> PublisherError:
    """Make one error of several: `PartlyDone` unless nothing was done, then what all have in common."""
    if published:
        return PartlyDone(
            f"{published} memories are published, {len(errors)} are not",
            "publish the failed lines again; the outcomes name them",
        )
    if len({error.exit_code for error in errors}) == 1:
        return errors[0]
    return Refused(f"none of {len(errors)} memories is published", "the outcomes say why")


@click.command()
@click.argument("memory")
@click.argument("text", required=False)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the new text from standard input.")
@click.option("--tag", "-t", "tags", multiple=True, metavar="TAG", help="Replace all tags by those given.")
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
@click.option("--source", metavar="TEXT", help="Replace the source; an empty text removes it.")
@with_settings
def update(
    settings: Settings,
    json_output: bool,
    memory: str,
    text: str | None,
    from_stdin: bool,
    tags: tuple[str, ...],
    no_tags: bool,
    source: str | None,
) -> None:
    """Change MEMORY (a URI or record key): its TEXT, tags or source. What is not given stays.

    Nothing is written where the memory changes meanwhile.
    """
    if text is not None and from_stdin:
        raise click.UsageError("Give TEXT or --stdin, not both.")
    if tags and no_tags:
        raise click.UsageError("Give --tag or --no-tags, not both.")
    content = _from_stdin() if from_stdin else text
    changed = tags or (() if no_tags else None)
    if content is None and changed is None and source is None:
        raise click.UsageError("Nothing to change: give TEXT, --stdin, --tag, --no-tags or --source.")
    done = run(
        settings, lambda publisher: publisher.update(memory, text=content, tags=changed, source=source)
    )
    _show_committed(json_output, done)


@click.command()
@click.argument("memory")
@with_settings
def forget(settings: Settings, json_output: bool, memory: str) -> None:
    """Delete MEMORY (a URI or record key)."""
    done = run(settings, lambda publisher: publisher.forget(memory))
    _show_committed(json_output, done)


@click.command()
@click.argument("memory")
@with_settings
def get(settings: Settings, json_output: bool, memory: str) -> None:
    """Show MEMORY: any account's by URI, the signed-in account's by record key too."""
    document = memory_json(run(settings, lambda publisher: publisher.get(memory)))
    show(json_output, document, *memory_lines(document))


@click.command("list")
@click.option("--limit", type=click.IntRange(1, 100), default=25, show_default=True, help="Memories a page.")
@click.option("--cursor", metavar="CURSOR", help="Where the page before ended.")
@with_settings
def list_memories(settings: Settings, json_output: bool, limit: int, cursor: str | None) -> None:
    """Show the signed-in account's memories, newest first."""
    page = run(settings, lambda publisher: publisher.list(limit=limit, cursor=cursor))
    memories = [memory_json(record) for record in page.records]
    document: dict[str, Any] = {"memories": memories}
    lines = [text for memory in memories for text in memory_lines(memory)]
    if page.cursor is not None:
        document["cursor"] = page.cursor
        lines.append(f"more: --cursor {line(page.cursor)}")
    show(json_output, document, *(lines or ["no memories"]))


def _from_stdin() -> str:
    content = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(content) > MAX_STDIN_BYTES:
        raise Refused(f"standard input holds more than {MAX_STDIN_BYTES} bytes")
    try:
        return content.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise Refused("standard input is not UTF-8") from None


def _show_committed(json_output: bool, done: Committed) -> None:
    show(json_output, done.to_json(), line(done.uri), f"  cid {line(done.cid)}", f"  rev {line(done.rev)}")
