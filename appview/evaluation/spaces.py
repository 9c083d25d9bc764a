"""Spaces to ask: those of a judged set, indexed by the real store in new files, or one that is there."""

from __future__ import annotations

from base64 import b32encode
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from appview.evaluation.errors import EvaluationError
from appview.memory.store import SpaceStore
from appview.memory.values import Put, RepoUpdate
from lexicons.embeddings import Embedding
from lexicons.ids import MEMORY
from lexicons.memories import Memory, text_to_embed
from lexicons.spaces import SpaceUri
from lexicons.syntax import AtUri, Did, Tid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from appview.evaluation.judged import JudgedMemory
    from appview.evaluation.vectors import VectorFile
    from appview.memory.analyser import Analyser
    from lexicons.configs import Config

FIRST_TID_MICROS: Final = 1_000_000  # record keys count up from here, a second a line
BATCH: Final = 1_000  # memories a commit
CONFIG_CREATED_AT: Final = "2025-01-01T00:00:00.000Z"


@dataclass(frozen=True, slots=True)
class AskedSpace:
    """An open space. `names` gives the id of each memory of a judged set by its URI, none where the set has
    URIs itself."""

    store: SpaceStore
    query_prefix: str
    names: Mapping[str, str]


def document_text(memory: JudgedMemory, prefix: str) -> str:
    """Give what the vector of a memory is made from."""
    return text_to_embed(prefix, memory.text, memory.tags)


@asynccontextmanager
async def indexed(
    memories: Sequence[JudgedMemory],
    vectors: VectorFile,
    config: Config,
    folder: Path,
    executor: Executor,
    clock: Callable[[], int],
    analyser: Analyser,
) -> AsyncIterator[AskedSpace]:
    """Index the memories of one space in a new file; their order is the order of writing."""
    name = memories[0].space
    store = await SpaceStore.open(
        folder / f"{sha256(name.encode()).hexdigest()}.db",
        SpaceUri.public(_did("space", name)),
        executor,
        clock,
        analyser=analyser,
    )
    try:
        await store.configure(config)
        names: dict[str, str] = {}
        for start in range(0, len(memories), BATCH):
            puts: dict[Did, list[Put]] = {}
            for number, memory in enumerate(memories[start : start + BATCH], start):
                author = _did("author", memory.author)
                rkey = str(Tid.from_micros(FIRST_TID_MICROS * (number + 1)))
                names[AtUri.of_record(author, MEMORY, rkey)] = memory.id
                puts.setdefault(author, []).append(_put(rkey, memory, vectors, config))
            rev = str(Tid.from_micros(FIRST_TID_MICROS * (start + BATCH)))
            await store.apply([RepoUpdate(author, rev, tuple(changes)) for author, changes in puts.items()])
        yield AskedSpace(store, config.query_prefix, names)
    finally:
        await store.close()


@asynccontextmanager
async def existing(
    path: Path, space: SpaceUri, executor: Executor, clock: Callable[[], int], analyser: Analyser
) -> AsyncIterator[AskedSpace]:
    """Open a space that is there. Raises `EvaluationError` where it has no file or no model."""
    if not path.is_file():  # noqa: ASYNC240 - once, before anything runs
        raise EvaluationError(f"{space} has no memories here", hint="see engram-appview space list")
    store = await SpaceStore.open(path, space, executor, clock, analyser=analyser)
    try:
        if store.config is None:
            raise EvaluationError(f"{space} has no config record, so no model to search with")
        yield AskedSpace(store, store.config.query_prefix, {})
    finally:
        await store.close()


def _put(rkey: str, memory: JudgedMemory, vectors: VectorFile, config: Config) -> Put:
    vector = vectors.find("document", document_text(memory, config.document_prefix))
    record = Memory(
        memory.text,
        memory.created_at,
        Embedding(vectors.model, vector),
        tags=memory.tags,
        source=memory.source,
    )
    return Put(rkey, f"bafy{sha256(f'{rkey}{memory.text}'.encode()).hexdigest()[:32]}", record)


def _did(role: str, name: str) -> Did:
    digest = b32encode(sha256(f"{role} {name}".encode()).digest()).decode().lower()
    return Did(f"did:plc:{digest[:24]}")
