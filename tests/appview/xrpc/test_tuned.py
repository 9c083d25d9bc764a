"""What an operator sets of search: the language of words, and how the two ways are put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.access.access import Access
from appview.control import Control
from appview.memory.pool import SpacePool
from appview.search.analysis import analysis_of
from appview.settings import Settings
from lexicons.ids import SEARCH_MEMORIES
from tests.appview.xrpc.conftest import clock
from tests.appview.xrpc.garden import SPACE, Client, Garden
from tests.appview.xrpc.test_around import ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.xrpc.context import Context


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, language="french", fusion="rank")


@pytest.fixture
async def garden(settings: Settings, executor: ThreadPoolExecutor) -> AsyncIterator[Garden]:
    """A garden whose files another language has filled."""
    control = await Control.open(settings.control_file, executor)
    access = await Access.open(control, clock)
    english = SpacePool(settings.spaces_folder, executor, clock, analyser=analysis_of("english"))
    before = Garden(control, access, english)
    await before.declare()
    await before.remember("les chevaux mangeaient")
    await before.remember("chevaux")
    await english.close()
    pool = SpacePool(settings.spaces_folder, executor, clock, analyser=analysis_of(settings.language))
    try:
        yield Garden(control, access, pool)
    finally:
        await pool.close()
        await control.close()


async def test_a_change_of_the_language_makes_the_words_of_a_file_anew(
    garden: Garden, client: Client, context: Context
) -> None:
    answer = await ask(client, SEARCH_MEMORIES, q="manger", mode="keyword")
    assert answer.body["memories"] == []  # as the file was made
    async with garden.pool.use(SPACE) as store:
        while await store.reanalyse() is not None:
            pass
    answer = await ask(client, SEARCH_MEMORIES, q="manger", mode="keyword")
    assert [hit["text"] for hit in answer.body["memories"]] == ["les chevaux mangeaient"]


async def test_ranks_are_put_together_where_that_is_set(garden: Garden, client: Client) -> None:
    answer = await ask(client, SEARCH_MEMORIES, q="chevaux", mode="keyword", explain=True)
    assert [hit["match"]["score"] for hit in answer.body["memories"]] == [1000, 917]  # 11 / 11 and 11 / 12
