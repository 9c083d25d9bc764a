"""garden.engram.searchMemories: the memories that answer a question, best first."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, get_args

from appview.access.subjects import Anonymous, holder
from appview.memory.strength import SPACE
from appview.query_log import Asked
from appview.search.engine import Mode, SearchRequest
from appview.search.errors import ModelChanged, NoSuchMemory
from appview.search.signals import NAMES, PROFILES
from appview.xrpc.errors import (
    InvalidRequest,
    MemoryNotFound,
    ModelMismatch,
    ModelNotHosted,
    NoModel,
    NotEnoughResources,
)
from appview.xrpc.filters import filters, memory_uri, succession
from appview.xrpc.query_embedder import EmbedderFailed
from appview.xrpc.spaces import readable
from appview.xrpc.views import THOUSAND, hit_view, trace_view
from lexicons.embeddings import decode_query_vector, decode_unit_vector
from lexicons.errors import InvalidRecord, UnusableVector
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.memory.store import SpaceStore
    from appview.search.engine import SearchResult
    from appview.search.signals import Mix
    from appview.xrpc.context import Call
    from appview.xrpc.query_embedder import QueryEmbedder
    from appview.xrpc.spaces import Readable
    from lexicons.syntax import AtUri

MODES: Final[tuple[str, ...]] = get_args(Mode)
TRIPLE: Final = ("vector", "model", "modelDigest")
_THOUSANDTHS: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
ATTEMPTS: Final = 2  # a model is promoted once in months


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: words, a vector with its model, or both. `vector` is f16le, usable."""

    words: str | None
    vector: bytes | None
    model: ModelKey | None
    mode: Mode
    mix: Mix
    similar_to: AtUri | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked."""
        return self.words is None and self.vector is None and self.similar_to is None


async def handle(call: Call) -> dict[str, Any]:
    """Answer with the hits, why each was found, and the mode that ran."""
    question = read_question(call.parameters)
    async with readable(call) as space:
        return answer_of(await run(call, question, space))


async def run(call: Call, question: Question, space: Readable) -> SearchResult:
    """Search the space of a call, or, where nothing is asked, find its strongest memories."""
    given, searcher = call.parameters, call.context.searcher
    request = SearchRequest(
        text=question.words,
        mode=question.mode,
        limit=given["limit"],
        filters=filters(call),
        similar_to=question.similar_to,
        mix=question.mix,
        subject=SPACE if isinstance(call.subject, Anonymous) else holder(call.subject),
        succession=succession(call),
        collapse=given.get("collapse", False),
        explain=given.get("explain", False),
    )
    if question.is_empty:
        return await searcher.strongest(space.store, request, space.scope)
    for _ in range(ATTEMPTS):
        vector, model = await _vector(question, space.store, call.context.embedder)
        asked = replace(request, vector=vector, model=model)
        try:
            result = await searcher.search(space.store, asked, space.scope)
        except ModelChanged:
            continue  # it was promoted in between: the new model decides what happens
        except NoSuchMemory:
            raise MemoryNotFound from None
        _keep(call, asked)
        return result
    raise NotEnoughResources("the space's model keeps changing")


def _keep(call: Call, request: SearchRequest) -> None:
    """Keep the question, where the operator wishes it and it has words."""
    kept = call.context.query_log
    if request.text is None or request.similar_to is not None or not kept.keeps(call.space):
        return
    kept.note(
        call.space,
        Asked(
            at=call.context.clock(),
            text=request.text,
            mode=request.mode,
            vector=request.vector,
            model=request.model if request.vector is not None else None,
            author=request.filters.author,
            tags=request.filters.tags,
            since=request.filters.since,
            include_superseded=request.succession.shown,
            subject=str(call.subject) if kept.with_subjects else None,
        ),
    )


def answer_of(result: SearchResult) -> dict[str, Any]:
    """Show a result."""
    answer: dict[str, Any] = {"memories": [hit_view(hit) for hit in result.hits], "mode": result.mode}
    if result.approximate:
        answer["approximate"] = True
    if result.trace is not None:
        answer["trace"] = trace_view(result.trace)
    return answer


def read_question(given: Mapping[str, Any], *, may_be_empty: bool = False) -> Question:
    """Read what can be judged of a question without the space; raise `InvalidRequest`."""
    mix = read_mix(given)
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
    similar_to = _read_similar_to(given.get("similarTo"), with_vector=bool(named))
    if words is None and not named and similar_to is None:
        if may_be_empty:
            return Question(None, None, None, mode, mix)
        raise InvalidRequest(
            "q: is missing", hint="ask with q, with similarTo or vector, model and modelDigest, or with both"
        )
    if words is None and mode == "keyword":
        raise InvalidRequest("q: is missing, and mode keyword searches for words")
    if not named:
        return Question(words, None, None, mode, mix, similar_to)
    vector, model = _read_vector(given["vector"], given["model"], given["modelDigest"])
    return Question(words, vector, model, mode, mix)


def read_mix(given: Mapping[str, Any]) -> Mix:
    """Read the profile and the weights that replace some of it; raise `InvalidRequest`."""
    profile = given.get("profile", "relevance")
    if profile not in PROFILES:
        raise InvalidRequest(f"profile: must be one of {', '.join(PROFILES)}")
    weights: dict[str, float] = {}
    for text in given.get("weights", ()):
        name, _, value = text.partition("=")
        if name not in NAMES or not _THOUSANDTHS.fullmatch(value) or int(value) > THOUSAND:
            raise InvalidRequest(
                f"weights: {text[:40]!r} is not name=thousandths", hint=f"names: {', '.join(NAMES)}"
            )
        if name in weights:
            raise InvalidRequest(f"weights: {name} is given twice")
        weights[name] = int(value) / THOUSAND
    try:
        return PROFILES[profile].given(weights)
    except ValueError:
        raise InvalidRequest("weights: all are 0") from None


def _read_similar_to(uri: str | None, *, with_vector: bool) -> AtUri | None:
    if uri is None:
        return None
    if with_vector:
        raise InvalidRequest("similarTo and vector exclude each other")
    return memory_uri("similarTo", uri)


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
    if question.mode == "keyword" or question.similar_to is not None:
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
