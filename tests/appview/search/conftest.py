"""Fixtures: an open store with the real analysis, and who searches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.memory.store import SpaceStore
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher
from appview.search.tuning import Tuning
from tests.appview.search.support import CONFIG, NOW, SPACE, Filler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path


@pytest.fixture
async def store(tmp_path: Path, executor: ThreadPoolExecutor) -> AsyncIterator[SpaceStore]:
    """A store for the model. Whatever a test did to it, its file must be consistent at the end."""
    opened = await SpaceStore.open(tmp_path / "space.db", SPACE, executor, lambda: NOW, analyser=ANALYSIS)
    await opened.configure(CONFIG)
    yield opened
    findings = await opened.check()
    await opened.close()
    assert findings == []


@pytest.fixture
def space(store: SpaceStore) -> Filler:
    return Filler(store)


@pytest.fixture(params=["file", "cache"])
def unbounded(request: pytest.FixtureRequest) -> Searcher:
    """Like `searcher`, for whom nothing is too far."""
    tuning = Tuning(floor=-1.0, cut=0.0)
    return Searcher(cache=ViewCache(ANALYSIS) if request.param == "cache" else None, tuning=tuning)


@pytest.fixture(params=["file", "cache"])
def searcher(request: pytest.FixtureRequest) -> Searcher:
    """Whoever searches answers alike, from the file alone and from memory."""
    return Searcher(cache=ViewCache(ANALYSIS) if request.param == "cache" else None)
