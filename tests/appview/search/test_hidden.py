"""Hidden authors and search: neither an answer nor a score tells that they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.memory.scope import EVERYTHING
from appview.memory.store import SpaceStore
from appview.memory.values import Visibility
from appview.search.analysis import ANALYSIS
from appview.search.engine import SearchRequest
from tests.appview.search.support import ALICE, BOB, CONFIG, NOW, SPACE, Doc, Filler, halves

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.search.engine import Mode, Searcher, SearchResult

HIS = [
    Doc("compost is warm in the morning", vector=(1.0, 0.2, 0.0, 0.0), author=BOB),
    Doc("turn the compost weekly", ("/beds",), vector=(0.8, 0.6, 0.0, 0.0), author=BOB),
    Doc("mulch the tomatoes", vector=(0.0, 1.0, 0.0, 0.0), author=BOB),
]
HERS = [Doc(f"compost and more compost {number}", vector=(1.0, 0.0, 0.0, 0.0)) for number in range(20)]


def told(result: SearchResult) -> list[object]:
    return [
        result.mode,
        result.approximate,
        *((hit.fact.text, hit.score, hit.keyword, hit.vector, hit.words) for hit in result.hits),
    ]


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
async def test_a_hidden_author_changes_no_answer_and_no_score(
    space: Filler, searcher: Searcher, tmp_path: Path, executor: ThreadPoolExecutor, mode: Mode
) -> None:
    alone = await SpaceStore.open(tmp_path / "alone.db", SPACE, executor, lambda: NOW, analyser=ANALYSIS)
    await alone.configure(CONFIG)
    await Filler(alone).add(*HIS)
    store = space.store
    await space.add(*HERS, *HIS)
    request = SearchRequest(text="warm compost", vector=halves(1.0, 0.1, 0.0, 0.0), mode=mode, limit=30)

    async def ask() -> list[object]:
        return told(await searcher.search(store, request, store.visible(EVERYTHING)))

    with_her = await ask()
    await store.apply([Visibility(ALICE, True)])
    assert await ask() == told(await searcher.search(alone, request, EVERYTHING))
    await store.apply([Visibility(ALICE, False)])
    assert await ask() == with_her
    await alone.close()
