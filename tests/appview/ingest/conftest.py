"""Fixtures of the ingest tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.appview.ingest.world import World
from tests.network.synthetic import Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A synthetic network with nothing in front of it yet."""
    async with Network() as network:
        yield World(network, tmp_path)
