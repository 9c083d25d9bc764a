"""What goes wrong with an official PDS of one's own: restarts, forgotten events, new handles."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.test_official import Official
from tests.appview.ingest.world import memory, rkey
from tests.network.devnet import Devnet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.network, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Devnet]:
    """A network whose PDS replays nothing that is older than a moment."""
    with Devnet(settings={"repoBackfillLimitMs": 1}) as network:
        yield network


@pytest.fixture
def official(forgetful: Devnet, tmp_path: Path) -> Official:
    return Official(forgetful, tmp_path)


async def test_a_cursor_that_is_too_old_costs_a_comparison_and_nothing_else(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.until_declared(space)
        await official.put(alice, str(MEMORY), rkey(), memory("before"))
        await official.until_texts(space, {"before"})
    await official.put(alice, str(MEMORY), rkey(), memory("while away, and forgotten"))
    await asyncio.sleep(0.1)  # longer than the PDS remembers
    async with official.running():
        await official.until_texts(space, {"before", "while away, and forgotten"})

        async def counted() -> bool:
            return official.ingest.status()["repos"]["fetches"].get("fetched", 0) >= 1

        await official.until(counted)  # what it wrote can be seen a moment before


async def test_a_pds_that_restarts_in_mid_stream(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.until_declared(space)
        texts = {f"memory {number}" for number in range(12)}
        for text in sorted(texts)[:6]:
            await official.put(alice, str(MEMORY), rkey(), memory(text))
        await asyncio.to_thread(official.devnet.restart)
        for text in sorted(texts)[6:]:
            await official.put(alice, str(MEMORY), rkey(), memory(text))
        await official.until_texts(space, texts)
        assert max(each["reconnects"] for each in official.ingest.status()["sources"].values()) >= 1


async def test_a_changed_handle_is_noticed_and_changes_no_memory(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.put(alice, str(MEMORY), rkey(), memory("mine"))
        await official.until_texts(space, {"mine"})
        handle = f"new-{alice.handle}"
        await official.call(alice, "com.atproto.identity.updateHandle", {"handle": handle})

        async def noticed() -> bool:
            row = await official.control.repo(Did(alice.did))
            return row is not None and row.handle == handle

        await official.until(noticed)
        await official.put(alice, str(MEMORY), rkey(), memory("still mine"))
        await official.until_texts(space, {"mine", "still mine"})
