"""What recalls leave in a space's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from appview.memory import strength
from appview.memory.forgetting import DAY_MICROS, Trace
from appview.memory.scope import EVERYTHING, Exact, Scope
from appview.memory.strength import SPACE, Recall, reinforce, strongest, traces
from appview.memory.values import Filters
from lexicons.datetimes import Datetime
from tests.appview.memory.support import ALICE, BOB, NOW, Clock, commit, delete, memory, put, space_file

if TYPE_CHECKING:
    from appview.memory.store import SpaceStore
    from appview.sqlite import Connection

CAROL, DAVE = "did:plc:carol", "token:dave"


def day(number: float) -> int:
    return NOW + round(number * DAY_MICROS)


def made(number: float) -> str:
    return Datetime.from_micros(day(number))


def left(connection: Connection, subject: str = SPACE) -> dict[str, Trace]:
    """Read what is left of every live memory, by record key."""
    rows = connection.execute("SELECT id, rkey FROM facts WHERE invalidated_at IS NULL").fetchall()
    found = traces(connection, subject, [row[0] for row in rows])
    return {rkey: found[id_] for id_, rkey in rows}


async def of(store: SpaceStore, subject: str = SPACE) -> dict[str, Trace]:
    return await store.database.read(lambda connection: left(connection, subject))


async def test_a_memory_that_nobody_recalled_fades_from_its_making(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory(created_at=made(-3))))])
    assert await of(store) == {"a": Trace(day(-3))}
    assert (await of(store, CAROL))["a"].strength(NOW) == Trace(day(-3)).strength(NOW)


async def test_each_subject_has_strengths_of_their_own(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory(created_at=made(-2))), put("b"))])
    assert await store.reinforce([Recall(ALICE, "a", CAROL, NOW)]) == 1
    expected = Trace(day(-2)).recalled(NOW)
    assert (await of(store, CAROL))["a"] == expected
    assert (await of(store, DAVE))["a"] == (await of(store))["a"] == Trace(day(-2))


async def test_a_members_recall_is_the_spaces_too_and_holds_for_who_has_none(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory(created_at=made(-2))))])
    await store.reinforce([Recall(ALICE, "a", CAROL, NOW, for_space=True)])
    expected = Trace(day(-2)).recalled(NOW)
    for subject in (CAROL, DAVE, SPACE):
        assert (await of(store, subject))["a"] == expected
    await store.reinforce([Recall(ALICE, "a", DAVE, day(3))])
    assert (await of(store, DAVE))["a"] == Trace(day(-2)).recalled(day(3))
    assert (await of(store, CAROL))["a"] == expected


async def test_recalls_of_one_batch_count_in_the_order_of_their_instants(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory(created_at=made(0))))])
    batch = [Recall(ALICE, "a", CAROL, day(number)) for number in (90, 2, 30, 8)]
    assert await store.reinforce(batch) == 4
    trace = (await of(store, CAROL))["a"]
    assert (trace.recalls, trace.at, round(trace.stability_days)) == (4, day(90), 120)


async def test_a_new_version_keeps_its_strength(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory(created_at=made(-2))))])
    await store.reinforce([Recall(ALICE, "a", CAROL, NOW, for_space=True)])
    before = await of(store, CAROL)
    await store.apply([commit(2, put("a", memory("changed", created_at=made(-2))))])
    assert await of(store, CAROL) == before
    assert before["a"].recalls == 1


async def test_a_deleted_record_loses_it_and_comes_back_as_new(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory(created_at=made(-2))))])
    await store.reinforce([Recall(ALICE, "a", CAROL, NOW, for_space=True)])
    await store.apply([commit(2, delete("a"))])
    assert await store.reinforce([Recall(ALICE, "a", CAROL, NOW)]) == 0
    await store.apply([commit(3, put("a", memory(created_at=made(-2))))])
    assert await of(store, CAROL) == {"a": Trace(day(-2))}


async def test_removing_an_author_removes_what_was_recalled_of_them(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a")), commit(1, put("a"), author=BOB)])
    await store.reinforce([Recall(ALICE, "a", CAROL, NOW), Recall(BOB, "a", CAROL, NOW)])
    await store.remove_author(ALICE)

    def owners(connection: Connection) -> list[str]:
        return [row[0] for row in connection.execute("SELECT author FROM strengths")]

    assert await store.database.read(owners) == [BOB]


async def test_what_is_not_there_cannot_be_recalled(store: SpaceStore) -> None:
    assert await store.reinforce([Recall(ALICE, "nothing", CAROL, NOW, for_space=True)]) == 0
    assert await store.reinforce([]) == 0


async def test_a_recall_is_no_change_of_the_data(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"))])
    before = await store.data_version()
    await store.reinforce([Recall(ALICE, "a", CAROL, NOW)])
    assert await store.data_version() == before


async def test_the_check_finds_strength_of_what_is_gone(store: SpaceStore, clock: Clock) -> None:
    def damage(connection: Connection) -> None:
        connection.execute("INSERT INTO strengths VALUES (?, 'x', ?, 1, 1, 1.0)", (ALICE, CAROL))

    await store.database.write(damage)
    assert [finding for finding in await store.check() if "strength" in finding]
    await store.database.write(lambda connection: strength.forget(connection, ALICE))


recalls = st.lists(
    st.builds(
        Recall,
        st.just(ALICE),
        st.sampled_from("abcdefgh"),
        st.sampled_from([CAROL, DAVE]),
        st.floats(0, 60).map(day),
        st.booleans(),
    ),
    max_size=20,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-30, 0), min_size=8, max_size=8), recalls, st.integers(1, 8), st.booleans())
def test_the_strongest_are_those_of_a_full_scan(
    ages: list[int], given_recalls: list[Recall], count: int, narrowed: bool
) -> None:
    with space_file() as file:
        puts = [
            put(rkey, memory(rkey, "/even" if age % 2 == 0 else "/odd", created_at=made(age)))
            for rkey, age in zip("abcdefgh", ages, strict=True)
        ]
        file.apply(commit(1, *puts))
        reinforce(file.connection, given_recalls)
        scope = Scope(frozenset({Exact("/even")})) if narrowed else EVERYTHING
        now = day(61)
        found = strongest(file.connection, CAROL, now, scope, Filters(), count)
        allowed = {
            row[0]
            for row in file.connection.execute(
                "SELECT f.id FROM facts AS f JOIN paths AS p ON p.id = f.path_id"
                " WHERE ? OR full_path = '/even'",
                (not narrowed,),
            )
        }
        every = traces(file.connection, CAROL, allowed)
        expected = sorted((trace.strength(now) for trace in every.values()), reverse=True)[:count]
        assert [value for _, value in found][:count] == expected
        assert {id_ for id_, _ in found} <= allowed
        assert all(every[id_].strength(now) == value for id_, value in found)
