"""How what is to be written is shared: costs, pieces, turns of authors, and who has enough open."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.ingest.fairness import (
    AUTHOR_SHARE,
    MAX_PIECE,
    MAX_TRANSACTION,
    MIN_TRANSACTION,
    SPACE_SHARE,
    WHOLE,
    WRITE_SECONDS,
    FairQueue,
    Piece,
    Shares,
    TransactionSize,
    pieces,
)
from appview.memory.complete import CHANGE_COST, Merge
from appview.memory.values import Put, Removal, RepoUpdate
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Sequence

ALICE = Did("did:plc:alice")
BOB = Did("did:plc:bob")
GARDEN = SpaceUri.public(ALICE)
SHED = SpaceUri.public(BOB)
VECTOR = Embedding.of(ModelKey("m", "sha256:m", 4), [1.0] * 4)


def put(number: int, characters: int) -> Put:
    return Put(f"{number:05}", "cid", Memory("x" * characters, "2026-11-30T09:15:00.000Z", VECTOR))


def owner(number: int) -> Did:
    return Did(f"did:plc:owner{number}")


def piece(who: int, name: str, cost: int) -> Piece:
    return Piece(RepoUpdate(owner(who), name, ()), cost, cost)


def names(taken: list[Piece]) -> list[str]:
    return [each.update.rev for each in taken if isinstance(each.update, RepoUpdate)]


@given(st.lists(st.integers(0, 30_000), max_size=200))
def test_a_large_update_is_written_piece_by_piece_and_the_last_one_moves_the_rev(sizes: list[int]) -> None:
    update = RepoUpdate(ALICE, "1", tuple(put(number, size) for number, size in enumerate(sizes)), "tree")
    made = list(pieces(update))
    parts = [each.update for each in made]
    assert all(isinstance(part, RepoUpdate) and part.rev == "1" and part.data == "tree" for part in parts)
    assert [part.partial for part in parts] == [True] * (len(parts) - 1) + [False]  # type: ignore[union-attr]
    assert tuple(change for part in parts for change in part.changes) == update.changes  # type: ignore[union-attr]
    assert all(each.cost <= MAX_PIECE for each in made)
    assert all(a.cost + b.cost > MAX_PIECE for a, b in pairwise(made))


def test_a_partial_update_stays_partial() -> None:
    update = RepoUpdate(ALICE, "1", tuple(put(number, 30_000) for number in range(9)), partial=True)
    assert all(each.update.partial for each in pieces(update))  # type: ignore[union-attr]


def test_what_is_complete_takes_no_room() -> None:
    (small,) = pieces(RepoUpdate(ALICE, "1", (put(1, 10),), complete=True))
    (large,) = pieces(RepoUpdate(ALICE, "1", tuple(put(each, 10) for each in range(5_000)), complete=True))
    assert (small.cost, small.room) == (2 * CHANGE_COST, 0)
    assert (large.cost, large.room) == (MAX_PIECE, 0)
    (gone,) = pieces(Removal(ALICE))
    assert gone.cost == gone.room == CHANGE_COST


def test_what_is_complete_is_taken_alone_and_goes_on_before_what_came_behind_it() -> None:
    queue = FairQueue()
    (whole,) = pieces(RepoUpdate(ALICE, "whole", (), complete=True))
    queue.add(whole)
    queue.add(Piece(RepoUpdate(ALICE, "behind", ()), 100, 100))
    queue.add(piece(1, "other", 100))
    assert names(queue.take(10, MAX_TRANSACTION)) == ["whole"]
    whole.merge = Merge(RepoUpdate(ALICE, "whole", (), complete=True))
    queue.add(whole, first=True)
    rest = [names(queue.take(10, MAX_TRANSACTION)) for _ in range(3)]
    assert sorted(rest[0] + rest[1] + rest[2]) == ["behind", "other", "whole"]
    assert rest.index(["whole"]) < next(place for place, each in enumerate(rest) if "behind" in each)
    assert not queue


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 1_000)), max_size=60), st.integers(1, 2_000))
def test_each_authors_pieces_come_in_order_and_all_of_them(
    items: Sequence[tuple[int, int]], cost: int
) -> None:
    queue = FairQueue()
    taken: list[int] = []
    for place, (who, price) in enumerate(items):
        queue.add(piece(who, str(place), price))
        if place % 3 == 0:
            taken += map(int, names(queue.take(2, cost)))
    while queue:
        some = [int(name) for name in names(queue.take(10, cost))]
        assert 1 <= len(some) <= 10
        assert len(some) == 1 or sum(items[place][1] for place in some) <= cost
        taken += some
    assert sorted(taken) == list(range(len(items)))
    for who in range(5):
        places = [place for place in taken if items[place][0] == who]
        assert places == sorted(places)


def test_who_comes_with_little_goes_before_those_who_wait_with_much() -> None:
    queue = FairQueue()
    for number in range(100):
        for who in range(20):
            queue.add(piece(who, f"{who}: {number}", MAX_PIECE))
    for place in range(50):
        queue.take(1_000, MAX_PIECE)
        queue.add(piece(99, f"little {place}", 500))
        assert names(queue.take(1_000, MAX_PIECE))[0] == f"little {place}"


def test_who_waits_with_much_is_not_passed_by_for_ever() -> None:
    queue = FairQueue()
    queue.add(piece(0, "much", MAX_PIECE))
    for passed in range(1, 2 * MAX_PIECE // 500 + 1):
        queue.add(piece(passed, "little", 500))
        if names(queue.take(1, MAX_PIECE)) == ["much"]:
            return
    raise AssertionError("it is not taken")


def test_of_two_who_send_all_the_time_each_has_a_half() -> None:
    queue = FairQueue()
    for _ in range(1_000):
        queue.add(piece(1, "one", 100))
    for _ in range(100):
        queue.add(piece(2, "two", 1_000))
    had = {"one": 0, "two": 0}
    for _ in range(110):
        for taken in queue.take(10, 1_000):
            had[names([taken])[0]] += taken.cost
    assert 0.8 < had["one"] / had["two"] < 1.25


def test_an_author_has_enough_open_and_others_do_not() -> None:
    shares = Shares()
    shares.open(ALICE, GARDEN, AUTHOR_SHARE - 1)
    assert not shares.is_full(ALICE)
    shares.open(ALICE, SHED, 1)
    assert shares.is_full(ALICE)
    assert not shares.is_full(BOB)
    shares.close(ALICE, SHED, 1)
    assert not shares.is_full(ALICE)


@pytest.mark.parametrize(("bound", "spaces"), [(SPACE_SHARE, [GARDEN]), (WHOLE, [GARDEN, SHED])])
def test_where_much_is_open_only_who_has_nothing_open_goes_on(bound: int, spaces: list[SpaceUri]) -> None:
    shares = Shares()
    shares.open(BOB, spaces[0], 1)
    each = -(-(bound - 1) // 20)
    for number in range(20):
        shares.open(owner(number), spaces[number % len(spaces)], each)
    assert shares.is_full(BOB)
    assert not shares.is_full(ALICE)
    elsewhere = SpaceUri.public(owner(1))
    shares.open(ALICE, elsewhere, 1)
    assert shares.is_full(ALICE) == (bound == WHOLE)
    for number in range(20):
        shares.close(owner(number), spaces[number % len(spaces)], each)
    shares.close(BOB, spaces[0], 1)
    shares.close(ALICE, elsewhere, 1)
    assert (shares.total, shares._authors, shares._spaces) == (0, {}, {})


def test_transactions_grow_while_they_go_quickly_and_shrink_when_they_do_not() -> None:
    size = TransactionSize()
    for _ in range(5):
        size.took(size.cost, WRITE_SECONDS / 4)
    assert size.cost == MAX_TRANSACTION
    size.took(1_000, WRITE_SECONDS / 4)
    assert size.cost == MAX_TRANSACTION
    size.took(MAX_TRANSACTION, 2 * WRITE_SECONDS)
    assert size.cost == MAX_TRANSACTION // 2
    size.took(10, 100.0)
    assert size.cost == MIN_TRANSACTION
