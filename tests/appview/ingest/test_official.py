"""The same on the official PDS and directory."""

from __future__ import annotations

import asyncio
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from lexicons.data import to_json
from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import World, config, memory, rkey

if TYPE_CHECKING:
    from pathlib import Path

    from tests.network.devnet import Account, Devnet

pytestmark = [pytest.mark.network, pytest.mark.timeout(120)]


class Official(World):
    """A world whose network is the official one."""

    def __init__(self, devnet: Devnet, folder: Path) -> None:
        self.devnet = devnet
        pds, plc = SimpleNamespace(url=devnet.pds_url), SimpleNamespace(url=devnet.plc_url)
        super().__init__(SimpleNamespace(pds=[pds], plc=plc), folder)  # type: ignore[arg-type]

    async def call(self, account: Account, method: str, body: dict[str, Any]) -> dict[str, Any]:
        """Call a procedure as an account."""
        return await asyncio.to_thread(
            self.devnet.call, method, body, pds=account.pds, token=account.access_jwt
        )

    async def activate(self, account: Account) -> None:
        """Reactivate an account: a procedure that takes no body."""
        headers = {"Authorization": f"Bearer {account.access_jwt}"}
        url = f"{account.pds}/xrpc/com.atproto.server.activateAccount"
        async with aiohttp.ClientSession() as session, session.post(url, headers=headers) as response:
            assert response.status == 200, await response.text()

    async def take_down(self, account: Account, applied: bool) -> None:
        """Take an account down, or give it back, as the PDS's administrator."""
        subject = {"$type": "com.atproto.admin.defs#repoRef", "did": account.did}
        body = {"subject": subject, "takedown": {"applied": applied, "ref": "test"}}
        await asyncio.to_thread(
            self.devnet.call, "com.atproto.admin.updateSubjectStatus", body, pds=account.pds, admin=True
        )

    async def put(self, account: Account, collection: str, key: str, record: dict[str, Any]) -> None:
        """Write a record."""
        body = {"repo": account.did, "collection": collection, "rkey": key, "record": to_json(record)}
        await self.call(account, "com.atproto.repo.putRecord", body)

    async def latest_rev(self, account: Account) -> str:
        """Ask the PDS for the rev of an account's repo."""
        method = f"com.atproto.sync.getLatestCommit?did={account.did}"
        answer = await asyncio.to_thread(self.devnet.call, method, pds=account.pds)
        return str(answer["rev"])

    async def versions(self, space: SpaceUri, key: str) -> int:
        """Count the versions of a record that a space has, shown or not."""
        async with self.pool.use(space) as store:
            ((count,),) = await store.database.read(
                lambda connection: connection.execute(
                    "SELECT count(*) FROM facts WHERE rkey = ?", (key,)
                ).fetchall()
            )
        return int(count)

    async def declare(self) -> tuple[Account, SpaceUri]:
        """Make an account that declares a space."""
        account = await self.devnet.acreate_account()
        await self.put(account, str(CONFIG), "self", config())
        return account, SpaceUri.public(Did(account.did))

    async def enroll(self, space: SpaceUri, account: Account) -> None:
        """Make an account a member."""
        await self.access.add_member(space, Did(account.did), "test")
        await self.reconcile()


@pytest.fixture
def official(devnet: Devnet, tmp_path: Path) -> Official:
    return Official(devnet, tmp_path)


