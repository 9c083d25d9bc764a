"""garden.engram.searchMemories: the memories that answer a question, best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from appview.search.engine import Mode, SearchRequest
from appview.search.errors import ModelChanged
from appview.xrpc.errors import InvalidRequest, ModelMismatch, ModelNotHosted, NoModel, NotEnoughResources
from appview.xrpc.filters import filters
from appview.xrpc.query_embedder import EmbedderFailed
from appview.xrpc.spaces import readable
from appview.xrpc.views import hit_view
from lexicons.embeddings import decode_query_vector, decode_unit_vector
from lexicons.errors import InvalidRecord, UnusableVector
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.memory.store import SpaceStore
    from appview.search.engine import SearchResult
    from appview.xrpc.context import Call
    from appview.xrpc.query_embedder import QueryEmbedder

MODES: Final[tuple[str, ...]] = get_args(Mode)
TRIPLE: Final = ("vector", "model", "modelDigest")
ATTEMPTS: Final = 2  # a model is promoted once in months


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: words, a vector with its model, or both. `vector` is f16le, usable."""

    words: str | None
    vector: bytes | None
    model: ModelKey | None
    mode: Mode


async def handle(call: Call) -> dict[str, Any]:
    """Answer with the hits, why each was found, and the mode that ran."""
    question = read_question(call.parameters)
    narrowed = filters(call)
    async with readable(call) as space:
        for _ in range(ATTEMPTS):
            vector, model = await _vector(question, space.store, call.context.embedder)
            request = SearchRequest(
                text=question.words,
                vector=vector,
                mode=question.mode,
                limit=call.parameters["limit"],
                filters=narrowed,
                model=model,
            )
            try:
                return _answer(await call.context.searcher.search(space.store, request, space.scope))
            except ModelChanged:
                continue  # it was promoted in between: the new model decides what happens
    raise NotEnoughResources("the space's model keeps changing")


def _answer(result: SearchResult) -> dict[str, Any]:
    answer: dict[str, Any] = {"memories": [hit_view(hit) for hit in result.hits], "mode": result.mode}
    if result.approximate:
        answer["approximate"] = True
    return answer


def read_question(given: Mapping[str, Any]) -> Question:
    """Read what can be judged of a question without the space; raise `InvalidRequest`."""
    mode = given.get("mode", "hybrid")
    if mode not in MODES:
        raise InvalidRequest(f"mode: must be one of {', '.join(MODES)}")
    words: str | None = given.get("q")
    if words is not None and not words.strip():
        words = None
    named = [name for name in TRIPLE if name in given]
    if named and len(named) < len(TRIPLE):
        missing = ", ".join(name for name in TRIPLE if name not in given)
        raise InvalidRequest(f"vector, model and modelDigest go together: {missing} is missing")
    if words is None and not named:
        raise InvalidRequest(
            "q: is missing", hint="ask with q, with vector, model and modelDigest, or with both"
        )
    if words is None and mode == "keyword":
        raise InvalidRequest("q: is missing, and mode keyword searches for words")
    if not named:
        return Question(words, None, None, mode)
    vector, model = _read_vector(given["vector"], given["model"], given["modelDigest"])
    return Question(words, vector, model, mode)


def _read_vector(text: str, model: str, digest: str) -> tuple[bytes, ModelKey]:
    try:
        vector = decode_query_vector(text)
        key = ModelKey(model, digest, len(vector) // 2)
        decode_unit_vector(vector, key.dims)
    except (UnusableVector, InvalidRecord) as error:
        raise InvalidRequest(f"vector: {error}") from None
    return vector, key


async def _vector(
    question: Question, store: SpaceStore, embedder: QueryEmbedder
) -> tuple[bytes | None, ModelKey | None]:
    """Find the vector to search with, and its model: the caller's, or one made of the words, or none.

    Raises `NoModel`, `ModelMismatch`, `ModelNotHosted`, `NotEnoughResources`.
    """
    config, active = store.config, store.active
    if config is None or active is None:
        raise NoModel
    if question.mode == "keyword":
        return None, None
    if question.model is not None:
        if question.model != active:
            raise _mismatch(question.model, active, building=question.model == config.next)
        return question.vector, active
    if not await embedder.hosts(active):
        if question.mode == "vector":
            raise ModelNotHosted(
                f"the space's model is {active}, which this service does not run",
                hint="send vector, model and modelDigest, or use mode hybrid or keyword",
            )
        return None, None
    try:
        return await embedder.vector(active, config.query_prefix + (question.words or "")), active
    except EmbedderFailed:
        if question.mode == "vector":
            raise NotEnoughResources("the question could not be embedded in time") from None
        return None, None


def _mismatch(sent: ModelKey, active: ModelKey, *, building: bool) -> ModelMismatch:
    reason = f"the vector is of {sent}, the space is searched with {active}"
    if building:
        return ModelMismatch(
            reason, hint="the space is changing to your model; until then use the present one"
        )
    return ModelMismatch(reason, hint="embed the question with the space's model; getSpaceStatus names it")
