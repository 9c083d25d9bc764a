"""model: show and change the model of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from publisher.commands.common import run, show, with_settings
from publisher.output import line

if TYPE_CHECKING:
    from lexicons.configs import Config
    from publisher.publisher import Publisher
    from publisher.reembedding import Coverage
    from publisher.repo import Committed
    from publisher.settings import Settings


@click.command()
@click.option("--set", "change", flag_value="set", help="Declare the embedder's model as the space's.")
@click.option("--next", "change", flag_value="next", help="Announce the model to change to.")
@click.option("--promote", "change", flag_value="promote", help="Make the next model the model.")
@click.option("--cancel", "change", flag_value="cancel", help="Drop the next model.")
@click.option("--replace", is_flag=True, help="With --set: replace another model, losing its memories.")
@click.option("--force", is_flag=True, help="With --promote: though memories of one's own would be lost.")
@click.option("--document-prefix", metavar="TEXT", help="With --set: what is put before a memory.")
@click.option("--query-prefix", metavar="TEXT", help="With --set: what is put before a question.")
@with_settings
def model(
    settings: Settings,
    json_output: bool,
    change: str | None,
    replace: bool,
    force: bool,
    document_prefix: str | None,
    query_prefix: str | None,
) -> None:
    """Show the space's model, or change it as the space's authority.

    A change without a gap is: --next, let writers publish both vectors (--next-embedder) and give
    older memories theirs (`engram-publisher reembed`), then --promote.
    """
    if change != "set" and (replace or document_prefix is not None or query_prefix is not None):
        raise click.UsageError("--replace, --document-prefix and --query-prefix go with --set.")
    if force and change != "promote":
        raise click.UsageError("--force goes with --promote.")

    async def work(publisher: Publisher) -> tuple[str, Config, Committed | None, Coverage | None]:
        own = None
        match change:
            case "set":
                config, done = await publisher.set_model(
                    document_prefix=document_prefix, query_prefix=query_prefix, replace_model=replace
                )
            case "next":
                config, done = await publisher.next_model()
                own = await publisher.coverage()
            case "promote":
                config, done = await publisher.promote_model(force=force)
                own = await publisher.coverage()
            case "cancel":
                config, done = await publisher.cancel_model()
            case _:
                space = await publisher.space()
                return space.uri, space.declared(), None, None
        return (await publisher.space()).uri, config, done, own

    space, config, done, own = run(settings, work)
    document: dict[str, Any] = {"space": space, **config.to_record()}
    document.pop("$type", None)
    if done is not None:
        document |= done.to_json()
    if own is not None:
        document["own"] = {"memories": own.memories, "lacking": own.lacking}
    lines = [f"space: {space}", f"model: {config.model}"]
    lines += [f"next: {config.next}"] if config.next is not None else []
    lines += [f"document prefix: {config.document_prefix!r}"] if config.document_prefix else []
    lines += [f"query prefix: {config.query_prefix!r}"] if config.query_prefix else []
    if own is not None:
        lines += _consequences(own, announced=change == "next")
    show(json_output, document, *map(line, lines))


def _consequences(own: Coverage, *, announced: bool) -> list[str]:
    """Say what the change does to memories that are published already."""
    count = f"{own.lacking} of this account's {own.memories} memories"
    if announced:
        return [
            "at --promote, memories without a vector of the next model leave the space: "
            f"{count} have none now",
            "every author, for its own: set --next-embedder, and run `engram-publisher reembed`",
        ]
    return [
        f"memories without a vector of this model are no longer found: {count}; "
        "those of other authors are not counted",
        "an author brings its own back with `engram-publisher reembed`",
    ]
