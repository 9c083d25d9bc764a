"""What is held back for a space until an author's whole repo is in it."""

from __future__ import annotations

from appview.ingest.pending import MAX_HELD_BYTES, MAX_HELD_COMMITS, Pending
from appview.memory.values import Delete, RepoUpdate
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

ALICE = Did("did:plc:alice")
GARDEN = SpaceUri.public(ALICE)
SHED = SpaceUri.public(Did("did:plc:bob"))


def rev(number: int) -> str:
    return f"{number:013}"


def update(number: int, *spaces: SpaceUri) -> dict[SpaceUri, RepoUpdate]:
    made = RepoUpdate(ALICE, rev(number), (Delete("3jzfcijpj2z2a"),))
    return dict.fromkeys(spaces or (GARDEN,), made)


def test_what_is_held_is_given_in_order() -> None:
    pending = Pending()
    pending.begin(ALICE, GARDEN, rev(1))
    pending.hold(ALICE, update(2), 10)
    pending.hold(ALICE, update(3), 10)
    assert pending.spaces(ALICE) == {GARDEN}
    assert pending.finish(ALICE) == [update(2), update(3)]
    assert pending.spaces(ALICE) == frozenset()
    assert pending.authors == frozenset()


def test_a_repo_must_reach_what_went_by_before() -> None:
    pending = Pending()
    pending.begin(ALICE, GARDEN, rev(5))
    assert not pending.reaches(ALICE, rev(4))
    assert pending.reaches(ALICE, rev(5))
    pending.begin(ALICE, GARDEN, rev(9))  # already begun: nothing was let by since
    assert pending.reaches(ALICE, rev(5))


def test_a_second_space_starts_the_holding_anew() -> None:
    pending = Pending()
    pending.begin(ALICE, GARDEN, rev(1))
    pending.hold(ALICE, update(2), 10)
    pending.begin(ALICE, SHED, rev(2))
    assert not pending.reaches(ALICE, rev(1))
    assert pending.reaches(ALICE, rev(2))
    pending.hold(ALICE, update(3, GARDEN, SHED), 10)
    assert pending.finish(ALICE) == [update(3, GARDEN, SHED)]


def test_too_much_is_given_up_and_asks_for_a_later_repo() -> None:
    for size, count in ((MAX_HELD_BYTES, 2), (1, MAX_HELD_COMMITS + 1)):
        pending = Pending()
        pending.begin(ALICE, GARDEN, rev(0))
        for number in range(1, count + 1):
            pending.hold(ALICE, update(number), size)
        assert not pending.reaches(ALICE, rev(count - 1))
        assert pending.reaches(ALICE, rev(count))
        pending.hold(ALICE, update(count + 1), 1)
        assert pending.finish(ALICE) == [update(count + 1)]


def test_what_is_at_the_limit_is_kept() -> None:
    pending = Pending()
    pending.begin(ALICE, GARDEN, rev(0))
    for number in range(1, MAX_HELD_COMMITS + 1):
        pending.hold(ALICE, update(number), MAX_HELD_BYTES // MAX_HELD_COMMITS)
    assert len(pending.finish(ALICE)) == MAX_HELD_COMMITS


def test_a_space_that_is_dropped_is_held_for_no_more() -> None:
    pending = Pending()
    pending.begin(ALICE, GARDEN, None)
    pending.begin(ALICE, SHED, None)
    pending.drop(ALICE, GARDEN)
    assert pending.spaces(ALICE) == {SHED}
    pending.drop(ALICE, SHED)
    assert pending.spaces(ALICE) == frozenset()
    assert pending.reaches(ALICE, rev(0))
