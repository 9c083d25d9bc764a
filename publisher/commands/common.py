"""What the commands share: their options, running a coroutine, printing a result."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from publisher.output import as_json, line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeVar

    from publisher.publisher import Publisher
    from publisher.repo import Record
    from publisher.settings import Settings

    T = TypeVar("T")

_SETTINGS = (
    click.option("--space", metavar="SPACE", help="The space: its URI, or its authority's handle or DID."),
    click.option("--embedder", metavar="SPEC", help="The model that makes vectors."),
    click.option("--next-embedder", metavar="SPEC", help="The model that a space is changing to."),
    click.option("--embedder-threads", type=int, metavar="N", help="Threads of a model in this process."),
    click.option("--model-cache", metavar="FOLDER", help="Where downloaded models are kept."),
    click.option("--session", metavar="FILE", help="Where the session is kept."),
    click.option("--pds", metavar="URL", help="The PDS to sign in at."),
    click.option("--plc-url", metavar="URL", help="The directory of did:plc accounts."),
    click.option("--max-wait", type=float, metavar="SECONDS", help="The longest pause before a retry."),
    click.option("--allow-loopback", is_flag=True, default=None, help="Allow plain http on this machine."),
    click.option("--json", "json_output", is_flag=True, help="Print one JSON document."),
)
_NAMES = (
    "space",
    "embedder",
    "next_embedder",
    "embedder_threads",
    "model_cache",
    "session",
    "pds",
    "plc_url",
    "max_wait",
    "allow_loopback",
)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every setting's flag and `--json`; it receives `settings` and `json_output`."""

    @wraps(command)
    def wrapped(**options: Any) -> None:
        from publisher.settings import load_settings

        flags = {name: options.pop(name) for name in _NAMES}
        command(settings=load_settings(flags), **options)

    for option in reversed(_SETTINGS):
        wrapped = option(wrapped)
    return wrapped


def run(settings: Settings, work: Callable[[Publisher], Coroutine[Any, Any, T]]) -> T:
    """Run `work` with a publisher that is opened and closed around it."""
    import asyncio

    from publisher.publisher import Publisher

    async def opened() -> T:
        async with Publisher(settings=settings) as publisher:
            return await work(publisher)

    return asyncio.run(opened())


def show(json_output: bool, document: Any, *lines: str) -> None:
    """Print a result: the document as JSON, or the lines for people."""
    click.echo(as_json(document) if json_output else "\n".join(lines))


def memory_json(record: Record) -> dict[str, Any]:
    """Describe a memory as the commands give it: without its vectors, with the models that made them."""
    value = record.value
    document: dict[str, Any] = {"uri": record.uri, "cid": record.cid}
    document |= {name: value[name] for name in ("text", "tags", "source", "createdAt") if name in value}
    for field, name in (("embedding", "model"), ("nextEmbedding", "nextModel")):
        inner = value.get(field)
        if isinstance(inner, dict):
            document[name] = {key: inner.get(key) for key in ("model", "modelDigest", "dims")}
    return _plain(document)


def memory_lines(document: dict[str, Any]) -> list[str]:
    """Write a memory for people, its text indented so that it cannot pass for anything else."""
    from publisher.output import printable

    lines = [line(str(document["uri"])), f"  {line(str(document.get('createdAt', '')))}"]
    lines += [f"  | {part}" for part in printable(str(document.get("text", ""))).split("\n")]
    if tags := document.get("tags"):
        lines.append("  tags: " + ", ".join(line(str(tag)) for tag in tags))
    if source := document.get("source"):
        lines.append(f"  source: {line(str(source))}")
    return lines


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    from lexicons.data import to_json

    plain: dict[str, Any] = to_json(document)
    return plain
