"""A file of another analysis: it answers as before while its words are made anew, then as the new ones do."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from appview.folder import space_file_name
from appview.memory.judge import Fits, judge
from appview.memory.keywords import BATCH, next_step
from appview.memory.pool import SpacePool
from appview.memory.reanalyser import Reanalyser
from appview.memory.scope import EVERYTHING
from appview.memory.search_reads import SearchReads
from appview.memory.store import SpaceStore
from appview.memory.stored import live_facts
from appview.memory.writer import NewFact, Writer
from appview.search.analysis import ANALYSIS, TextAnalysis
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.search.support import CONFIG, NOW, SPACE, Doc, Filler, halves
from tests.appview.search.upgraded import Upgraded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from appview.memory.analyser import AnalysedDocument
    from appview.search.values import SearchResult
    from appview.sqlite import Connection

ROOT = Path(__file__).parents[3]
NOUNS = ("tomato", "slug", "compost", "rain", "bed", "seed", "frost", "shed", "hose", "lettuce")
QUESTIONS = ("slugs on lettuce", "frost", '"rain compost"', "toma*", "shed -hose", "seeds in the bed")
MEMORIES = 3_000


def docs(count: int, seed: int = 1) -> list[Doc]:
    chance = random.Random(seed)
    return [
        Doc(
            " ".join(chance.choices(NOUNS, k=chance.randint(3, 9))) + f" {seed}-{number}",
            tuple(chance.sample(("/garden", "dry", "kind=note"), chance.randint(0, 2))),
            vector=(chance.random() - 0.5, chance.random() - 0.5, chance.random() - 0.5, 0.1),
        )
        for number in range(count)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / space_file_name(SPACE)


@asynccontextmanager
async def opened(path: Path, executor: ThreadPoolExecutor, analysis: TextAnalysis) -> AsyncIterator[Filler]:
    store = await SpaceStore.open(path, SPACE, executor, lambda: NOW, analyser=analysis)
    try:
        yield Filler(store)
        assert await store.check() == []
    finally:
        await store.close()


async def fill(path: Path, executor: ThreadPoolExecutor, count: int = MEMORIES) -> Filler:
    async with opened(path, executor, ANALYSIS) as space:
        await space.store.configure(CONFIG)
        await space.add(*docs(count))
        return space


def told(result: SearchResult) -> list[tuple[Any, ...]]:
    return [(hit.fact.uri, hit.score, hit.words) for hit in result.hits]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


async def ask(searcher: Searcher, store: SpaceStore, text: str, **more: Any) -> SearchResult:
    return await searcher.search(store, SearchRequest(text=text, limit=20, **more), EVERYTHING)


def words_of(connection: Connection, analysis: TextAnalysis) -> tuple[set[Any], set[Any]]:
    """Give what the keyword index holds, and what the live facts say that it should."""
    found = {tuple(row) for row in connection.execute("SELECT term, doc, col, offset FROM facts_fts_places")}
    wanted = set()
    for id_, text, tags, source in connection.execute(
        "SELECT id, content, tags, source FROM facts WHERE invalidated_at IS NULL"
    ).fetchall():
        document = analysis.document(text, json.loads(tags), source)
        for name, column in zip(("text", "tags", "source", "exact"), document.columns, strict=True):
            wanted |= {(term, id_, name, place) for place, term in enumerate(column.split())}
    return found, wanted


async def assert_is_of(store: SpaceStore, analysis: TextAnalysis) -> None:
    found, wanted = await store.database.read(lambda connection: words_of(connection, analysis))
    assert found == wanted
    tables = "SELECT name FROM sqlite_schema WHERE name LIKE '%next%' OR name LIKE '%replaced%'"
    left = await store.database.read(lambda connection: connection.execute(tables).fetchall())
    assert [row[0] for row in left] == []


@pytest.mark.parametrize("memory", [False, True], ids=["file", "memory"])
async def test_answers_stay_those_of_before_until_all_is_made_anew(
    path: Path, executor: ThreadPoolExecutor, memory: bool
) -> None:
    before = await fill(path, executor)
    new = Upgraded(keeps_old=True)
    old_searcher = Searcher()
    searcher = Searcher(cache=ViewCache(new) if memory else None, analysis=new)
    async with opened(path, executor, new) as space:
        space.commits, space.records = before.commits, before.records
        steps = 0
        while (how_far := await space.store.reanalysis()).done < how_far.total:
            for text in QUESTIONS:
                result = await ask(searcher, space.store, text)
                assert told(result) == told(await ask(old_searcher, space.store, text))
                assert result.hits
                assert not result.approximate
            # What is written meanwhile is found in the old index, and will be in the new one.
            await space.add(*docs(20, seed=100 + steps))
            await space.replace(f"k{steps * 7:04}", Doc(f"frost in a new version {steps}"))
            await space.delete(f"k{steps * 9 + 1:04}", f"k{MEMORIES - 1 - steps}")
            await searcher.settled()
            assert await space.store.reanalyse() is not None
            steps += 1
        while await space.store.reanalyse() is not None:
            assert await space.store.check() == []
        assert steps >= MEMORIES // BATCH
        await assert_is_of(space.store, new)
        # From here on questions are read as the new program reads them, from memory too.
        fresh = Searcher(analysis=new)
        for text in QUESTIONS:
            await ask(searcher, space.store, text)
            await searcher.settled()
            result = await ask(searcher, space.store, text)
            assert told(result) == told(await ask(fresh, space.store, text))
            assert not result.approximate
        assert told(await ask(fresh, space.store, "frost"))
        assert not (await ask(old_searcher, space.store, "frost", mode="keyword")).hits
    await searcher.close()


async def test_where_the_old_analysis_is_gone_answers_are_marked_until_then(
    path: Path, executor: ThreadPoolExecutor
) -> None:
    await fill(path, executor, 600)
    new = Upgraded()
    searcher = Searcher(cache=ViewCache(new), analysis=new)
    vector = halves(1.0, 0.0, 0.0, 0.0)
    async with opened(path, executor, new) as space:
        space.commits, space.records = 1, 600
        while True:
            await space.add("written meanwhile")
            result = await ask(searcher, space.store, "meanwhile written", mode="keyword")
            assert result.hits
            by_meaning = await ask(searcher, space.store, None, vector=vector)  # type: ignore[arg-type]
            assert not by_meaning.approximate
            if not result.approximate:
                break
            assert await space.store.reanalyse() is not None
        while await space.store.reanalyse() is not None:
            pass
        await assert_is_of(space.store, new)


async def test_the_language_of_before_is_still_known(path: Path, executor: ThreadPoolExecutor) -> None:
    await fill(path, executor, 50)
    german = TextAnalysis("german")
    english = german.of_version(ANALYSIS.version)
    assert english is not None
    assert english.document("the tomatoes", (), None) == ANALYSIS.document("the tomatoes", (), None)
    assert german.of_version("1-klingon") is None
    assert german.of_version("0-english") is None
    async with opened(path, executor, german) as space:
        searcher = Searcher(analysis=german)
        result = await ask(searcher, space.store, "slugs on lettuce")
        assert told(result) == told(await ask(Searcher(), space.store, "slugs on lettuce"))
        assert not result.approximate


@pytest.mark.parametrize("other", ["103-english", ANALYSIS.version])
async def test_another_program_begins_anew(path: Path, executor: ThreadPoolExecutor, other: str) -> None:
    before = await fill(path, executor, 1_200)
    async with opened(path, executor, Upgraded()) as space:
        for _ in range(2):
            await space.store.reanalyse()
        assert (await space.store.reanalysis()).done > 0
    last: TextAnalysis = ANALYSIS if other == ANALYSIS.version else Upgraded(other)
    async with opened(path, executor, last) as space:
        space.commits, space.records = before.commits, before.records
        await space.delete("k0003")
        await space.add("a late frost")  # which the program before cannot follow
        await space.replace("k0002", Doc("another frost"))
        while await space.store.reanalyse() is not None:
            pass
        await assert_is_of(space.store, last)


async def test_mending_a_file_on_its_way_leaves_it_whole(path: Path, executor: ThreadPoolExecutor) -> None:
    await fill(path, executor, 1_200)
    new = Upgraded()
    async with opened(path, executor, new) as space:
        for _ in range(2):
            await space.store.reanalyse()
        await space.store.mend()
        assert await space.store.check() == []
        while await space.store.reanalyse() is not None:
            pass
        await assert_is_of(space.store, new)


@pytest.mark.parametrize("steps", [1, 2, 3], ids=["to come", "reached", "the last"])
async def test_what_goes_or_comes_back_between_plan_and_step_is_in_step(
    path: Path, executor: ThreadPoolExecutor, steps: int
) -> None:
    await fill(path, executor, 1_200)
    new = Upgraded()
    async with opened(path, executor, new) as space:
        database = space.store.database
        for _ in range(steps):
            await space.store.reanalyse()
        (back, version), (gone, _) = (await database.read(lambda c: next(live_facts(c))))[300:302]
        (fits,) = judge([version.memory], CONFIG.model, None)
        assert isinstance(fits, Fits)
        fact = NewFact(version, fits, revives=back)
        await database.write(lambda c: Writer(c, new, NOW).retire([back]))
        step = await database.read(lambda c: next_step(c, new))
        assert step is not None
        await database.write(lambda c: Writer(c, new, NOW).retire([gone]))
        await database.write(lambda c: Writer(c, new, NOW).make_live([fact]))
        await database.write(lambda c: step.take(c, new))
        assert await space.store.check() == []
        # Planned twice, as by two processes: the second finds that it is done.
        await database.write(lambda c: step.take(c, new))
        assert await space.store.check() == []
        while await space.store.reanalyse() is not None:
            pass
        await assert_is_of(space.store, new)


async def test_an_index_in_memory_of_the_old_words_does_not_take_the_place_of_one_of_the_new(
    path: Path, executor: ThreadPoolExecutor
) -> None:
    await fill(path, executor, 2_100)  # more than are made an index of while a question waits
    new = Upgraded(keeps_old=True)
    cache, began, go_on = ViewCache(new), threading.Event(), threading.Event()

    def check() -> None:
        began.set()
        assert go_on.wait(20)

    async with opened(path, executor, new) as space:
        store = space.store
        build = asyncio.create_task(store.database.read(lambda c: cache.build(store, SearchReads(c), check)))
        await until(began.is_set)
        while await store.reanalyse() is not None:
            pass
        await store.database.read(lambda c: cache.build(store, SearchReads(c)))
        view = await store.database.read(lambda c: cache.view(store, SearchReads(c)))
        assert view is not None
        assert view.analysis == new.version
        go_on.set()
        await build
        assert await store.database.read(lambda c: cache.view(store, SearchReads(c))) is view


@pytest.mark.parametrize("seed", range(4))
async def test_a_process_killed_at_any_moment_goes_on_where_it_stopped(
    path: Path, executor: ThreadPoolExecutor, seed: int
) -> None:
    await fill(path, executor)
    chance = random.Random(seed)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.appview.search.reanalysis_child", str(path), "102-english"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    acknowledged = 0
    for _ in range(chance.randint(2, MEMORIES // BATCH)):
        acknowledged = int(await child.stdout.readline())
    await asyncio.sleep(chance.random() * 0.03)  # not a wait: somewhere inside the next step
    child.kill()
    await child.wait()
    async with opened(path, executor, Upgraded()) as space:
        done = (await space.store.reanalysis()).done
        assert acknowledged <= done
        assert await space.store.check() == []
        left = 0
        while (step := await space.store.reanalyse()) is not None:
            left += step
        assert left == MEMORIES - done
        await assert_is_of(space.store, Upgraded())


async def test_a_space_that_cannot_be_done_keeps_no_other_waiting(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    class Failing(Upgraded):
        def document(self, text: str, tags: Sequence[str], source: str | None) -> AnalysedDocument:
            if "poison" in text:
                raise RuntimeError("an analysis with a bug")
            return super().document(text, tags, source)

    spaces = [SPACE, *(SpaceUri.public(Did(f"did:plc:{name}")) for name in ("damaged", "gone", "last"))]
    before = SpacePool(tmp_path, executor, lambda: NOW, analyser=ANALYSIS)
    for space, words in zip(spaces, ("poison", "frost", "frost", "frost"), strict=True):
        async with before.use(space) as store:
            await store.configure(CONFIG)
            await Filler(store).add(f"the {words} of May")
    await before.close()
    before.path(spaces[1]).write_bytes(b"no database at all" * 400)
    before.path(spaces[2]).unlink()

    new = Failing()
    pool = SpacePool(tmp_path, executor, lambda: NOW, analyser=new)

    async def declared() -> list[SpaceUri]:
        return spaces

    reanalyser = Reanalyser(pool, new.version, declared, rest=0.0)
    await reanalyser.round()
    assert reanalyser.standing.spaces == 0
    assert not pool.exists(spaces[2])  # no file is made for what has none
    async with pool.use(spaces[3]) as store:
        await assert_is_of(store, new)
    async with pool.use(SPACE) as store:
        assert (await ask(Searcher(analysis=new), store, "may", mode="keyword")).approximate
    await pool.close()


async def test_a_server_does_it_beside_questions_and_writes(path: Path, executor: ThreadPoolExecutor) -> None:
    before = await fill(path, executor)
    new = Upgraded(keeps_old=True)
    pool = SpacePool(path.parent, executor, lambda: NOW, analyser=new)

    async def spaces() -> list[Any]:
        return [SPACE]

    first = Reanalyser(pool, new.version, spaces, rest=0.2)
    first.start()
    await until(lambda: first.standing.progress.done > 0)
    assert first.standing.document()["memories"] == MEMORIES
    assert first.standing.spaces == 1
    await first.close()  # a server that is stopped and started again
    async with pool.use(SPACE) as store:
        done = (await store.reanalysis()).done
        assert 0 < done < MEMORIES
        space = Filler(store)
        space.commits, space.records = before.commits, before.records
        second = Reanalyser(pool, new.version, spaces, rest=0.2)
        second.start()
        searcher, asked = Searcher(cache=ViewCache(new), analysis=new), 0
        async with asyncio.timeout(60):
            await until(lambda: second.standing.spaces > 0)
            while second.standing.spaces:
                await space.add(f"frost number {asked}")
                result = await ask(searcher, store, f'"frost number {asked}"')
                assert [hit.fact.text for hit in result.hits] == [f"frost number {asked}"]
                assert not result.approximate
                asked += 1
        await searcher.close()
        await second.close()
        await assert_is_of(store, new)
        assert await store.check() == []
    await pool.close()
