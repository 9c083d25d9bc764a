"""Applying commits: create, update, delete, twice the same, all of a repo at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from appview.memory.scope import EVERYTHING
from appview.memory.values import Applied, Filters, Removal, Visibility
from appview.occasional import INTERVAL
from lexicons.ids import MEMORY
from lexicons.syntax import AtUri
from tests.appview.memory.support import (
    ALICE,
    BOB,
    CONFIG,
    NOW,
    OTHER,
    Clock,
    WordAnalyser,
    commit,
    delete,
    memory,
    put,
    refuse,
    rev,
)

if TYPE_CHECKING:
    from pathlib import Path

    from appview.memory.store import SpaceStore


def uri(rkey: str, author: Any = ALICE) -> AtUri:
    return AtUri.of_record(author, MEMORY, rkey)


async def rows(store: SpaceStore, sql: str) -> list[tuple[Any, ...]]:
    return await store.database.read(lambda connection: [tuple(row) for row in connection.execute(sql)])


async def words(store: SpaceStore, word: str) -> list[int]:
    found = await store.database.read(
        lambda connection: connection.execute(
            "SELECT rowid FROM facts_fts WHERE facts_fts MATCH ?", (f'"{word}"',)
        ).fetchall()
    )
    return [row[0] for row in found]


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


async def texts(store: SpaceStore) -> list[str]:
    return [fact.text for fact in await store.list(EVERYTHING, limit=1000)]


async def test_what_many_memories_say_is_analysed_once(
    store: SpaceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[str] = []
    document = WordAnalyser.document

    def analysing(self: WordAnalyser, text: str, *rest: Any) -> Any:
        analysed.append(text)
        return document(self, text, *rest)

    monkeypatch.setattr(WordAnalyser, "document", analysing)
    same, other = memory("compost is warm", "a"), memory("compost is warm", "b")
    await store.apply([commit(1, put("a", same), put("b", other), put("c", same), put("d", same))])
    assert len(analysed) == 2
    assert len(await words(store, "compost")) == 4


async def test_a_created_memory_is_found_with_all_it_was_published_with(store: SpaceStore) -> None:
    value = memory("Prune in March", "/garden/trees", "kind=rule", "winter", source="https://x.test/a")
    applied = await store.apply([commit(1, put("a", value, "bafyone"))])

    assert applied == Applied(created=1)
    fact = await store.get(uri("a"), EVERYTHING)
    assert fact is not None
    assert (fact.text, fact.tags, fact.source) == (value.text, value.tags, value.source)
    assert (fact.path, fact.cid, fact.author, fact.rkey) == ("/garden/trees", "bafyone", ALICE, "a")
    assert fact.created_at == value.created_at
    assert fact.recorded_at == NOW
    assert await words(store, "march") == [fact.id]


async def test_a_name_that_is_not_here_finds_nothing(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"))])
    assert await store.get(uri("b"), EVERYTHING) is None
    assert await store.get(uri("a", BOB), EVERYTHING) is None
    assert await store.get(AtUri(f"at://{ALICE}/other.app.record/a"), EVERYTHING) is None
    assert await store.get(AtUri(f"at://{ALICE}"), EVERYTHING) is None


async def test_an_update_is_a_new_fact_and_the_old_one_is_history(store: SpaceStore, clock: Clock) -> None:
    await store.apply([commit(1, put("a", memory("first words", "/one", "k=1", "label")))])
    old = await store.get(uri("a"), EVERYTHING)
    clock.time += 5
    applied = await store.apply([commit(2, put("a", memory("second words", "/two", seed=2)))])

    new = await store.get(uri("a"), EVERYTHING)
    assert applied == Applied(updated=1)
    assert old is not None
    assert new is not None
    assert new.id != old.id
    assert await texts(store) == ["second words"]
    assert await words(store, "first") == []
    assert await words(store, "words") == [new.id]
    history = await rows(store, "SELECT id, content, invalidated_at, supersedes_id FROM facts ORDER BY id")
    assert history == [(old.id, "first words", NOW + 5, None), (new.id, "second words", None, old.id)]
    assert await store.list(EVERYTHING, Filters(tags=("label",)), limit=9) == []


async def test_a_deleted_memory_leaves_a_tombstone_and_nothing_of_its_text(
    store: SpaceStore, clock: Clock
) -> None:
    await store.apply([commit(1, put("a", memory("secret one", "/secret/place", "k=v", source="here")))])
    await store.apply([commit(2, put("a", memory("secret two", "/secret/place")))])
    clock.time += 7
    applied = await store.apply([commit(3, delete("a"))])

    assert applied == Applied(deleted=1)
    assert await store.get(uri("a"), EVERYTHING) is None
    assert await words(store, "secret") == []
    assert await rows(store, "SELECT full_path FROM paths") == [("/",)]
    tombstones = await rows(
        store, "SELECT uri, author, content, tags, source, embedding, cid, deleted_at, recorded_at FROM facts"
    )
    assert tombstones == [(uri("a"), ALICE, "", "[]", None, None, "", NOW + 7, NOW)]


async def test_a_deleted_memory_can_come_again(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory("before")))])
    await store.apply([commit(2, delete("a"))])
    assert await store.apply([commit(3, put("a", memory("after")))]) == Applied(created=1)
    assert await texts(store) == ["after"]
    await store.apply([commit(4, delete("a"))])
    assert await rows(store, "SELECT count(*), count(deleted_at) FROM facts") == [(1, 1)]


async def test_deleting_what_is_not_here_changes_nothing(store: SpaceStore) -> None:
    assert await store.apply([commit(1, delete("a"))]) == Applied(unchanged=1)
    assert await rows(store, "SELECT * FROM facts") == []


async def test_the_same_commit_twice_changes_nothing(store: SpaceStore, clock: Clock) -> None:
    updates = [commit(1, put("a"), put("b")), commit(2, put("a", memory("new")), delete("b"))]
    await store.apply(updates)
    before = await rows(store, "SELECT * FROM facts ORDER BY id")
    clock.time += 1
    assert await store.apply(updates) == Applied(unchanged=4)
    assert await rows(store, "SELECT * FROM facts ORDER BY id") == before


async def test_an_older_commit_is_not_looked_at(store: SpaceStore) -> None:
    await store.apply([commit(2, put("a", memory("newer")))])
    assert await store.apply([commit(1, put("a", memory("older")))]) == Applied(unchanged=1)
    assert await texts(store) == ["newer"]


async def test_a_commit_of_the_last_rev_is_not_looked_at_again(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"))])
    assert await store.apply([commit(1, put("b"))]) == Applied(unchanged=1)
    assert set(await store.live(ALICE)) == {"a"}


async def test_each_author_has_revs_of_its_own(store: SpaceStore) -> None:
    await store.apply([commit(9, put("a"))])
    assert await store.apply([commit(1, put("a"), author=BOB)]) == Applied(created=1)
    assert await store.applied(ALICE) == (rev(9), "bafydata9")
    assert await store.applied(BOB) == (rev(1), "bafydata1")


async def test_a_commit_without_changes_moves_the_rev(store: SpaceStore) -> None:
    assert await store.applied(ALICE) is None
    await store.apply([commit(4)])
    assert await store.applied(ALICE) == (rev(4), "bafydata4")


async def test_a_version_that_is_live_already_is_not_written_again(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"))])
    assert await store.apply([commit(2, put("a"))]) == Applied(unchanged=1)
    assert await rows(store, "SELECT rev FROM facts") == [(rev(1),)]


async def test_changes_of_one_record_in_a_batch_take_effect_in_order(store: SpaceStore) -> None:
    applied = await store.apply(
        [
            commit(1, put("a", memory("one")), put("b", memory("gone"))),
            commit(2, put("a", memory("two")), delete("b")),
            commit(3, put("a", memory("three")), put("a", memory("four"))),
        ]
    )
    assert applied == Applied(created=2, updated=3, deleted=1)
    assert await texts(store) == ["four"]


async def test_a_complete_update_makes_the_authors_records_exactly_that(store: SpaceStore) -> None:
    await store.apply([commit(5, put("kept"), put("changed"), put("gone"), refuse("unfit"))])
    await store.apply([commit(1, put("gone"), author=BOB)])
    applied = await store.apply(
        [commit(5, put("kept"), put("changed", memory("now")), put("new"), refuse("bad"), complete=True)]
    )
    assert applied == Applied(created=1, updated=1, deleted=2, unchanged=1, skipped={"blank": 1})
    assert set(await store.live(ALICE)) == {"kept", "changed", "new", "bad"}
    assert set(await store.live(BOB)) == {"gone"}


async def test_a_complete_update_without_records_empties_the_author(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"), refuse("b"))])
    assert await store.apply([commit(2, complete=True)]) == Applied(deleted=2)
    assert await store.live(ALICE) == {}


async def test_more_records_than_a_round_holds(store: SpaceStore) -> None:
    changes = [put(f"r{number}", memory(f"number {number}", seed=number)) for number in range(1001)]
    assert await store.apply([commit(1, *changes)]) == Applied(created=1001)
    assert (await store.status(EVERYTHING)).memories == 1001


async def test_a_refused_record_is_counted_and_logged_without_what_it_holds(store: SpaceStore) -> None:
    with capture_logs() as logs:
        applied = await store.apply([commit(1, refuse("a"), put("b", memory("private text", key=OTHER)))])
        await store.apply([commit(2, refuse("a"), put("b", memory("private text", key=OTHER)))])
    assert applied.skipped == {"blank": 1, "model": 1}
    lines = [line for line in logs if line["event"] == "memory skipped"]
    assert [(line["rkey"], line["reason"]) for line in lines] == [("a", "blank"), ("b", "model")]
    assert {line["log_level"] for line in lines} == {"debug"}
    assert "private" not in str(logs)
    assert OTHER.digest not in str([line for line in logs if line["event"] != "space configured"])
    (counted,) = (await store.status(EVERYTHING)).skipped
    assert (counted.author, counted.reasons, counted.count) == (ALICE, {"blank": 1, "model": 1}, 2)


async def test_what_an_author_makes_be_left_out_costs_a_line_for_each_reason_and_interval(
    store: SpaceStore, clock: Clock
) -> None:
    with capture_logs() as logs:
        for number in range(1, 21):
            changes = (refuse(f"a{number}"), refuse(f"b{number}"), refuse(f"c{number}", "record"))
            await store.apply([commit(number, *changes)])
        clock.time += INTERVAL
        await store.apply([commit(21, refuse("last"))])
    told = [line for line in logs if line["log_level"] == "info"]
    assert [(line["author"], line["reason"], line["count"]) for line in told] == [
        (ALICE, "blank", 2),
        (ALICE, "record", 1),
        (ALICE, "blank", 39),
    ]
    assert sum(line["event"] == "memory skipped" for line in logs) == 61


@pytest.mark.parametrize("last", [refuse("a"), put("a", memory("unfit", key=OTHER))])
async def test_a_version_that_is_left_out_takes_the_one_before_with_it(store: SpaceStore, last: Any) -> None:
    await store.apply([commit(1, put("a", memory("was good")))])
    applied = await store.apply([commit(2, last)])
    assert sum(applied.skipped.values()) == 1
    assert await texts(store) == []
    assert await words(store, "good") == []
    assert await store.live(ALICE) == {"a": last.cid}


async def test_a_version_that_fits_again_supersedes_the_last_indexed_one(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory("one")))])
    await store.apply([commit(2, refuse("a"))])
    assert await store.apply([commit(3, put("a", memory("three")))]) == Applied(created=1)
    assert (await store.status(EVERYTHING)).skipped == ()
    assert await rows(store, "SELECT id, supersedes_id FROM facts ORDER BY id") == [(1, None), (2, 1)]


async def test_deleting_a_record_that_was_left_out_forgets_it(store: SpaceStore) -> None:
    await store.apply([commit(1, refuse("a"))])
    assert await store.apply([commit(2, delete("a"))]) == Applied(deleted=1)
    assert await store.live(ALICE) == {}


async def test_removing_an_author_leaves_nothing_of_them(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory("x", "/only/alice")), put("b"), refuse("c"))])
    await store.apply([commit(2, put("a", memory("y", "/only/alice")), delete("b"))])
    await store.apply([commit(1, put("a", memory("stays", "/bob")), author=BOB)])
    await store.remove_author(ALICE)
    assert await texts(store) == ["stays"]
    assert await store.applied(ALICE) is None
    assert await store.live(ALICE) == {}
    assert await rows(store, "SELECT DISTINCT author FROM facts") == [(BOB,)]
    assert await rows(store, "SELECT full_path FROM paths ORDER BY id") == [("/",), ("/bob",)]
    assert await store.apply([commit(1, put("a"))]) == Applied(created=1)


async def test_the_data_version_grows_when_a_query_can_see_a_change(store: SpaceStore) -> None:
    before = await store.data_version()
    for number, change in enumerate([put("a"), put("a", memory("b")), refuse("b"), delete("a"), delete("b")]):
        await store.apply([commit(number, change)])
        assert await store.data_version() == before + number + 1
    await store.apply([commit(9)])
    await store.apply([commit(1, put("c"))])
    await store.configure(CONFIG)
    assert await store.remove_path_tag("/", "k") is False
    assert await store.data_version() == before + 5
    await store.set_path_tag("/", "k", "v")
    assert await store.data_version() == before + 6
    await store.remove_author(ALICE)
    assert await store.data_version() == before + 7


async def test_deleted_text_does_not_stay_in_the_file(store: SpaceStore, path: Path) -> None:
    await store.apply([commit(1, put("a", memory("Confidential Plan", "/Hidden/Path")), put("b"))])
    await store.database.checkpoint()
    assert b"Confidential Plan" in bytes_of(path)
    await store.apply([commit(2, delete("a"))])
    await store.database.checkpoint()
    assert b"Confidential Plan" not in bytes_of(path)
    assert b"Hidden" not in bytes_of(path)


@pytest.mark.parametrize(
    ("created_at", "ordered_at"),
    [
        ("2026-11-30T09:15:00.000Z", 1_796_030_100_000_000),
        ("9999-12-31T23:59:59Z", NOW),  # a date in the future is not believed
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000_000),
    ],
)
async def test_a_memory_stands_where_the_earlier_of_its_two_times_is(
    store: SpaceStore, created_at: str, ordered_at: int
) -> None:
    await store.apply([commit(1, put("a", memory(created_at=created_at)))])
    fact = await store.get(uri("a"), EVERYTHING)
    assert fact is not None
    assert (fact.created_at, fact.ordered_at) == (created_at, ordered_at)


async def test_a_partial_update_does_not_keep_out_what_came_before_it(store: SpaceStore) -> None:
    ahead = replace(commit(5, put("3jzfcijpj2z2a", memory("ahead"))), partial=True)
    await store.apply([commit(1, put("3jzfcijpj2z2b", memory("first"))), ahead])
    assert sorted(await texts(store)) == ["ahead", "first"]
    await store.apply([commit(3, put("3jzfcijpj2z2c", memory("between")))])
    assert sorted(await texts(store)) == ["ahead", "between", "first"]
    assert await rows(store, "SELECT rev FROM repos") == [(rev(3),)]


async def test_a_partial_update_that_is_not_above_the_repo_is_no_news(store: SpaceStore) -> None:
    await store.apply([commit(5, put("3jzfcijpj2z2a", memory("here")))])
    old = replace(commit(5, delete("3jzfcijpj2z2a")), partial=True)
    assert (await store.apply([old])).unchanged == 1
    assert await texts(store) == ["here"]


async def test_a_removal_takes_its_turn_among_the_updates_of_an_author(store: SpaceStore) -> None:
    before, after = commit(1, put("a", memory("old"))), commit(1, put("b", memory("new")))
    kept = commit(1, put("c", memory("stays")), author=BOB)
    gone, back = [Visibility(ALICE, True), Removal(ALICE)], Visibility(ALICE, False)
    await store.apply([kept, before, *gone, back, after])
    assert set(await texts(store)) == {"new", "stays"}
    assert set(await store.live(ALICE)) == {"b"}
    await store.apply([Removal(ALICE)])
    await store.apply([Removal(ALICE)])
    assert await texts(store) == ["stays"]
    assert await store.applied(ALICE) is None
    await store.apply([before, Removal(ALICE)])  # both in one transaction
    assert await texts(store) == ["stays"]
    assert await store.applied(ALICE) is None
