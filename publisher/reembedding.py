"""Bring an account's own memories to a space's models: each ends with a vector of the model and of the next.

Memories that have them already are left alone, so that a run which was cut short is simply run again. Vectors
that are still good are kept; only missing ones are made. A record is never written over a change unseen: a
batch names the commit that its records were read at (`swapCommit`), a single record its own version.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from lexicons.errors import InvalidRecord, UnusableVector
from lexicons.ids import MEMORY
from lexicons.memories import Memory, is_blank, read_tags, text_to_embed
from lexicons.syntax import AtUri
from publisher.batches import Prepared, commits, most_now
from publisher.errors import Conflict, PublisherError, RefusedByPds
from publisher.writing import is_final, not_tried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from lexicons.configs import Config
    from lexicons.embeddings import Embedding
    from lexicons.models import ModelKey
    from publisher.repo import Committed, Record, Repo
    from publisher.spaces import Space
    from publisher.vectors import Vectoriser

PAGE: Final = 100  # com.atproto.repo.listRecords, records a page

State = Literal["done", "already", "elsewhere", "unfit", "failed"]


@dataclass(frozen=True, slots=True)
class Reembedded:
    """What became of one memory.

    `done`: written anew, as `committed`. `already`: it had every vector. `elsewhere`: its tags keep it to
    another space. `unfit`: no space shows it, it is no memory or blank. `failed`: `error` says why.
    """

    uri: str
    state: State
    committed: Committed | None = None
    error: PublisherError | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many memories of the account are for the space, and how many lack a vector of `model`."""

    model: ModelKey
    memories: int
    lacking: int


@dataclass(frozen=True, slots=True)
class _Pending:
    record: Record
    memory: Memory


