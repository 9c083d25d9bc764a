"""Complete updates of any size: merged with what is held, in rounds, and told of in bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.memory import apply, complete, paths
from appview.memory.apply import records_of
from appview.memory.complete import CHANGE_COST, Merge, cost
from appview.memory.values import Delete, RepoUpdate
from tests.appview.memory.support import (
    ALICE,
    BOB,
    NEW,
    OTHER,
    commit,
    delete,
    memory,
    put,
    refuse,
    rev,
    space_file,
    state_after,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from appview.memory.values import Change


class Stream(list[Any]):
    """Changes that are no tuple: they come as they are, by ascending record key."""


def changes_of(keys: dict[str, str]) -> list[Change]:
    return [refuse(key) if kind == "refuse" else put(key, memory(kind)) for key, kind in sorted(keys.items())]


KEYS = st.text("abc", min_size=1, max_size=3)
REPOS = st.dictionaries(KEYS, st.sampled_from(["one", "two", "refuse"]), max_size=12)


@given(before=REPOS, after=REPOS, page=st.integers(1, 4), per_round=st.integers(1, 5), streamed=st.booleans())
def test_the_author_has_exactly_what_the_update_names(
    before: dict[str, str], after: dict[str, str], page: int, per_round: int, streamed: bool
) -> None:
    with pytest.MonkeyPatch.context() as patched, space_file() as file:
        patched.setattr(complete, "PAGE", page)
        patched.setattr(apply, "MAX_ROUND", per_round)
        file.apply(commit(1, *changes_of(before)), commit(1, put("aa"), author=BOB))
        changes = changes_of(after)
        update = RepoUpdate(
            ALICE, rev(2), Stream(changes) if streamed else tuple(reversed(changes)), complete=True
        )
        outcome = file.apply(update)
        assert records_of(file.connection, ALICE) == state_after([update])
        assert set(records_of(file.connection, BOB)) == {"aa"}
        assert outcome.deleted == len(before.keys() - after.keys())
        assert file.check() == []


@given(before=REPOS, after=REPOS, page=st.integers(1, 4), most=st.integers(1, 500))
def test_an_update_may_be_applied_bit_by_bit(
    before: dict[str, str], after: dict[str, str], page: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patched, space_file() as file:
        patched.setattr(complete, "PAGE", page)
        file.apply(commit(1, *changes_of(before)), commit(1, put("aa"), author=BOB))
        update = RepoUpdate(ALICE, rev(2), Stream(changes_of(after)), complete=True)
        merge, parts, deleted = Merge(update), 0, 0
        while not merge.is_over:
            assert file.revs() == {ALICE: rev(1), BOB: rev(1) if parts == 0 else rev(parts + 1)}
            deleted += file.apply(update, merge=merge, most=most).deleted
            parts += 1
            file.apply(commit(parts + 1, put(f"b{parts}"), author=BOB))  # between them others go
            assert file.check() == []
        assert parts > len(after) * CHANGE_COST // (most + 1_000)
        assert records_of(file.connection, ALICE) == state_after([update])
        assert len(records_of(file.connection, BOB)) == 1 + parts
        assert file.revs()[ALICE] == rev(2)
        assert deleted == len(before.keys() - after.keys())


def test_a_change_costs_by_what_it_says() -> None:
    assert cost(Delete("a")) == cost(refuse("a")) == CHANGE_COST
    assert cost(put("a", memory("x" * 5_000))) == cost(put("a", memory("x"))) + 4_999


def test_what_is_not_named_is_deleted_in_its_place() -> None:
    with space_file() as file:
        file.apply(commit(1, put("a"), put("c"), refuse("e"), put("g")))
        update = commit(2, put("g"), put("c"), put("b"), complete=True)
        assert list(Merge(update).read(file.connection)) == [
            Delete("a"),
            put("b"),
            put("c"),
            Delete("e"),
            put("g"),
        ]


def test_a_record_named_twice_is_what_it_was_last() -> None:
    with space_file() as file:
        file.apply(commit(1, put("a")))
        file.apply(commit(2, put("a", memory("then")), delete("a"), put("a", memory("now")), complete=True))
        assert records_of(file.connection, ALICE) == {"a": put("a", memory("now")).cid}


def test_a_stream_that_does_not_ascend_is_refused() -> None:
    with space_file() as file, pytest.raises(AssertionError, match="ascend"):
        file.apply(RepoUpdate(ALICE, rev(1), Stream([put("b"), put("a")]), complete=True))


def test_no_more_is_worked_on_at_once_than_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[int] = []
    text = "x" * 29_000

    def stream() -> Iterator[Change]:
        for number in range(400):
            yield put(f"{number:03}", memory(text))

    class Lazy(Stream):
        def __iter__(self) -> Iterator[Change]:
            return stream()

    rounds = apply._apply_round

    def seen(writer: Any, pending: Any, outcome: Any) -> None:
        alive.append(sum(len(change.memory.text) for _, change, _ in pending.values()))
        rounds(writer, pending, outcome)

    monkeypatch.setattr(apply, "_apply_round", seen)
    with space_file() as file:
        assert file.apply(RepoUpdate(ALICE, rev(1), Lazy(), complete=True)).created == 400
    assert complete.MAX_ROUND_BYTES * 0.9 < max(alive) <= complete.MAX_ROUND_BYTES


@pytest.mark.parametrize(("count", "told"), [(999, 999), (1_000, 1_000), (1_001, 1_000)])
def test_all_that_is_left_out_is_counted_and_so_much_of_it_is_told_singly(count: int, told: int) -> None:
    changes = [put(f"{number:05}", memory(f"memory {number}", key=OTHER)) for number in range(count)]
    with space_file() as file:
        outcome = file.apply(commit(1, *changes, complete=True), commit(1, refuse("a"), author=BOB))
    assert outcome.applied.skipped == {"model": count, "blank": 1}
    assert outcome.skipped == {(ALICE, "model"): count, (BOB, "blank"): 1}
    assert len(outcome.skips) == min(told + 1, 1_000)
    assert all(skip.memory is None for skip in outcome.skips), "nothing that is told holds a record"
    assert {(ALICE, "00000"), (BOB, "a")} >= {skip.key for skip in outcome.skips[:1]} and outcome.skips[
        1
    ].brief


def test_paths_beyond_those_remembered_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "MAX_KNOWN", 3)
    changes = [put(f"{number:02}", memory("x", f"/a/{number % 7}/b")) for number in range(30)]
    with space_file() as file:
        file.apply(commit(1, *changes))
        (count,) = file.connection.execute("SELECT count(*) FROM paths").fetchone()
        assert (count, file.check()) == (1 + 1 + 14, [])


def test_a_next_vector_counts_too() -> None:
    alone, both = put("a", memory(key=OTHER)), put("a", memory(key=OTHER, next_key=NEW))
    assert complete.weight(both) - complete.weight(alone) == 2 * NEW.dims
    assert complete.weight(Delete("a")) == 0
