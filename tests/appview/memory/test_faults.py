"""Files that cannot be used, disks that fill up, code that fails in the middle, processes that are killed."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pysqlite3
import pytest

from appview.errors import StoreDamaged, StoreError, StoreMismatch
from appview.memory import vectors
from appview.memory.analyser import AnalysedDocument
from appview.memory.scope import EVERYTHING
from appview.memory.store import SpaceStore, examine
from appview.memory.values import Delete
from appview.sqlite import is_damage
from lexicons.configs import Config
from lexicons.spaces import SpaceUri
from tests.appview.memory.support import (
    ALICE,
    BOB,
    CONFIG,
    CREATED_AT,
    DAMAGE,
    NEW,
    OLD,
    SPACE,
    Clock,
    WordAnalyser,
    commit,
    history,
    memory,
    put,
    rev,
    state_after,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from appview.sqlite import Connection

ROOT = Path(__file__).parents[3]
PAGE = 4096  # bytes, the default of SQLite


def alter(path: Path, *statements: str) -> None:
    """Change a closed file behind the store's back."""
    connection = pysqlite3.connect(path, isolation_level=None)
    try:
        vectors.prepare(connection)
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


def damage(path: Path) -> None:
    """Overwrite the head of every page but the first ones, which hold the schema."""
    data = bytearray(path.read_bytes())
    for start in range(PAGE * 12, len(data) - PAGE, PAGE):
        data[start : start + 512] = b"\xff" * 512
    path.write_bytes(data)


@pytest.fixture
def opening(path: Path, executor: ThreadPoolExecutor, clock: Clock) -> Callable[..., Any]:
    async def opened(space: SpaceUri = SPACE, analyser: Any = None) -> SpaceStore:
        return await SpaceStore.open(path, space, executor, clock, analyser=analyser or WordAnalyser())

    return opened


async def closed_file(opening: Callable[..., Any]) -> None:
    store = await opening()
    await store.configure(CONFIG)
    await store.apply([commit(1, put("a", memory("findable words")))])
    await store.close()


async def test_a_file_opened_again_holds_what_it_held(opening: Callable[..., Any]) -> None:
    await closed_file(opening)
    store = await opening()
    assert store.config == CONFIG
    assert [fact.text for fact in await store.list(EVERYTHING, limit=9)] == ["findable words"]
    await store.close()


async def test_the_file_of_another_space_is_not_opened(opening: Callable[..., Any]) -> None:
    await closed_file(opening)
    with pytest.raises(StoreMismatch, match="holds the space"):
        await opening(SpaceUri.public(BOB))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE models SET dims = 5", "active index is of"),
        (
            "UPDATE meta SET value = replace(value, '\"dims\": 4', '\"dims\": 5') WHERE key = 'config'",
            "index",
        ),
        ("DELETE FROM vector_indexes", "active index is of None"),
        ("DELETE FROM meta WHERE key = 'config'", "its config says None"),
        ("UPDATE meta SET value = '[]' WHERE key = 'config'", "config cannot be read"),
        ("UPDATE meta SET value = '{}' WHERE key = 'config'", "config cannot be read"),
        ("DROP TABLE facts_vec_1", "does not have 4 dimensions"),
    ],
)
async def test_a_file_that_contradicts_itself_is_not_opened(
    opening: Callable[..., Any], path: Path, statement: str, message: str
) -> None:
    await closed_file(opening)
    alter(path, statement)
    with pytest.raises(StoreDamaged, match=message) as caught:
        await opening()
    assert is_damage(caught.value)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version = 999", "schema version 999"),
        ("PRAGMA application_id = 7", "another program"),
        ("UPDATE meta SET value = 'at://did:plc:a/x.y.z/self' WHERE key = 'space'", "holds the space"),
    ],
)
async def test_a_file_that_somebody_else_wrote_is_told_without_opening_it(
    opening: Callable[..., Any], path: Path, statement: str, message: str
) -> None:
    await closed_file(opening)
    alter(path, statement)
    with pytest.raises(StoreMismatch, match=message):
        await opening()
    with pytest.raises(StoreMismatch, match=message):
        examine(path, SPACE)


async def test_a_file_tells_which_it_is_and_how_often_it_was_written(
    opening: Callable[..., Any], path: Path
) -> None:
    assert examine(path, SPACE) is None
    path.touch()
    assert examine(path, SPACE) is None
    store = await opening()
    first = store.state
    assert first.writes == 0 and first.made
    await store.configure(CONFIG)
    await store.configure(CONFIG)  # changes nothing
    await store.apply([])
    assert store.state.writes == 1
    await store.set_path_tag("/a", "room", "kitchen")
    assert examine(path, SPACE) == store.state
    await store.close()
    store = await opening()
    assert (store.state.made, store.state.writes) == (first.made, 2)
    assert first.lacks(store.state) and not store.state.lacks(first)
    await store.close()


