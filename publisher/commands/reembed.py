"""reembed: bring the account's own memories to the space's models."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from publisher.commands.common import run, show, with_settings
from publisher.errors import PartlyDone, PublisherError, Refused
from publisher.output import line

if TYPE_CHECKING:
    from publisher.publisher import Publisher
    from publisher.reembedding import Reembedded
    from publisher.settings import Settings

PROGRESS_EVERY = 100  # memories


@click.command()
@with_settings
def reembed(settings: Settings, json_output: bool) -> None:
    """Give the account's own memories the vectors that the space asks for and they lack.

    During a change of model that is one of the next model (--next-embedder) beside the present one's. What
    has every vector is left alone: run it again after an interruption.
    """
    counts: Counter[str] = Counter()
    outcomes: list[dict[str, Any]] = []
    errors: list[PublisherError] = []

    def report(outcome: Reembedded) -> None:
        counts[outcome.state] += 1
        document: dict[str, Any] = {"uri": outcome.uri, "state": outcome.state}
        if outcome.committed is not None:
            document |= outcome.committed.to_json()
        if outcome.error is not None:
            document["error"] = outcome.error.to_json()
            errors.append(outcome.error)
            if not json_output:
                click.echo(line(f"{outcome.uri}: {outcome.error.message}"), err=True)
        outcomes.append(document)
        if not json_output and len(outcomes) % PROGRESS_EVERY == 0:
            click.echo(f"{len(outcomes)} memories seen, {counts['done']} re-embedded", err=True)

    async def work(publisher: Publisher) -> None:
        async for outcome in publisher.reembed():
            report(outcome)

    try:
        run(settings, work)
    except PublisherError as error:  # between two memories, such as a page that cannot be read
        errors.append(error)
    finally:  # whatever ends it, what has been done is told
        states = {state: counts[state] for state in ("done", "already", "elsewhere", "unfit", "failed")}
        show(
            json_output,
            {**states, "outcomes": outcomes},
            f"{counts['done']} re-embedded, {counts['already']} had every vector, {counts['failed']} failed",
            *([f"{counts['elsewhere']} are kept to other spaces"] if counts["elsewhere"] else []),
            *([f"{counts['unfit']} are shown by no space"] if counts["unfit"] else []),
        )
    if errors:
        raise _together(errors, counts)


def _together(errors: list[PublisherError], counts: Counter[str]) -> PublisherError:
    """Make one error of several: `PartlyDone` unless nothing was done, then what all have in common."""
    if counts["done"]:
        return PartlyDone(
            f"{counts['done']} memories are re-embedded, {counts['failed'] or 'others'} are not: "
            f"{errors[-1].message}",
            "run it again: what is done is left alone",
        )
    if len({error.exit_code for error in errors}) == 1:
        return errors[0]
    return Refused(f"none of {len(errors)} memories is re-embedded", "the outcomes say why")