async def test_a_memory_is_found_in_under_a_second(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.until_declared(space)
        for number in range(5):
            start = perf_counter()
            await official.put(alice, str(MEMORY), rkey(), memory(f"memory {number}"))
            await official.until_texts(space, {f"memory {each}" for each in range(number + 1)})
            assert perf_counter() - start < 1.0


async def test_memories_before_the_config_and_before_membership_are_found(official: Official) -> None:
    async with official.running():
        alice, bob = await official.devnet.acreate_account(), await official.devnet.acreate_account()
        await official.put(alice, str(MEMORY), rkey(), memory("before the config"))
        await official.put(bob, str(MEMORY), rkey(), memory("before membership"))
        await official.put(alice, str(CONFIG), "self", config())
        space = SpaceUri.public(Did(alice.did))
        await official.until_texts(space, {"before the config"})
        await official.enroll(space, bob)
        await official.until_texts(space, {"before the config", "before membership"})


async def test_two_hundred_records_in_one_commit(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.until_declared(space)
        writes = [
            {
                "$type": "com.atproto.repo.applyWrites#create",
                "collection": str(MEMORY),
                "rkey": rkey(),
                "value": to_json(memory(f"memory {number}")),
            }
            for number in range(200)
        ]
        await official.call(alice, "com.atproto.repo.applyWrites", {"repo": alice.did, "writes": writes})
        await official.until_texts(space, {f"memory {number}" for number in range(200)})


async def test_an_equal_value_put_again_makes_no_message_and_no_version(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        key, marker = rkey(), rkey()
        await official.put(alice, str(MEMORY), key, memory("first"))
        await official.until_texts(space, {"first"})
        await official.until(lambda: filled(official))
        before, rev = official.ingest.status()["events"], await official.latest_rev(alice)
        for _ in range(3):
            await official.put(alice, str(MEMORY), key, memory("first"))
        assert await official.latest_rev(alice) == rev
        await official.put(alice, str(MEMORY), marker, memory("marker"))
        await official.until_texts(space, {"first", "marker"})
        after = official.ingest.status()["events"]
        assert after["CommitEvent"] == before["CommitEvent"] + 1, "the marker's"
        assert await official.versions(space, key) == 1


async def test_updates_equal_values_deletes_and_odd_records(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        key, other = rkey(), rkey()
        await official.put(alice, str(MEMORY), key, memory("first"))
        await official.put(alice, str(MEMORY), other, memory("other"))
        await official.until_texts(space, {"first", "other"})
        await official.put(alice, str(MEMORY), key, memory("first"))  # an equal value: no commit at all
        await official.put(alice, str(MEMORY), key, memory("second"))
        await official.until_texts(space, {"second", "other"})
        odd = to_json(memory("odd")) | {"embedding": {"$bytes": "!!!!"}}
        await official.put(alice, str(MEMORY), rkey(), odd)
        gone = {"repo": alice.did, "collection": str(MEMORY), "rkey": other}
        await official.call(alice, "com.atproto.repo.deleteRecord", gone)
        await official.until_texts(space, {"second"})

        async def refused() -> bool:
            return await official.skipped(space, alice.did) == {"record": 1}

        await official.until(refused)


async def test_an_account_that_is_deactivated_comes_back_and_a_deleted_one_does_not(
    official: Official,
) -> None:
    async with official.running():
        _, space = await official.declare()
        bob = await official.devnet.acreate_account()
        await official.put(bob, str(MEMORY), rkey(), memory("bob's"))
        await official.until_declared(space)
        await official.enroll(space, bob)
        await official.until_texts(space, {"bob's"})
        await official.call(bob, "com.atproto.server.deactivateAccount", {})
        await official.until_shown(space, set())
        await official.activate(bob)
        await official.until_shown(space, {"bob's"})
        await official.put(bob, str(MEMORY), rkey(), memory("back"))
        await official.until_texts(space, {"bob's", "back"})
        await asyncio.to_thread(
            official.devnet.call, "com.atproto.admin.deleteAccount", {"did": bob.did}, admin=True
        )
        await official.until_texts(space, set())


async def test_an_account_that_is_taken_down_and_given_back(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.put(alice, str(MEMORY), rkey(), memory("mine"))
        await official.until_texts(space, {"mine"})
        await official.take_down(alice, True)
        await official.until_shown(space, set())
        await official.take_down(alice, False)
        await official.until_shown(space, {"mine"})
        await official.put(alice, str(MEMORY), rkey(), memory("again"))
        await official.until_texts(space, {"mine", "again"})


async def filled(official: Official) -> bool:
    """Whether every repo that is followed has been fetched, and is known to be on disk."""
    memberships = await official.control.memberships()
    repos = await official.control.repos()
    return set(memberships.values()) == {"synced"} and {row.sync_state for row in repos} == {"synchronized"}


async def test_a_restart_goes_on_where_it_ended(official: Official) -> None:
    async with official.running():
        alice, space = await official.declare()
        await official.put(alice, str(MEMORY), rkey(), memory("before"))
        await official.until_texts(space, {"before"})
        await official.until(lambda: filled(official))  # or the fetch that is under way is begun again
    await official.put(alice, str(MEMORY), rkey(), memory("while away"))
    async with official.running():
        await official.until_texts(space, {"before", "while away"})
        assert official.ingest.status()["repos"]["fetches"] == {}
