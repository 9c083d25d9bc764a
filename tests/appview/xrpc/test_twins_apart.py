"""Twins of which one is answered from memory and the other from the file, because of what is hidden there.

They give the same bytes all the same: what is hidden decides which of the two answers, and how soon, and
nothing else. Budgets are not the same for both ways here, as they are not in service.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from appview.memory.search_reads import SearchReads
from appview.memory.values import Put, RepoUpdate
from appview.search import derived, keyword, vector
from appview.search.derived import MAX_CACHE_BYTES, ViewCache
from lexicons import ids
from lexicons.data import cid_of, cid_text, encode
from lexicons.embeddings import Embedding, encode_f16le
from lexicons.hashing import embed
from lexicons.memories import Memory
from lexicons.syntax import Tid
from tests.appview.xrpc.garden import ALICE, MODEL, SPACE, START
from tests.appview.xrpc.test_twins import (
    ALLOWS,
    DENIES,
    SECRET,
    Row,
    Twin,
    appview,
    pages,
    questions,
    rkey,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.access.rules import Permission
    from appview.settings import Settings

SHOWN: Final = sum(not row.hidden and row.fits and not row.refused for row in rows())
# Occurrences that the file reads for who may read all, and facts of words for everybody else.
BUDGETS: Final = [(25, keyword.MAX_POSTINGS), (keyword.MAX_OCCURRENCES, 40), (25, 60)]


def searches() -> list[tuple[str, dict[str, Any]]]:
    """Every search that could tell of a row, explained."""
    asked = [
        (method, {**given, "explain": True})
        for method, given in questions()
        if method in (ids.SEARCH_MEMORIES, ids.RECALL_MEMORIES)
    ]
    texts = ["compost tomato rain frost bees soil", "and the garden 3", "co* and", "g* the* to*"]
    asked += [(ids.SEARCH_MEMORIES, {"q": text, "explain": True, "limit": 50}) for text in texts]
    return asked


@asynccontextmanager
async def twins(
    folder: Path,
    settings: Settings,
    executor: ThreadPoolExecutor,
    rules: list[Permission],
    *,
    memory: int = MAX_CACHE_BYTES,
) -> AsyncIterator[tuple[Twin, Twin]]:
    """Run both; `memory` is what the one with hidden rows has for an index."""
    whole = appview(folder / "b", settings, executor, whole=True, rules=rules, memory=memory)
    async with (
        appview(folder / "a", settings, executor, whole=False, rules=rules, memory=MAX_CACHE_BYTES) as a,
        whole as b,
    ):
        yield a, b


async def is_in_memory(twin: Twin) -> bool:
    """Tell whether a question would be answered from memory."""
    async with twin.garden.pool.use(SPACE) as store:
        return await store.database.read(
            lambda connection: twin.cache.view(store, SearchReads(connection)) is not None
        )


async def ask_both(a: Twin, b: Twin) -> None:
    """Ask everything of both, a from memory and b from the file."""
    cut = 0
    for method, given in searches():
        expected = await pages(a, method, {"space": SPACE, **given})
        assert await pages(b, method, {"space": SPACE, **given}) == expected, (method, given)
        cut += b'"approximate":true' in expected[0][2]
    assert cut or keyword.MAX_POSTINGS > SHOWN * 10
    assert await is_in_memory(a)
    assert not await is_in_memory(b)


async def hide_more(twin: Twin, count: int) -> None:
    """Index more rows that the caller may not read."""
    async with twin.garden.pool.use(SPACE) as store:
        for number in range(10_000, 10_000 + count):
            row = Row(f"{SECRET} compost tomato the garden", ("/secret/more",))
            embedding = Embedding(MODEL, encode_f16le(embed(row.text, MODEL.dims)))
            memory = Memory(row.text, "2026-01-01T00:00:00.000Z", embedding, None, row.tags)
            change = Put(rkey(number), cid_text(cid_of(encode(memory.to_record()))), memory)
            await store.apply([RepoUpdate(ALICE, str(Tid.from_micros(START + number)), (change,))])


@pytest.fixture
def nothing_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build no index beside the questions: what needs one stays with the file."""
    monkeypatch.setattr(ViewCache, "wants_building", lambda self, store: False)


@pytest.fixture(params=BUDGETS, ids=str)
def _budget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyword, "MAX_OCCURRENCES", request.param[0])
    monkeypatch.setattr(keyword, "MAX_POSTINGS", request.param[1])


@pytest.mark.usefixtures("nothing_aside", "_budget")
@pytest.mark.parametrize("measured", [0, vector.MAX_MEASURED_ROWS])
@pytest.mark.parametrize("rules", [DENIES, ALLOWS], ids=["denied", "allowed"])
async def test_more_than_is_indexed_while_a_question_waits(
    tmp_path: Path,
    settings: Settings,
    executor: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    rules: list[Permission],
    measured: int,
) -> None:
    monkeypatch.setattr(vector, "MAX_MEASURED_ROWS", measured)
    async with twins(tmp_path, settings, executor, rules) as (a, b):
        monkeypatch.setattr(derived, "MAX_INLINE", SHOWN)
        await ask_both(a, b)


@pytest.mark.usefixtures("nothing_aside", "_budget")
async def test_more_than_is_followed_while_a_question_waits(
    tmp_path: Path, settings: Settings, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with twins(tmp_path, settings, executor, DENIES) as (a, b):
        assert await is_in_memory(b)
        monkeypatch.setattr(derived, "MAX_FOLLOWED", 5)
        await hide_more(b, 6)
        await ask_both(a, b)


@pytest.mark.usefixtures("_budget")
@pytest.mark.parametrize("rules", [DENIES, ALLOWS], ids=["denied", "allowed"])
async def test_no_memory_for_an_index(
    tmp_path: Path, settings: Settings, executor: ThreadPoolExecutor, rules: list[Permission]
) -> None:
    async with twins(tmp_path, settings, executor, rules, memory=0) as (a, b):
        await ask_both(a, b)


async def test_the_budget_of_the_file_is_there_for_who_may_read_everything(
    tmp_path: Path, settings: Settings, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What sets the two ways apart still does where nothing can be hidden."""
    monkeypatch.setattr(keyword, "MAX_OCCURRENCES", 25)
    async with twins(tmp_path, settings, executor, [], memory=0) as (_, b):
        _, _, body = await b.ask(ids.SEARCH_MEMORIES, space=SPACE, q="compost the garden", mode="keyword")
        assert json.loads(body)["approximate"]
