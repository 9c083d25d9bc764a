"""Following the config: declare, next, promote, cancel, gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from appview.memory import vectors
from appview.memory.judge import embedding_for
from appview.memory.meta import read_config
from appview.memory.scope import EVERYTHING
from appview.memory.store import SpaceStore
from lexicons.configs import Config
from lexicons.models import MAX_DIMS, ModelKey
from tests.appview.memory.support import (
    ALICE,
    CONFIG,
    CREATED_AT,
    NEW,
    OLD,
    OTHER,
    SPACE,
    Clock,
    WordAnalyser,
    commit,
    delete,
    embedding,
    memory,
    put,
    refuse,
    space_file,
)

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path


CHANGING = CONFIG.with_next(NEW)


async def live(store: SpaceStore) -> set[str]:
    return {fact.rkey for fact in await store.list(EVERYTHING, limit=1000)}


async def skipped(store: SpaceStore) -> dict[str, int]:
    counts = (await store.status(EVERYTHING)).skipped
    return dict(counts[0].reasons) if counts else {}


async def nearest(store: SpaceStore, key: ModelKey, seed: int) -> list[int]:
    """Search the active index."""

    def work(connection: Any) -> list[int]:
        index = vectors.find(connection, "active")
        assert index is not None
        assert index.key == key
        (vector,) = vectors.unit_vectors([embedding(key, seed)], key.dims)
        return [row[0] for row in connection.execute(index.nearest_sql(), (vector, 1))]

    return await store.database.read(work)


async def test_memories_that_arrive_before_the_config_wait_for_it(empty: SpaceStore) -> None:
    applied = await empty.apply([commit(1, put("a"), put("b", memory(key=OTHER)))])
    assert applied.skipped == {"no-config": 2}
    assert (empty.config, empty.active) == (None, None)
    await empty.configure(CONFIG)
    assert (empty.config, empty.active) == (CONFIG, OLD)
    assert await live(empty) == {"a"}
    assert await skipped(empty) == {"model": 1}


async def test_the_same_config_again_changes_nothing(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"))])
    before = await store.database.read(lambda c: c.execute("SELECT * FROM facts").fetchall())
    with capture_logs() as logs:
        await store.configure(Config(OLD, CREATED_AT))
    assert logs == []
    assert await store.database.read(lambda c: c.execute("SELECT * FROM facts").fetchall()) == before


async def test_new_prefixes_alone_leave_the_index_as_it_is(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"))])
    await store.configure(Config(OLD, CREATED_AT, query_prefix="query: "))
    assert store.config is not None
    assert store.config.query_prefix == "query: "
    assert await nearest(store, OLD, 1) == [1]


async def test_the_next_index_is_built_from_what_the_facts_hold_and_kept_up_with(store: SpaceStore) -> None:
    await store.apply([commit(1, put("both", memory(next_key=NEW)), put("old", memory()))])
    await store.configure(CHANGING)
    status = await store.status(EVERYTHING)
    assert (status.active, status.building) == (OLD, NEW)
    assert (status.memories, status.building_memories) == (2, 1)
    await store.apply([commit(2, put("old", memory(next_key=NEW)), put("third", memory(next_key=NEW)))])
    assert (await store.status(EVERYTHING)).building_memories == 3
    await store.apply([commit(3, put("old", memory()), delete("third"))])
    assert (await store.status(EVERYTHING)).building_memories == 1


async def test_promoting_switches_and_leaves_out_what_has_no_vector_yet(store: SpaceStore) -> None:
    await store.configure(CHANGING)
    await store.apply(
        [
            commit(
                1,
                put("both", memory(next_key=NEW, seed=3)),
                put("old", memory()),
                put("new", memory(key=NEW, seed=5)),
            )
        ]
    )
    assert await live(store) == {"both", "old"}
    await store.configure(CHANGING.promote())
    status = await store.status(EVERYTHING)
    assert (status.active, status.building, status.building_memories) == (NEW, None, 0)
    assert await live(store) == {"both", "new"}
    assert await skipped(store) == {"model": 1}
    (found,) = await nearest(store, NEW, 3)
    fact = (
        await store.database.read(lambda c: c.execute("SELECT rkey FROM facts WHERE id = ?", (found,)))
    ).fetchone()
    assert fact[0] == "both"


async def test_cancelling_drops_the_next_index(store: SpaceStore) -> None:
    await store.configure(CHANGING)
    await store.apply([commit(1, put("a", memory(next_key=NEW)))])
    await store.configure(CHANGING.cancel())
    status = await store.status(EVERYTHING)
    assert (status.active, status.building, status.memories) == (OLD, None, 1)
    tables = await store.database.read(
        lambda c: c.execute("SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%vec0%'").fetchone()[0]
    )
    assert tables == 1


async def test_another_next_model_is_built_anew(store: SpaceStore) -> None:
    await store.configure(CHANGING)
    await store.apply([commit(1, put("a", memory(next_key=NEW)), put("b", memory(next_key=OTHER)))])
    await store.configure(CHANGING.cancel().with_next(OTHER))
    status = await store.status(EVERYTHING)
    assert (status.building, status.building_memories) == (OTHER, 1)


async def test_declaring_another_model_and_back_judges_all_again(store: SpaceStore, clock: Clock) -> None:
    await store.apply([commit(1, put("a", memory(seed=2)), put("x", memory(key=OTHER)), refuse("bad"))])
    (before,) = await store.list(EVERYTHING, limit=9)
    clock.time += 1
    await store.configure(Config.declare(OTHER, created_at=CREATED_AT))
    assert await live(store) == {"x"}
    assert await skipped(store) == {"model": 1, "blank": 1}
    clock.time += 1
    await store.configure(CONFIG)
    assert await live(store) == {"a"}
    (after,) = await store.list(EVERYTHING, limit=9)
    assert after == before  # the very same fact came back: its times and recalls are kept
    assert await nearest(store, OLD, 2) == [before.id]


async def test_a_record_that_changed_while_it_was_left_out_is_a_new_fact(
    store: SpaceStore,
) -> None:
    await store.apply([commit(1, put("a", memory("one")))])
    await store.configure(Config.declare(OTHER, created_at=CREATED_AT))
    await store.apply([commit(2, put("a", memory("two")))])
    await store.configure(CONFIG)
    (fact,) = await store.list(EVERYTHING, limit=9)
    assert (fact.id, fact.text) == (2, "two")


async def test_a_record_deleted_while_it_was_left_out_stays_away(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory("secret")))])
    await store.configure(Config.declare(OTHER, created_at=CREATED_AT))
    await store.apply([commit(2, delete("a"))])
    await store.configure(CONFIG)
    assert await live(store) == set()
    assert await store.live(ALICE) == {}


async def test_without_its_config_a_space_indexes_nothing_until_it_is_back(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"))])
    await store.configure(None)
    status = await store.status(EVERYTHING)
    assert (status.config, status.active, status.memories) == (None, None, 0)
    assert await skipped(store) == {"no-config": 1}
    await store.configure(CONFIG)
    assert await live(store) == {"a"}


async def test_a_config_is_remembered_by_the_file(
    store: SpaceStore, path: Path, executor: ThreadPoolExecutor, clock: Clock
) -> None:
    config = CHANGING.with_next(OTHER)
    await store.configure(config)
    again = await SpaceStore.open(path, SPACE, executor, clock, analyser=WordAnalyser())
    assert again.config == config
    await again.close()


async def test_a_configuration_is_logged_in_one_line(empty: SpaceStore) -> None:
    await empty.apply([commit(1, put("a"), put("b", memory(key=OTHER)))])
    with capture_logs() as logs:
        await empty.configure(CONFIG)
    (line,) = logs
    assert (line["event"], line["indexed"], line["skipped"]) == ("space configured", 1, {"model": 1})


async def test_more_records_than_are_judged_at_a_time(store: SpaceStore) -> None:
    await store.apply([commit(1, *(put(f"r{n:04}", memory(next_key=NEW, seed=n)) for n in range(1001)))])
    await store.configure(CHANGING)
    assert (await store.status(EVERYTHING)).building_memories == 1001
    await store.configure(Config.declare(OTHER, created_at=CREATED_AT))
    assert await skipped(store) == {"model": 1001}
    await store.configure(CONFIG)
    assert (await store.status(EVERYTHING)).memories == 1001


@pytest.mark.parametrize("dims", [2, vectors.MAX_VEC0_DIMS, vectors.MAX_VEC0_DIMS + 1, MAX_DIMS])
async def test_a_model_of_any_width_has_an_index(empty: SpaceStore, dims: int) -> None:
    key = ModelKey("any", "sha256:a", dims)
    await empty.configure(Config(key, CREATED_AT))
    await empty.apply([commit(1, put("a", memory(key=key, seed=1)), put("b", memory(key=key, seed=2)))])

    def work(connection: Any) -> tuple[Any, Any]:
        index = vectors.find(connection, "active")
        assert index is not None
        (vector,) = vectors.unit_vectors([embedding(key, 1)], dims)
        return (
            [tuple(row) for row in connection.execute(index.nearest_sql(), (vector, 1))],
            [row[0] for row in connection.execute(index.nearest_sql("VALUES (?)"), (vector, 5, 2))],
        )

    first, within = await empty.database.read(work)
    assert first == [(1, 0.0)]
    assert within == [2]
    await empty.apply([commit(2, delete("a"))])
    assert await empty.check() == []


MODELS = [OLD, NEW, OTHER]
models = st.sampled_from(MODELS)
rkeys = st.sampled_from("abc")
memories = st.builds(
    memory,
    st.sampled_from(["one", "two words"]),
    st.sampled_from(["/", "/p", "/p/q"]),
    key=models,
    next_key=st.one_of(st.none(), models),
    seed=st.integers(1, 5),
)
histories = st.lists(
    st.one_of(
        st.tuples(st.just("put"), rkeys, memories),
        st.tuples(st.just("refuse"), rkeys),
        st.tuples(st.just("delete"), rkeys),
        st.tuples(st.just("complete"), st.dictionaries(rkeys, memories)),
        st.tuples(st.just("config"), st.one_of(st.none(), st.tuples(models, st.one_of(st.none(), models)))),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(histories)
def test_whatever_happens_the_file_holds_what_the_repo_and_the_config_say(history: list[Any]) -> None:
    repo: dict[str, Any] = {}
    config: Config | None = None
    with space_file(None) as file:
        for number, step in enumerate(history):
            match step:
                case ("put", rkey, value):
                    repo[rkey] = value
                    file.apply(commit(number, put(rkey, value)))
                case ("refuse", rkey):
                    repo[rkey] = None
                    file.apply(commit(number, refuse(rkey)))
                case ("delete", rkey):
                    repo.pop(rkey, None)
                    file.apply(commit(number, delete(rkey)))
                case ("complete", records):
                    repo = dict(records)
                    changes = [put(rkey, value) for rkey, value in records.items()]
                    file.apply(commit(number, *changes, complete=True))
                case ("config", None):
                    config = None
                    file.configure(None)
                case ("config", (model, following)):
                    config = Config(model, CREATED_AT, next=following if following != model else None)
                    file.configure(config)
            assert file.check() == []
            texts = dict(
                file.connection.execute(
                    "SELECT rkey, content FROM facts WHERE invalidated_at IS NULL"
                ).fetchall()
            )
            left_out = {row[0] for row in file.connection.execute("SELECT rkey FROM skipped")}
            expected = {
                rkey: value.text
                for rkey, value in repo.items()
                if value is not None and config is not None and embedding_for(value, config.model)
            }
            assert texts == expected
            assert left_out == set(repo) - set(expected)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_promoting_and_announcing_the_old_model_as_next_at_once(rows: int) -> None:
    with space_file(CHANGING) as file:
        file.apply(commit(1, *(put(f"r{n}", memory(next_key=NEW, seed=n)) for n in range(rows))))
        file.configure(Config(NEW, CREATED_AT, next=OLD))
        assert file.check() == []
        held = vectors.find(file.connection, "next")
        assert held is not None
        assert len(file.connection.execute(held.ids_sql()).fetchall()) == rows


@pytest.mark.parametrize("turns", [0, 1, 2, 50])
async def test_a_change_that_is_cancelled_is_known_as_the_file_has_it(store: SpaceStore, turns: int) -> None:
    changing = asyncio.create_task(store.configure(CHANGING))
    for _ in range(turns):
        await asyncio.sleep(0)
    changing.cancel()
    await asyncio.wait([changing])
    assert store.config == await store.database.read(read_config)
