"""Fixtures: an open store with a config."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.memory.store import SpaceStore
from tests.appview.memory.support import CONFIG, SPACE, Clock, WordAnalyser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "space.db"


@pytest.fixture
async def empty(path: Path, executor: ThreadPoolExecutor, clock: Clock) -> AsyncIterator[SpaceStore]:
    """A store without a config. Whatever a test did to it, its file must be consistent at the end."""
    store = await SpaceStore.open(path, SPACE, executor, clock, analyser=WordAnalyser())
    yield store
    findings = await store.check()
    await store.close()
    assert findings == []


@pytest.fixture
async def store(empty: SpaceStore) -> SpaceStore:
    """A store for the old model."""
    await empty.configure(CONFIG)
    return empty