async def test_an_index_of_the_wrong_width_is_not_used(opening: Callable[..., Any], path: Path) -> None:
    await closed_file(opening)
    alter(path, "DROP TABLE facts_vec_1", "CREATE VIRTUAL TABLE facts_vec_1 USING vec0 (embedding float[5])")
    with pytest.raises(StoreDamaged, match="does not have 4 dimensions"):
        await opening()


async def test_another_programs_database_is_left_alone(opening: Callable[..., Any], path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StoreMismatch, match="another program"):
        await opening()
    with sqlite3.connect(path) as connection:
        names = connection.execute("SELECT name FROM sqlite_schema").fetchall()
    connection.close()
    assert names == [("theirs",)]


@pytest.fixture
def garbage(path: Path) -> None:
    path.write_bytes(b"not a database, whatever its name says. " * 200)


@pytest.fixture
def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.usefixtures("garbage")
async def test_a_file_that_is_no_database_is_refused(opening: Callable[..., Any]) -> None:
    with pytest.raises(StoreError, match="not a database") as caught:
        await opening()
    assert "move it away" in caught.value.hint


@pytest.mark.usefixtures("folder")
async def test_a_folder_in_the_files_place_is_refused(opening: Callable[..., Any]) -> None:
    with pytest.raises(StoreError, match="unable to open"):
        await opening()


async def test_a_damaged_file_gives_an_error_and_no_answer(opening: Callable[..., Any], path: Path) -> None:
    store = await opening()
    await store.configure(CONFIG)
    await store.apply([commit(1, *(put(f"r{n}", memory("words " * 200, seed=n)) for n in range(200)))])
    await store.close()
    damage(path)
    with pytest.raises(StoreError, match="malformed") as caught:
        store = await opening()
        try:
            await store.list(EVERYTHING, limit=1000)
            await store.path_facts(EVERYTHING, "/", limit=1000)
        finally:
            await store.close()
    assert "damaged" in caught.value.hint


async def test_a_full_disk_undoes_the_batch_and_ingest_goes_on_when_there_is_room(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory("before")))])
    pages = await store.database.read(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await store.database.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 10}").fetchall())
    batch = [commit(2, *(put(f"r{n}", memory("word " * 5000, seed=n)) for n in range(20)))]
    with pytest.raises(StoreError, match="full") as caught:
        await store.apply(batch)
    assert "disk space" in caught.value.hint
    assert await store.applied(ALICE) == (rev(1), "bafydata1")
    assert set(await store.live(ALICE)) == {"a"}
    assert await store.check() == []
    await store.database.write(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchall())
    assert (await store.apply(batch)).created == 20


