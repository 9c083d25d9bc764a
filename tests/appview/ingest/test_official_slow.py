"""A reader that an official PDS finds too slow, and drops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from appview.ingest import feeds
from appview.ingest.queues import ByteQueue
from lexicons.data import to_json
from lexicons.ids import MEMORY
from tests.appview.ingest.test_official import Official
from tests.appview.ingest.world import memory, rkey
from tests.network.devnet import Devnet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.network.devnet import Account

pytestmark = [pytest.mark.network, pytest.mark.timeout(180)]

COMMITS, RECORDS = 110, 14
TEXT = "a word and another one, " * 375  # 9 kB: all commits are 14 MB, more than sockets hold


@pytest.fixture(scope="module")
def impatient() -> Iterator[Devnet]:
    """A network whose PDS lets five events wait for a reader, and no more."""
    with Devnet(settings={"maxSubscriptionBuffer": 5}) as network:
        yield network


@pytest.fixture
def official(impatient: Devnet, tmp_path: Path) -> Official:
    return Official(impatient, tmp_path)


async def write_many(official: Official, account: Account) -> set[str]:
    """Write a commit of memories, and give their texts."""
    texts = {f"{rkey()} {TEXT}" for _ in range(RECORDS)}
    writes = [
        {
            "$type": "com.atproto.repo.applyWrites#create",
            "collection": str(MEMORY),
            "rkey": rkey(),
            "value": to_json(memory(text)),
        }
        for text in texts
    ]
    await official.call(account, "com.atproto.repo.applyWrites", {"repo": account.did, "writes": writes})
    return texts


async def test_a_reader_that_is_dropped_for_being_slow_misses_nothing(
    official: Official, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "ByteQueue", partial(ByteQueue, 2, 1_000))
    with capture_logs() as logs:
        async with official.running():
            alice, space = await official.declare()
            await official.until_declared(space)
            texts: set[str] = set()
            async with official.ingest._pipeline.lock:  # nothing goes on, as on a disk that is stuck
                for _ in range(COMMITS):
                    texts |= await write_many(official, alice)
            await official.until_texts(space, texts)
            assert len(texts) == COMMITS * RECORDS
            await official.until_status(
                lambda s: s["repos"]["synchronized"] == s["repos"]["followed"] > 0 == s["repos"]["to fetch"]
            )
    reasons = [each["reason"] for each in logs if each["event"] == "source disconnected"]
    assert "ConsumerTooSlow" in reasons
