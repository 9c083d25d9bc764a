"""What the publisher's tests share: settings, a PDS that misbehaves, a sleep that only counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lexicons.configs import Config
from lexicons.hashing import model_key
from lexicons.ids import CONFIG, CONFIG_RKEY
from publisher.publisher import Publisher
from publisher.repo import cid_of_value
from publisher.settings import Settings
from tests.publisher.fake_pds import DID, PASSWORD, FakePds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DIMS = 16


class Waits(list[float]):
    """A sleep that remembers and does not wait."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def pds() -> AsyncIterator[FakePds]:
    """A PDS whose one account has declared `hashing-16` for its space."""
    async with FakePds() as running:
        config = Config.declare(model_key(DIMS), created_at="2026-11-30T09:15:00.000Z").to_record()
        running.records[CONFIG, CONFIG_RKEY] = (cid_of_value(config), config)
        yield running


@pytest.fixture
def settings(pds: FakePds, tmp_path: Path) -> Settings:
    return Settings(
        embedder=f"hashing-{DIMS}", plc_url=pds.url, session=tmp_path / "state" / "session.json", max_wait=60
    )


@pytest.fixture
async def publisher(settings: Settings, waits: Waits) -> AsyncIterator[Publisher]:
    """A publisher that is signed in."""
    async with Publisher(settings=settings, identifier=DID, password=PASSWORD, sleep=waits) as opened:
        yield opened
