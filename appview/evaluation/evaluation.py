"""An evaluation from judged sets to outcomes: embed what is new, index in a folder that goes, ask."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appview.clock import now
from appview.evaluation.errors import EvaluationError
from appview.evaluation.runner import Configuration, Outcome, ask
from appview.evaluation.spaces import CONFIG_CREATED_AT, AskedSpace, document_text, existing, indexed
from appview.evaluation.vectors import Brought, Embedded, VectorFile
from appview.memory.scope import EVERYTHING
from appview.search.analysis import ANALYSIS, TextAnalysis
from appview.search.derived import ViewCache
from lexicons.configs import Config
from lexicons.syntax import AtUri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from appview.evaluation.judged import JudgedMemory, JudgedQuery
    from appview.memory.store import SpaceStore
    from embedders.protocol import Embedder
    from lexicons.models import ModelKey
    from lexicons.spaces import SpaceUri

THREADS: Final = 2  # an evaluation asks one question at a time


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of it: outcomes by configuration, in the order of the questions, and what they are of.

    `unknown` counts judgements of memories that are not there: nothing can find them, and they count.
    """

    model: ModelKey
    outcomes: Mapping[Configuration, Sequence[Outcome]]
    spaces: int
    memories: int
    unknown: int
    brought: bool = False  # whether every question brought its vector


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What a model wants before a text; None: what a config record for it would say."""

    document: str | None = None
    query: str | None = None


async def evaluate_set(
    memories: Sequence[JudgedMemory],
    queries: Sequence[JudgedQuery],
    embedder: Embedder,
    vector_folder: Path,
    configurations: Sequence[Configuration],
    prefixes: Prefixes,
    progress: Callable[[str], None],
) -> Evaluation:
    """Index a judged set in a temporary folder and ask its questions. Raises `EvaluationError`."""
    analyses = {each.language: _analysis(each.language) for each in configurations}
    by_space: dict[str, list[JudgedMemory]] = {}
    for memory in memories:
        by_space.setdefault(memory.space, []).append(memory)
    asked = {query.space for query in queries}
    if missing := sorted(asked - set(by_space)):
        raise EvaluationError(f"questions are asked of {missing[0]!r}, which has no memories")
    model = await embedder.key()
    config = Config.declare(
        model,
        created_at=CONFIG_CREATED_AT,
        document_prefix=prefixes.document,
        query_prefix=prefixes.query,
    )
    vectors = VectorFile.open(vector_folder, model)
    wanted = [memory for space in sorted(asked) for memory in by_space[space]]
    progress(f"embedding {len(wanted)} memories and {len(queries)} questions with {model}, where not known")
    await vectors.fill(
        embedder, "document", [document_text(memory, config.document_prefix) for memory in wanted]
    )
    await vectors.fill(embedder, "question", [config.query_prefix + query.text for query in queries])
    outcomes: dict[Configuration, list[Outcome]] = {configuration: [] for configuration in configurations}
    known = {(memory.space, memory.id) for memory in wanted}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(THREADS) as executor:
        for language, analysis in analyses.items():
            place = Path(folder) / language
            place.mkdir()
            for name in sorted(asked):
                async with indexed(by_space[name], vectors, config, place, executor, now, analysis) as space:
                    own = [query for query in queries if query.space == name]
                    progress(f"asking {len(own)} questions of {name} ({language})")
                    cache, asking = ViewCache(analysis), Embedded(vectors, config.query_prefix)
                    for each in configurations:
                        if each.language == language:
                            outcomes[each] += await ask(space, own, asking, each.tuning, analysis, cache)
    return Evaluation(
        model,
        outcomes,
        len(asked),
        len(wanted),
        sum((query.space, id_) not in known for query in queries for id_ in query.relevant),
    )


async def evaluate_space(
    path: Path,
    space: SpaceUri,
    queries: Sequence[JudgedQuery],
    embedder: Embedder,
    vector_folder: Path,
    configurations: Sequence[Configuration],
) -> Evaluation:
    """Ask judged questions of a space that is there. Raises `EvaluationError` and `StoreError`."""
    if any(each.language != Configuration("").language for each in configurations):
        raise EvaluationError("a space is analysed in its own language", hint="leave `language` out")
    with ThreadPoolExecutor(THREADS) as executor:
        async with existing(path, space, executor, now, ANALYSIS) as opened:
            vectors = await _vectors_for(opened, queries, embedder, vector_folder)
            cache = ViewCache(ANALYSIS)
            outcomes = {
                each: await ask(opened, queries, vectors, each.tuning, ANALYSIS, cache)
                for each in configurations
            }
            count, unknown = await _held(opened.store, queries)
            return Evaluation(
                vectors.model, outcomes, 1, count, unknown, brought=vectors.others is None and bool(queries)
            )


async def _vectors_for(
    opened: AskedSpace, queries: Sequence[JudgedQuery], embedder: Embedder, folder: Path
) -> Brought:
    """Take the vectors that questions bring and embed the others; raise `EvaluationError`."""
    active = opened.store.active
    if active is None:
        raise EvaluationError("the space has no model")
    missing = [query for query in queries if query.vector is None or query.model != active]
    if not missing and queries:
        return Brought(active, None)
    model = await embedder.key()
    if active != model:
        raise EvaluationError(
            f"the space is searched with {active}, the embedder is {model}"
            f" ({len(missing)} of {len(queries)} questions bring no vector of the space's model)",
            hint="name the space's own model with --embedder",
        )
    file = VectorFile.open(folder, model)
    await file.fill(embedder, "question", [opened.query_prefix + query.text for query in missing])
    return Brought(active, Embedded(file, opened.query_prefix))


async def _held(store: SpaceStore, queries: Sequence[JudgedQuery]) -> tuple[int, int]:
    """Count the memories of a space, and the judgements of memories that it does not hold."""
    status = await store.status(EVERYTHING)
    unknown = 0
    for query in queries:
        for uri in query.relevant:
            if not AtUri.is_valid(uri):
                raise EvaluationError(f"{query.id}: {uri!r} is no AT URI of a record")
            unknown += await store.get(AtUri(uri), EVERYTHING) is None
    return status.memories, unknown


def _analysis(language: str) -> TextAnalysis:
    try:
        return TextAnalysis(language)
    except ValueError as error:
        raise EvaluationError(str(error)) from None
