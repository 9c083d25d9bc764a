"""The bounds of what waits and of what is laid aside: of one repo, and of all together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from appview.ingest.errors import Rejected
from appview.ingest.frames import SyncEvent
from appview.ingest.tracked import Doubted, TrackedRepo, size_of
from appview.ingest.waiting import (
    MAX_ASIDE_BYTES,
    MAX_ASIDE_EVENTS,
    MAX_ASIDE_TOTAL,
    MAX_WAITING_BYTES,
    MAX_WAITING_EVENTS,
    MAX_WAITING_TOTAL,
    WaitingRoom,
)
from lexicons.syntax import Did
from tests.network.synthetic import tid


def repos(count: int) -> list[TrackedRepo]:
    return [
        TrackedRepo(Did(f"did:web:{number}.example"), None, None, "desynchronized", True, None)
        for number in range(count)
    ]


@cache
def blocks(size: int) -> bytes:
    """Give the same bytes to all: what is counted is what each would take."""
    return bytes(size)


def event(number: int, size: int) -> SyncEvent:
    """Make an event that counts as `size` bytes; revs ascend with `number`."""
    bare = SyncEvent(1, Did("did:web:a.example"), tid(number + 1), b"", "")
    return replace(bare, blocks=blocks(size - size_of(bare)))


@pytest.mark.parametrize(
    ("limit", "size", "count"),
    [(MAX_WAITING_EVENTS, 500, 1), (MAX_WAITING_BYTES, 500_000, 1), (MAX_WAITING_TOTAL, 500_000, 20)],
    ids=["events of a repo", "bytes of a repo", "bytes of all"],
)
def test_what_waits_is_bounded_and_the_highest_rev_of_what_is_lost_is_kept(
    limit: int, size: int, count: int
) -> None:
    room, all_of_them = WaitingRoom(), repos(count)
    fits = limit if limit == MAX_WAITING_EVENTS else limit // size
    for number in range(fits):
        room.add(all_of_them[number % count], event(number, size), None)
    assert not any(repo.overflowed for repo in all_of_them)
    last = all_of_them[fits % count]
    held, lost = room.bytes, last.waiting_bytes
    room.add(last, event(fits, size), None)
    assert last.overflowed == tid(fits + 1)
    assert not last.waiting
    assert room.bytes == held - lost
    if count > 1:  # the neighbours keep what they have, and there is room again
        assert all(repo.waiting for repo in all_of_them if repo is not last)
        room.add(all_of_them[0], event(fits + 1, size), None)
        assert all_of_them[0].overflowed is None


@pytest.mark.parametrize(
    ("limit", "size", "count"),
    [(MAX_ASIDE_EVENTS, 500, 1), (MAX_ASIDE_BYTES, 500_000, 1), (MAX_ASIDE_TOTAL, 500_000, 20)],
    ids=["events of a repo", "bytes of a repo", "bytes of all"],
)
def test_what_is_laid_aside_is_bounded_and_takes_no_room_from_what_waits(
    limit: int, size: int, count: int
) -> None:
    room, all_of_them = WaitingRoom(), repos(count)
    fits = limit if limit == MAX_ASIDE_EVENTS else limit // size

    def lay_aside(number: int) -> bool:
        doubted = Doubted(event(number, size), None, Rejected("bad-signature", ""), True)
        return room.lay_aside(all_of_them[number % count], doubted)

    assert all(lay_aside(number) for number in range(fits))
    assert not lay_aside(fits)
    assert room.bytes == 0
    assert len(room.take_aside(all_of_them[fits % count])) == fits // count
    assert lay_aside(fits)
