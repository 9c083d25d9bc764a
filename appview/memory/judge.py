"""Whether a record's vectors fit the config of a space. Pure.

The vector for a model is `embedding` where it was made with that model, else `nextEmbedding` where that
was, else there is none. A record fits when it has a usable vector for the config's model. A vector for
the `next` model is taken along where there is one, and never decides. Without a config nothing fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.memory.vectors import unit_vectors
from lexicons.errors import UnusableVector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.memory.values import SkipReason
    from lexicons.embeddings import Embedding
    from lexicons.memories import Memory
    from lexicons.models import ModelKey


@dataclass(frozen=True, slots=True)
class Fits:
    """A record to index: its unit vectors (float32) for the active model and for the next one."""

    vector: bytes
    next_vector: bytes | None


@dataclass(frozen=True, slots=True)
class Unfit:
    """A record to leave out until the config changes. `detail` may quote it, `brief` does not."""

    reason: SkipReason
    detail: str
    brief: str = ""


Verdict = Fits | Unfit
_NO_CONFIG: Final = Unfit("no-config", "the space has no config")


def judge(
    memories: Sequence[Memory], active: ModelKey | None, building: ModelKey | None = None
) -> list[Verdict]:
    """Judge memories against the models of a config, in one go: a verdict for each."""
    if active is None:
        return [_NO_CONFIG] * len(memories)
    vectors = _vectors(memories, active)
    following: Sequence[bytes | None] = _vectors(memories, building) if building else [None] * len(memories)
    return [
        _unfit(memory, active) if vector is None else Fits(vector, next_vector)
        for memory, vector, next_vector in zip(memories, vectors, following, strict=True)
    ]


def embedding_for(memory: Memory, key: ModelKey) -> Embedding | None:
    """Choose the embedding that was made with a model."""
    if memory.embedding.key == key:
        return memory.embedding
    if memory.next_embedding is not None and memory.next_embedding.key == key:
        return memory.next_embedding
    return None


def _vectors(memories: Sequence[Memory], key: ModelKey) -> list[bytes | None]:
    result: list[bytes | None] = [None] * len(memories)
    chosen = [
        (position, embedding)
        for position, memory in enumerate(memories)
        if (embedding := embedding_for(memory, key)) is not None
    ]
    vectors = unit_vectors([embedding for _, embedding in chosen], key.dims)
    for (position, _), vector in zip(chosen, vectors, strict=True):
        result[position] = vector
    return result


def _unfit(memory: Memory, key: ModelKey) -> Unfit:
    embedding = embedding_for(memory, key)
    if embedding is None:
        return Unfit("model", f"made with {memory.embedding.key}", "embedding.model: not the space's")
    try:
        embedding.unit_vector()
    except UnusableVector as error:
        return Unfit("vector", str(error), f"embedding.vector: {error.summary}")
    return Unfit("vector", "the vector has no length that float32 can hold")
