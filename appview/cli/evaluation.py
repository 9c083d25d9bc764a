"""`engram-appview eval`: how well a judged set's questions are answered, by kind and by mode."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from appview.cli.options import run_async, settings_options
from appview.cli.output import json_option, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from appview.evaluation.evaluation import Evaluation
    from appview.evaluation.judged import JudgedQuery
    from appview.evaluation.parts import Part
    from appview.evaluation.runner import Configuration
    from appview.settings import Settings
    from embedders.protocol import Embedder
    from lexicons.spaces import SpaceUri

API_KEY_VARIABLE: Final = "ENGRAM_EMBEDDER_API_KEY"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("eval")
@click.argument("memories", type=_FILE, required=False)
@click.argument("queries", type=_FILE, required=False)
@click.option(
    "--embedder",
    metavar="SPEC",
    default="hashing-1024",
    show_default=True,
    help="The model, as hashing-<dims>, fastembed:<model or folder> or openai:<base URL>#<model>. The key of"
    f" an endpoint comes from {API_KEY_VARIABLE}.",
)
@click.option("--document-prefix", metavar="TEXT", help="What the model wants before a memory.")
@click.option("--query-prefix", metavar="TEXT", help="What the model wants before a question.")
@click.option(
    "--settings",
    "configured",
    metavar="SETTINGS",
    default="",
    help="What to measure, as keyword=0.5,vector=0.5,k1=1.2; what is not named keeps its default.",
)
@click.option("--compare", metavar="SETTINGS", help="Measure this too, and compare question by question.")
@click.option(
    "--part",
    type=click.Choice(["all", "tune", "rest"]),
    default="all",
    show_default=True,
    help="Ask all questions, or those to tune on, or the rest.",
)
@click.option("--space", metavar="SPACE", help="Ask a space of the data folder; the only file is QUERIES.")
@click.option(
    "--vectors",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where vectors are kept between runs. [default: the platform's cache folder]",
)
@json_option
@settings_options("data")
def evaluate(
    settings: Settings,
    /,
    memories: Path | None,
    queries: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Index MEMORIES in a temporary folder, ask QUERIES, and measure the answers.

    Both are files of JSON lines. With --space the questions are asked of a space that is there, and relevant
    memories are named by their URIs.
    """
    from appview.evaluation.report import document, lines

    with warnings_alone():
        evaluation = run_async(_work(settings, memories, queries, options, quiet=as_json))
    written = document(evaluation, options["embedder"], options["part"])
    show(written, lines(written), as_json=as_json)


@contextmanager
def warnings_alone() -> Iterator[None]:
    """Keep what a server would log of its files off the output; warnings go to stderr."""
    import structlog

    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)


async def _work(
    settings: Settings, memories: Path | None, queries: Path | None, options: dict[str, Any], *, quiet: bool
) -> Evaluation:
    from appview.evaluation.errors import EvaluationError
    from appview.evaluation.evaluation import Prefixes, evaluate_set, evaluate_space
    from appview.evaluation.judged import read_judged, read_memories, read_queries
    from appview.evaluation.parts import part_of
    from embedders.errors import EmbedderError

    configurations = [_configuration("settings", options["configured"])]
    if options["compare"] is not None:
        configurations.append(_configuration("compare", options["compare"]))
    folder = options["vectors"] or _cache_folder()
    part: Part = options["part"]
    embedder = _embedder(options["embedder"])
    try:
        if options["space"] is not None:
            space, file = _space(options["space"]), queries or memories
            if file is None or (memories and queries):
                raise click.UsageError("with --space name one file, QUERIES")
            judged = read_judged(file, space)
            if judged.unjudged or judged.without_answer:
                click.echo(
                    f"left out: {judged.unjudged} questions that nobody has judged,"
                    f" {judged.without_answer} to which no answer was right",
                    err=True,
                )
            asked = _some(part_of(judged.queries, part))
            from appview.folder import space_file_name

            path = settings.spaces_folder / space_file_name(space)
            return await evaluate_space(path, space, asked, embedder, folder, configurations)
        if memories is None or queries is None:
            raise click.UsageError("name two files, MEMORIES and QUERIES")
        return await evaluate_set(
            read_memories(memories),
            _some(part_of(read_queries(queries), part)),
            embedder,
            folder,
            configurations,
            Prefixes(options["document_prefix"], options["query_prefix"]),
            progress=lambda line: None if quiet else click.echo(line, err=True),
        )
    except EmbedderError as error:
        raise EvaluationError(str(error), hint=error.hint) from error
    finally:
        await embedder.close()


def _configuration(name: str, text: str) -> Configuration:
    from appview.evaluation.runner import Configuration
    from appview.search.tuning import read_tuning

    parts = [part.strip() for part in text.split(",") if part.strip()]
    languages = [part.removeprefix("language=") for part in parts if part.startswith("language=")]
    try:
        tuning = read_tuning(",".join(part for part in parts if not part.startswith("language=")))
    except ValueError as error:
        raise click.UsageError(f"--{name}: {error}") from None
    return Configuration(name, tuning, languages[-1] if languages else "english")


def _embedder(spec: str) -> Embedder:
    import os

    from appview.errors import ConfigurationError
    from embedders.errors import EmbedderError
    from embedders.select import open_embedder

    try:
        return open_embedder(spec, api_key=os.environ.get(API_KEY_VARIABLE))
    except EmbedderError as error:
        raise ConfigurationError(str(error), hint=error.hint) from error


def _some(queries: list[JudgedQuery]) -> list[JudgedQuery]:
    if not queries:
        raise click.UsageError("no question is left to ask")
    return queries


def _space(text: str) -> SpaceUri:
    from lexicons.errors import InvalidSyntax
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

    try:
        return SpaceUri.public(Did(text)) if text.startswith("did:") else SpaceUri(text)
    except InvalidSyntax as error:
        raise click.UsageError(f"--space: {error}") from None


def _cache_folder() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("garden-engram", appauthor=False) / "evaluation"
