"""An appview on a socket, filled through its stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession

from appview.access.access import Access
from appview.control import Control
from appview.memory.pool import SpacePool
from appview.search.analysis import ANALYSIS
from appview.settings import Settings
from appview.xrpc.app import make_app
from appview.xrpc.context import Context
from appview.xrpc.server import listening
from tests.appview.xrpc.garden import START, Client, Garden

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path


def clock() -> int:
    """Stand still on a day after every memory of the tests."""
    return START + 10**15


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of the appview under test; a test module may have its own."""
    return Settings(data=tmp_path, public_url="https://memory.example.org", registration="closed")


@pytest.fixture
async def garden(settings: Settings, executor: ThreadPoolExecutor) -> AsyncIterator[Garden]:
    """The open stores."""
    control = await Control.open(settings.control_file, executor)
    pool = SpacePool(settings.spaces_folder, executor, clock, analyser=ANALYSIS)
    try:
        yield Garden(control, await Access.open(control, clock), pool)
    finally:
        await pool.close()
        await control.close()


@pytest.fixture
def context(garden: Garden, settings: Settings) -> Context:
    """What the handlers work with."""
    return Context.of(settings, garden.control, garden.access, garden.pool, clock=clock)


@pytest.fixture
async def client(context: Context) -> AsyncIterator[Client]:
    """A client of the running appview."""
    async with (
        listening(make_app(context), "127.0.0.1", 0) as port,
        ClientSession() as session,
    ):
        yield Client(session, f"http://127.0.0.1:{port}")