class Reembedder:
    """Walks through one repo for one space."""

    def __init__(self, repo: Repo, vectoriser: Vectoriser, space: Space) -> None:
        self._repo = repo
        self._vectoriser = vectoriser
        self._space = space
        self._together = True

    async def coverage(self, model: ModelKey) -> Coverage:
        """Count what lacks a vector of a model."""
        memories = lacking = 0
        cursor: str | None = None
        while True:
            records, cursor = await self._repo.list(MEMORY, limit=PAGE, cursor=cursor)
            for record in records:
                found = sort(record.value, self._space.authority.did)
                if isinstance(found, Memory):
                    memories += 1
                    lacking += embedding_for(found, model) is None
            if cursor is None or not records:
                return Coverage(model, memories, lacking)

    async def run(self) -> AsyncIterator[list[Reembedded]]:
        """Go through every memory; give the outcomes page by page.

        What makes every further memory fail ends the run after the page that met it.
        """
        config = self._space.declared()
        cursor: str | None = None
        while True:
            head = await self._repo.head()  # before the records are read: what changes after it is noticed
            records, cursor = await self._repo.list(MEMORY, limit=PAGE, cursor=cursor)
            outcomes = await self._page(records, config, head)
            yield outcomes
            if cursor is None or not records or any(is_final(outcome.error) for outcome in outcomes):
                return

    async def _page(self, records: Sequence[Record], config: Config, head: str) -> list[Reembedded]:
        """Write anew what lacks a vector; give the outcomes in the order of the records."""
        outcomes: dict[str, Reembedded] = {}
        pending: list[_Pending] = []
        for record in records:
            found = sort(record.value, self._space.authority.did)
            if not isinstance(found, Memory):
                outcomes[record.uri] = Reembedded(record.uri, found)
            elif missing(found, config):
                pending.append(_Pending(record, found))
            else:
                outcomes[record.uri] = Reembedded(record.uri, "already")
        if pending:
            for outcome in await self._rewrite(pending, config, head):
                outcomes[outcome.uri] = outcome
        return [outcomes[record.uri] for record in records]

    async def _rewrite(self, pending: Sequence[_Pending], config: Config, head: str) -> list[Reembedded]:
        try:
            values = await self._values(pending, config)
        except PublisherError as error:
            return [Reembedded(each.record.uri, "failed", error=error) for each in pending]
        waiting = [
            Prepared(index, str(AtUri(each.record.uri).rkey), value)
            for index, (each, value) in enumerate(zip(pending, values, strict=True))
        ]
        outcomes: list[Reembedded] = []
        at: str | None = head
        for batch in commits(waiting, most=most_now(self._repo.budget, time.time())):
            pairs = [(pending[each.index].record, each) for each in batch]
            made, at = await self._write(pairs, at)
            outcomes += made
            over = next((outcome.error for outcome in made if is_final(outcome.error)), None)
            if over is not None:
                rest = pending[len(outcomes) :]
                return outcomes + [
                    Reembedded(each.record.uri, "failed", error=not_tried(over)) for each in rest
                ]
        return outcomes

    async def _write(
        self, batch: Sequence[tuple[Record, Prepared]], at: str | None
    ) -> tuple[list[Reembedded], str | None]:
        """Write a batch; give the outcomes and the commit that the records not yet written are known at.

        None: others have written since, and each record names its own version from there on.
        """
        if at is not None and self._together:
            changes = [(each.rkey, each.value) for _, each in batch]
            try:
                made, following = await self._repo.update_many(MEMORY, changes, at=at)
            except Conflict:
                pass
            except RefusedByPds as error:
                if error.status == 413 and len(batch) > 1:
                    half = len(batch) // 2
                    first, at = await self._write(batch[:half], at)
                    second, at = await self._write(batch[half:], at)
                    return first + second, at
                self._together = error.status not in (404, 501)
            except PublisherError as error:
                return [Reembedded(record.uri, "failed", error=error) for record, _ in batch], None
            else:
                done = zip(batch, made, strict=True)
                return [Reembedded(record.uri, "done", each) for (record, _), each in done], following
        outcomes: list[Reembedded] = []
        over: PublisherError | None = None
        for record, each in batch:
            try:
                if over is not None:
                    raise not_tried(over)
                committed = await self._repo.put(MEMORY, each.rkey, each.value, swap=record.cid)
                outcomes.append(Reembedded(record.uri, "done", committed))
            except PublisherError as error:
                over = over or (error if is_final(error) else None)
                outcomes.append(Reembedded(record.uri, "failed", error=error))
        return outcomes, None

    async def _values(self, pending: Sequence[_Pending], config: Config) -> list[dict[str, Any]]:
        """Put the new records together: good vectors stay, missing ones are made, each model once."""
        made: dict[tuple[int, ModelKey], Embedding] = {}
        for model in models(config):
            lacking = [
                index for index, each in enumerate(pending) if embedding_for(each.memory, model) is None
            ]
            if not lacking:
                continue
            memories = [pending[index].memory for index in lacking]
            texts = [text_to_embed(config.document_prefix, each.text, each.tags) for each in memories]
            vectors = await self._vectoriser.made_with(model, texts, following=model == config.next)
            made.update({(index, model): vector for index, vector in zip(lacking, vectors, strict=True)})
        values = []
        for index, each in enumerate(pending):
            vectors_of = [
                made.get((index, model)) or embedding_for(each.memory, model) for model in models(config)
            ]
            value = {name: kept for name, kept in each.record.value.items() if name != "nextEmbedding"}
            for field, vector in zip(("embedding", "nextEmbedding"), vectors_of, strict=False):
                if vector is not None:
                    value[field] = vector.to_record()
            values.append(value)
        return values


def sort(value: Mapping[str, Any], authority: str) -> Memory | Literal["elsewhere", "unfit"]:
    """Read a record as a memory of the space that `authority` governs, or tell why it is none."""
    try:
        memory = Memory.from_record(value)
    except InvalidRecord:
        return "unfit"
    if is_blank(memory.text):
        return "unfit"
    return memory if read_tags(memory.tags).space in (None, authority) else "elsewhere"


def models(config: Config) -> tuple[ModelKey, ...]:
    """Name the models that every memory should have a vector of."""
    return (config.model,) if config.next is None else (config.model, config.next)


def missing(memory: Memory, config: Config) -> list[ModelKey]:
    """Name the models that a memory has no usable vector of."""
    return [model for model in models(config) if embedding_for(memory, model) is None]


def embedding_for(memory: Memory, model: ModelKey) -> Embedding | None:
    """Choose the usable embedding that was made with a model."""
    for embedding in (memory.embedding, memory.next_embedding):
        if embedding is not None and embedding.key == model:
            try:
                embedding.unit_vector()
            except UnusableVector:
                continue
            return embedding
    return None
