"""Sources, proofs, lists and handles on the official PDS and directory."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest

from appview.ingest.stream import Gap
from lexicons.ids import MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.test_official import Official
from tests.appview.ingest.world import memory, rkey
from tests.network.synthetic import Jetstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.network.devnet import Account, Devnet

pytestmark = [pytest.mark.network, pytest.mark.timeout(120)]


@pytest.fixture
def official(devnet: Devnet, tmp_path: Path) -> Official:
    return Official(devnet, tmp_path)


@asynccontextmanager
async def jetstream_of(devnet: Devnet) -> AsyncIterator[Jetstream]:
    """Run a Jetstream that reads the official firehose."""

    async def read() -> None:
        url = devnet.pds_url.replace("http", "ws", 1) + "/xrpc/com.atproto.sync.subscribeRepos"
        async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as socket:
            connected.set()
            async for message in socket:
                jetstream.read(message.data)

    connected = asyncio.Event()
    async with Jetstream() as jetstream:
        task = asyncio.create_task(read())
        await connected.wait()
        try:
            yield jetstream
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def delete(official: Official, account: Account, key: str) -> None:
    body = {"repo": account.did, "collection": str(MEMORY), "rkey": key}
    await official.call(account, "com.atproto.repo.deleteRecord", body)


async def test_claims_of_records_that_come_change_and_go_are_proven(official: Official) -> None:
    async with (
        jetstream_of(official.devnet) as jetstream,
        official.running(source=(f"jetstream+{jetstream.url}",)),
    ):
        alice, space = await official.declare()
        await official.until_declared(space)
        first, second = rkey(), rkey()
        await official.put(alice, str(MEMORY), first, memory("first"))
        await official.put(alice, str(MEMORY), second, memory("second"))
        await official.until_texts(space, {"first", "second"})
        await official.put(alice, str(MEMORY), first, memory("changed"))
        await official.until_texts(space, {"changed", "second"})
        await delete(official, alice, second)
        await official.until_texts(space, {"changed"})
        proofs = official.ingest.status()["repos"]["proofs"]
        assert proofs["proven"] >= 3
        assert proofs["proven gone"] == 1
        assert official.ingest.status()["repos"]["fetches"] == {"fetched": 1}


async def test_a_firehose_and_a_jetstream_at_once(official: Official) -> None:
    async with (
        jetstream_of(official.devnet) as jetstream,
        official.running(source=(f"pds+{official.devnet.pds_url}", f"jetstream+{jetstream.url}")),
    ):
        alice, space = await official.declare()
        await official.until_declared(space)
        keys = [rkey() for _ in range(8)]
        for key in keys:
            await official.put(alice, str(MEMORY), key, memory(f"memory {key}"))
        for key in keys[:3]:
            await delete(official, alice, key)
        await official.until_texts(space, {f"memory {key}" for key in keys[3:]})
        async with official.pool.use(space) as store:
            rows = await store.database.read(
                lambda c: c.execute(
                    "SELECT count(*) FROM facts WHERE cid <> '' GROUP BY rkey, cid"
                ).fetchall()
            )
        assert {row[0] for row in rows} == {1}


async def test_a_space_of_which_no_event_speaks_is_found_in_the_list_of_accounts(official: Official) -> None:
    alice, space = await official.declare()
    await official.put(alice, str(MEMORY), rkey(), memory("old"))
    async with Jetstream() as silent:
        line = f"jetstream+{silent.url}#discover={official.devnet.pds_url}"
        async with official.running(source=(line,)):
            await official.until_texts(space, {"old"})


async def test_after_a_gap_repos_that_are_where_they_were_are_not_fetched(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.put(alice, str(MEMORY), rkey(), memory("mine"))
        await official.until_texts(space, {"mine"})
        await official.until_status(
            lambda s: s["repos"]["synchronized"] == s["repos"]["followed"] > 0 == s["repos"]["to fetch"]
        )
        followed = official.ingest.status()["repos"]["followed"]
        fetched = official.ingest.status()["repos"]["fetches"]["fetched"]
        await official.ingest._intake.take("test", [Gap("outdated-cursor")])
        await official.until_status(lambda s: s["repos"]["fetches"].get("unchanged") == followed)
        assert official.ingest.status()["repos"]["fetches"]["fetched"] == fetched


async def test_a_handle_is_verified_and_follows_a_change(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.until_declared(space)
        name = alice.handle

        async def noted() -> bool:
            row = await official.control.repo(Did(alice.did))
            return row is not None and row.handle == name

        await official.until(noted)
        name = f"b{alice.handle}"
        await official.call(alice, "com.atproto.identity.updateHandle", {"handle": name})
        await official.until(noted)


async def test_a_deletion_is_confirmed_by_the_host(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        bob = await official.devnet.acreate_account()
        await official.put(bob, str(MEMORY), rkey(), memory("bob's"))
        await official.until_declared(space)
        await official.enroll(space, bob)
        await official.until_texts(space, {"bob's"})
        async with official.ingest._pipeline.lock:  # a relay's lie
            from appview.ingest.frames import AccountEvent

            await official.ingest._intake._event(AccountEvent(1, Did(bob.did), False, "deleted", ""), None)
        await official.until_status(lambda s: s["events"].get("account active", 0) >= 1)
        assert await official.texts(space) == {"bob's"}
        assert SpaceUri.public(Did(alice.did)) == space
        await asyncio.to_thread(
            official.devnet.call, "com.atproto.admin.deleteAccount", {"did": bob.did}, admin=True
        )
        await official.until_texts(space, set())