async def test_a_file_that_cannot_be_written_still_answers(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a"))])
    await store.database.write(lambda c: c.execute("PRAGMA query_only = ON"))
    with pytest.raises(StoreError, match="readonly") as caught:
        await store.apply([commit(2, put("b"))])
    assert "right to write" in caught.value.hint
    assert len(await store.list(EVERYTHING, limit=9)) == 1


class FailingAnalyser(WordAnalyser):
    """Fails on one word."""

    def document(self, text: str, tags: Sequence[str], source: str | None) -> AnalysedDocument:
        if "poison" in text:
            raise RuntimeError("an analyser with a bug")
        return super().document(text, tags, source)


async def test_code_that_fails_in_the_middle_of_a_batch_undoes_all_of_it(opening: Callable[..., Any]) -> None:
    await closed_file(opening)
    store = await opening(analyser=FailingAnalyser())
    before = await store.database.read(lambda c: c.execute("SELECT * FROM facts").fetchall())
    # The update of `a` is in a round of its own, which has been written when the second one fails.
    batch = [commit(2, put("a", memory("new", "/p"))), commit(3, put("a", memory("poison")), put("b"))]
    with pytest.raises(RuntimeError):
        await store.apply(batch)
    assert await store.database.read(lambda c: c.execute("SELECT * FROM facts").fetchall()) == before
    assert await store.applied(ALICE) == (rev(1), "bafydata1")
    assert await store.check() == []
    await store.close()
    store = await opening()
    assert await store.check() == []
    assert (await store.apply(batch)).updated == 2
    await store.close()


async def test_a_change_of_the_config_that_fails_leaves_the_old_one(opening: Callable[..., Any]) -> None:
    await closed_file(opening)
    store = await opening(analyser=FailingAnalyser())
    await store.apply([commit(2, put("new", memory("poison", key=NEW)))])
    with pytest.raises(RuntimeError):
        await store.configure(CONFIG.with_next(NEW).promote())
    assert store.config == CONFIG
    assert (await store.status(EVERYTHING)).active == CONFIG.model
    assert await store.check() == []
    await store.close()


async def test_another_analysis_fills_the_keyword_index_again(opening: Callable[..., Any]) -> None:
    class Shorter(WordAnalyser):
        def document(self, text: str, tags: Sequence[str], source: str | None) -> AnalysedDocument:
            return AnalysedDocument(text.replace("words", ""), "", "", "again")

    await closed_file(opening)
    store = await opening(analyser=Shorter("words-2"))
    while await store.reanalyse() is not None:
        pass

    async def found(column: str, word: str) -> int:
        sql = "SELECT count(*) FROM facts_fts WHERE facts_fts MATCH ?"
        return await store.database.read(lambda c: c.execute(sql, (f"{column}:{word}",)).fetchone()[0])

    assert await found("exact", "again") == 1
    assert await found("text", "findable") == 1
    assert await found("text", "words") == 0
    assert await store.check() == []
    await store.close()


async def test_the_check_sees_what_is_wrong(opening: Callable[..., Any], path: Path) -> None:
    await closed_file(opening)
    sound = path.with_suffix(".sound")
    shutil.copy(path, sound)
    for statement, finding in DAMAGE.items():
        shutil.copy(sound, path)
        alter(path, statement)
        store = await opening()
        findings = await store.check()
        await store.close()
        assert any(finding in each for each in findings), (statement, findings)


@pytest.mark.parametrize("statement", DAMAGE)
async def test_what_the_check_finds_is_mended_from_the_facts(
    opening: Callable[..., Any], path: Path, statement: str
) -> None:
    await closed_file(opening)
    alter(path, statement)
    store = await opening()
    assert await store.check()
    await store.mend()
    assert await store.check() == []
    (fact,) = await store.list(EVERYTHING, limit=9)
    assert fact.text == "findable words"
    await store.close()


@pytest.mark.parametrize(
    "table", ["fact_tags", "effective_tags", "fact_labels", "fact_links", "facts_fts", "facts_fts_words"]
)
async def test_a_derived_table_that_is_lost_is_made_anew_when_the_file_is_opened(
    opening: Callable[..., Any], path: Path, table: str
) -> None:
    await closed_file(opening)
    alter(path, f"DROP TABLE {table}")
    store = await opening()
    assert await store.check() == []
    await store.close()


async def test_mending_keeps_history_tombstones_and_a_next_model(opening: Callable[..., Any]) -> None:
    store = await opening()
    await store.configure(Config(OLD, CREATED_AT, next=NEW))
    await store.apply(
        [
            commit(1, put("a", memory("one", "/p", next_key=NEW)), put("b"), put("c", memory("two", "/q"))),
            commit(2, put("a", memory("three", "/p/r", "k=v")), Delete("b")),
        ]
    )

    def rows(connection: Connection) -> list[tuple[Any, ...]]:
        found = [tuple(row) for row in connection.execute("SELECT * FROM facts ORDER BY id")]
        return [*found, *(tuple(row) for row in connection.execute("SELECT full_path FROM paths ORDER BY 1"))]

    before = await store.database.read(rows)
    await store.mend()
    assert await store.database.read(rows) == before
    assert await store.check() == []
    await store.close()


@pytest.mark.parametrize("seed", range(6))
async def test_a_process_killed_at_any_moment_leaves_a_whole_number_of_batches(
    opening: Callable[..., Any], path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    size = chance.choice([1, 3, 10])
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.appview.memory.crash_child", str(path), str(seed), str(size)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    acknowledged = 0
    for _ in range(chance.randint(1, 120 // size)):
        line = await child.stdout.readline()
        acknowledged = int(line) if line else acknowledged
    await asyncio.sleep(chance.random() * 0.004)  # not a wait: somewhere inside the next batch
    child.kill()
    rest = await child.stdout.read()
    await child.wait()
    acknowledged = int(rest.split()[-1]) if rest.endswith(b"\n") else acknowledged

    updates = history(seed)
    store = await opening()
    assert await store.check() == []
    applied = await store.applied(ALICE)
    done = 0 if applied is None else [update.rev for update in updates].index(applied[0]) + 1
    assert done >= acknowledged
    assert done % size == 0 or done == len(updates)
    assert await store.live(ALICE) == state_after(updates[:done])
    await store.apply(updates)
    assert await store.live(ALICE) == state_after(updates)
    assert await store.check() == []
    await store.close()
