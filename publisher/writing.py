"""From drafts to committed records: embed, put together, write, and say what became of each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lexicons.ids import MEMORY
from lexicons.memories import Memory
from lexicons.syntax import AtUri
from publisher.batches import Prepared, commits, most_now
from publisher.errors import (
    ModelTrouble,
    NotAllowed,
    NotFound,
    NotSignedIn,
    PublisherError,
    RefusedByPds,
    Temporary,
    TooManyRequests,
)
from publisher.governing import now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lexicons.configs import Config
    from publisher.drafts import Draft
    from publisher.repo import Committed, Record, Repo
    from publisher.tids import TidClock
    from publisher.vectors import Vectoriser

_OURS = frozenset({"text", "createdAt", "embedding", "nextEmbedding", "tags", "source"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one memory of several: `index` is its place, from 0; `committed` or `error` is set."""

    index: int
    committed: Committed | None = None
    error: PublisherError | None = None


class Writer:
    """Writes memories to one repo. It remembers where the PDS refuses several writes in a commit."""

    def __init__(self, repo: Repo, vectoriser: Vectoriser, tids: TidClock) -> None:
        self._repo = repo
        self._vectoriser = vectoriser
        self._tids = tids
        self._together = True

    async def create(self, draft: Draft, config: Config) -> Committed:
        """Publish one checked draft."""
        [record] = await self._prepare([(0, draft)], config)
        try:
            return await self._repo.create(MEMORY, record.rkey, record.value)
        except PublisherError as error:
            raise self._doubtful(error, record) from None

    async def replace(self, draft: Draft, config: Config, found: Record, rkey: str) -> Committed:
        """Publish a checked draft over a record; fields of the record that are not ours stay."""
        [record] = await self._prepare([(0, draft)], config)
        kept = {name: value for name, value in found.value.items() if name not in _OURS}
        return await self._repo.put(MEMORY, rkey, {**kept, **record.value}, swap=found.cid)

    async def create_many(self, drafts: Sequence[tuple[int, Draft]], config: Config) -> list[Outcome]:
        """Publish checked drafts, as many in a commit as the PDS takes; give one outcome each, in order."""
        try:
            waiting = await self._prepare(drafts, config)
        except PublisherError as error:
            return [Outcome(index, error=error) for index, _ in drafts]
        outcomes: list[Outcome] = []
        while waiting:
            most = most_now(self._repo.budget, time.time()) if self._together else 1
            batch = next(commits(waiting, most=most))
            made = await self._write(batch)
            outcomes += made
            waiting = waiting[len(made) :]
            over = next((outcome.error for outcome in made if is_final(outcome.error)), None)
            if over is not None:
                return outcomes + [Outcome(record.index, error=not_tried(over)) for record in waiting]
        return outcomes

    async def _write(self, batch: list[Prepared]) -> list[Outcome]:
        """Write a batch, or the first half of it where the whole is too large; give the outcomes."""
        if len(batch) == 1:
            return [await self._write_one(batch[0])]
        try:
            given = {record.rkey for record in batch if record.key_given}
            made = await self._repo.create_many(
                MEMORY, [(record.rkey, record.value) for record in batch], given
            )
        except RefusedByPds as error:
            if error.status == 413:
                return await self._write(batch[: len(batch) // 2])
            self._together = self._together and error.status not in (404, 501)
            # One record that the PDS does not take refuses them all: each has its own answer then.
            outcomes: list[Outcome] = []
            for record in batch:
                outcomes.append(await self._write_one(record))
                if is_final(outcomes[-1].error):
                    break
            return outcomes
        except PublisherError as error:
            return [Outcome(record.index, error=self._doubtful(error, record)) for record in batch]
        return [
            Outcome(record.index, committed=committed) for record, committed in zip(batch, made, strict=True)
        ]

    async def _write_one(self, record: Prepared) -> Outcome:
        try:
            return Outcome(record.index, await self._repo.create(MEMORY, record.rkey, record.value))
        except PublisherError as error:
            return Outcome(record.index, error=self._doubtful(error, record))

    def _doubtful(self, error: PublisherError, record: Prepared) -> PublisherError:
        """Add where to look, where the PDS may have done it after all: its last answer may be on its way."""
        if not isinstance(error, Temporary) or isinstance(error, TooManyRequests):
            return error
        uri = AtUri.of_record(self._repo.did, MEMORY, record.rkey)
        return Temporary(error.message, f"{error.hint}; it may have been published after all, as {uri}")

    async def _prepare(self, drafts: Sequence[tuple[int, Draft]], config: Config) -> list[Prepared]:
        vectors = await self._vectoriser.embed([draft for _, draft in drafts], config)
        return [
            Prepared(
                index,
                draft.rkey or self._tids.next(),
                Memory(
                    draft.text,
                    draft.created_at or now(),
                    each.embedding,
                    each.following,
                    draft.tags,
                    draft.source,
                ).to_record(),
                key_given=draft.rkey is not None,
            )
            for (index, draft), each in zip(drafts, vectors, strict=True)
        ]


def not_tried(error: PublisherError) -> PublisherError:
    """Give the error of a memory that was not tried because another one met `error`."""
    if isinstance(error, Temporary) and not isinstance(error, TooManyRequests):
        return Temporary(f"not tried: {error.message}", "publish it again later")
    return error


def is_final(error: PublisherError | None) -> bool:
    """Tell whether an error will meet every further memory too."""
    return isinstance(error, NotSignedIn | NotAllowed | NotFound | ModelTrouble | Temporary)
