"""How memories are put together into commits. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lexicons.data import to_json
from publisher.repo import MAX_WRITES
from publisher.retry import CREATE_POINTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from publisher.retry import Budget

MAX_BODY_BYTES: Final = 140_000  # the official PDS takes JSON of 150 KiB; room for what surrounds the records
WRITE_OVERHEAD_BYTES: Final = 160  # $type, collection and record key of a write


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record ready to be written, with its place in what the caller gave.

    `key_given`: the record key is the caller's, not one chosen just now.
    """

    index: int
    rkey: str
    value: Mapping[str, Any]
    key_given: bool = False

    @property
    def size(self) -> int:
        """Bytes that the write takes in a request."""
        text = json.dumps(to_json(self.value), ensure_ascii=False, separators=(",", ":"))
        return len(text.encode()) + WRITE_OVERHEAD_BYTES


def commits(records: Sequence[Prepared], *, most: int = MAX_WRITES) -> Iterator[list[Prepared]]:
    """Cut records into commits that fit a request, in their order."""
    batch: list[Prepared] = []
    size = 0
    for record in records:
        if batch and (len(batch) >= most or size + record.size > MAX_BODY_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += record.size
    if batch:
        yield batch


def most_now(budget: Budget | None, now: float) -> int:
    """Tell how many creates fit what the PDS has left, at least one."""
    if budget is None or budget.reset <= now:
        return MAX_WRITES
    return max(1, min(MAX_WRITES, budget.remaining // CREATE_POINTS))
