"""`engram-appview search`: ask a space in the data folder, or a service by its URL, with the same numbers."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, Final

import click

from appview.cli.evaluation import API_KEY_VARIABLE
from appview.cli.options import opened, run_async, settings_options, space_argument
from appview.cli.output import json_option, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from appview.access.subjects import Subject
    from appview.settings import Settings
    from lexicons.spaces import SpaceUri

COMPONENTS: Final = ("keyword", "vector", "context", "recency", "strength", "importance", "links")
MAX_TOKEN_CHARACTERS: Final = 8_192  # ours; a service-auth token is under 2 kB
SHOWN_CHARACTERS: Final = 160  # of a memory's text


def _read_subject(_context: click.Context, parameter: click.Parameter, value: str | None) -> Subject | None:
    from appview.access.subjects import InvalidName, parse_subject

    if value is None:
        return None
    try:
        return parse_subject(value)
    except InvalidName as error:
        raise click.BadParameter(f"{error}; {error.hint}", param=parameter) from None


@click.command()
@space_argument
@click.argument("query")
@click.option(
    "--as",
    "subject",
    metavar="SUBJECT",
    callback=_read_subject,
    help="Whose sight to search with: a DID, token:NAME or anonymous (default).",
)
@click.option("--url", metavar="URL", help="Ask the service at this address instead of the data folder.")
@click.option(
    "--token-file",
    type=click.File("r", encoding="utf-8"),
    help="With --url: holds a token that says who asks; - is standard input.",
)
@click.option("--mode", type=click.Choice(["hybrid", "vector", "keyword"]), help="Which arms search.")
@click.option("--limit", type=click.IntRange(1, 50), default=10, show_default=True, help="How many at most.")
@click.option(
    "--profile", type=click.Choice(["relevance", "recent", "balanced"]), help="What counts beside relevance."
)
@click.option(
    "--weight", "weights", metavar="NAME=N", multiple=True, help="Replace a weight, in thousandths."
)
@click.option("--collapse", is_flag=True, help="Show memories that say the same as one.")
@click.option("--include-superseded", is_flag=True, help="Also memories whose place another one has taken.")
@click.option("--explain", is_flag=True, help="Tell what happened to the question.")
@json_option
@settings_options("data", "embedder")
def search(
    settings: Settings,
    /,
    space: SpaceUri,
    query: str,
    subject: Subject | None,
    url: str | None,
    token_file: IO[str] | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Search a space, and say of each answer why it is there. Nothing is made stronger by it."""
    if url is not None and subject is not None:
        raise click.UsageError("--as is for the data folder; a service is told who asks with --token-file")
    if url is None and token_file is not None:
        raise click.UsageError("--token-file is for --url; --as says whose sight to search with here")
    token = None if token_file is None else token_file.read(MAX_TOKEN_CHARACTERS).strip()
    parameters = {
        "space": str(space),
        "q": query,
        "limit": asked["limit"],
        "collapse": asked["collapse"],
        "includeSuperseded": asked["include_superseded"],
        "explain": asked["explain"],
        **{name: asked[name] for name in ("mode", "profile") if asked[name] is not None},
        **({"weights": list(asked["weights"])} if asked["weights"] else {}),
    }

    async def work() -> dict[str, Any]:
        from appview.access.subjects import Anonymous
        from appview.asking import ask, ask_service

        if url is not None:
            key = os.environ.get(API_KEY_VARIABLE)
            embedder = settings.embedder
            return await ask_service(url, parameters, token=token, embedder=embedder, api_key=key)
        async with opened(settings) as (control, access):
            return await ask(settings, control, access, subject or Anonymous(), parameters)

    document = run_async(work())
    show(document, _lines(document), as_json=as_json)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    mode = f"mode {document['mode']}" + (", approximate" if document.get("approximate") else "")
    yield f"{len(document['memories'])} memories, {mode}"
    for number, memory in enumerate(document["memories"], start=1):
        match = memory["match"]
        text = " ".join(memory["text"].split())
        yield f"{number}. {text[:SHOWN_CHARACTERS]}{'…' if len(text) > SHOWN_CHARACTERS else ''}"
        parts = [
            f"{name} {_fraction(match[name]['contribution'])}"
            f" ({_fraction(match[name]['raw'])}, normalised {_fraction(match[name]['normalised'])},"
            f" weight {_fraction(match[name]['weight'])})"
            for name in COMPONENTS
            if name in match
        ]
        yield f"   {_fraction(match['score'])} = {' + '.join(parts) or '0'}"
        if "trace" in document:
            yield f"   found by {', '.join(match.get('foundBy', ())) or 'what stands beside it'}"
            without = [f"{each['component']} ({each['reason']})" for each in match.get("missing", ())]
            if without:
                yield f"   without {', '.join(without)}"
        if match["words"]:
            yield f"   words: {', '.join(match['words'])}"
        if match.get("alike"):
            yield f"   {match['alike']} more say the same"
        yield f"   {memory['uri']}{' (superseded)' if memory.get('superseded') else ''}"
    if "trace" in document:
        yield from _trace_lines(document["trace"])


def _trace_lines(trace: Mapping[str, Any]) -> Iterator[str]:
    yield f"searched {trace['searched']} of {trace['corpus']} memories, {trace['superseded']} superseded"
    arms = [f"{trace[arm]} by {arm}" for arm in ("keyword", "vector") if arm in trace]
    yield f"candidates: {trace['candidates']}" + (f" ({', '.join(arms)})" if arms else "")
    weights = [
        f"{item['component']} {_fraction(item['weight'])}" for item in trace["weights"] if item["weight"]
    ]
    yield "weights: " + (", ".join(weights) or "none")
    terms = [
        f"{term['term']} in {term['memories']}{'' if term['counted'] else ' (too common)'}"
        for term in trace["terms"]
    ]
    yield "words: " + (", ".join(terms) or "none found")
    for name in ("phrases", "excluded"):
        if trace[name]:
            yield f"{name}: {', '.join(trace[name])}"


def _fraction(thousandths: int) -> str:
    return f"{thousandths / 1000:.3f}"
