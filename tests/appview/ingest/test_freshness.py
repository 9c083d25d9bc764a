"""What others make the program ask for takes nothing from an account: no look, no commit, no time.

A look at a document is worth what it was when it was asked for, whoever asked; a message that proves nothing
is worth a question to the account's host, and that once a minute. Real sockets, real hosts, real files.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from appview.access.callers import Callers
from appview.access.errors import CredentialRefused
from appview.clock import now
from appview.ingest.pace import MINUTE, SECOND
from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.access.minting import METHOD, SERVICE, mint
from tests.appview.ingest.world import World, config, memory, rkey
from tests.network.synthetic import CORRUPTIONS, K256, Account, Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


GET_REPO, GET_LATEST = "com.atproto.sync.getRepo", "com.atproto.sync.getLatestCommit"


@asynccontextmanager
async def hosts(folder: Path, *kinds: str) -> AsyncIterator[World]:
    """Run hosts, each a source of its own accounts (`pds+`), of anybody's (empty), or none (`-`)."""
    async with Network(pds=len(kinds)) as network:
        world = World(network, folder)
        pairs = zip(kinds, network.pds, strict=True)
        world.settings = replace(
            world.settings, source=tuple(kind + pds.url for kind, pds in pairs if kind != "-")
        )
        yield world


def moved(world: World, account: Account) -> None:
    """Move an account to the second host without a word."""
    world.network.pds[0].accounts.pop(account.did)
    world.network.pds[1].host(account)


def changed(world: World, account: Account, how: str) -> None:
    if how == "moved":
        moved(world, account)
    else:
        world.network.rotate_key(account, K256(), announce=False)


class Clock:
    """A clock that can be told that time has passed."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return now() + self.ahead


@pytest.mark.parametrize("how", ["rotated", "moved"])
async def test_a_forged_token_takes_no_look_from_its_account(tmp_path: Path, how: str) -> None:
    async with hosts(tmp_path, "pds+", "pds+") as world, world.running():
        await world.until_connected()
        alice, space = world.authority()
        world.remember(alice, "before")
        await world.until_mirrored(space, alice)
        callers = Callers(SERVICE, world.ingest.resolver, world.control, world.clock)
        forged = mint(K256(), issuer=alice.did, now=now() // SECOND)
        with pytest.raises(CredentialRefused, match="signed"):
            await callers.resolve([f"Bearer {forged}"], METHOD)
        asked = world.network.plc.requests[alice.did]
        changed(world, alice, how)
        world.remember(alice, "after")
        await world.until_mirrored(space, alice)
        assert world.network.plc.requests[alice.did] == asked + 1


@pytest.mark.parametrize("how", ["rotated", "moved"])
async def test_what_is_refused_by_a_document_of_before_is_made_good_when_it_may_be_asked_for_again(
    tmp_path: Path, how: str
) -> None:
    async with hosts(tmp_path, "pds+", "pds+") as world:
        world.clock = clock = Clock()
        async with world.running():
            await world.until_connected()
            alice, space = world.authority()
            world.remember(alice, "before")
            await world.until_mirrored(space, alice)
            await world.ingest.resolver.resolve(Did(alice.did), fresh=True)  # as a fetch may have it done
            changed(world, alice, how)
            world.remember(alice, "after")
            await world.until_status(
                lambda status: bool(status["rejects"].keys() & {"bad-signature", "wrong-host"})
            )
            row = world.ingest._pipeline.rows[Did(alice.did)]
            assert row.sync_state != "synchronized"  # a crash does not forget that a look is owed
            clock.ahead = MINUTE
            await world.until_mirrored(space, alice)
            await world.until_status(lambda status: status["repos"]["states"] == {"synchronized": 1})


@pytest.mark.parametrize("kind", ["garbage-car", "too-big", "bad-record-hash", "wrong-key", "future-rev"])
async def test_forgeries_of_a_relay_delay_nobody_and_have_no_repo_fetched(tmp_path: Path, kind: str) -> None:
    async with hosts(tmp_path, "pds+", "") as world, world.running():
        await world.until_connected()
        bob, space = world.authority()
        others = [world.network.account() for _ in range(20)]
        for other in others:
            world.remember(other, "hello")
            await world.access.add_member(space, Did(other.did), "test")
        await world.reconcile()
        await world.until_mirrored(space, bob, *others)
        own, relay = world.network.pds[0], world.network.pds[1].firehose
        fetched, asked = own.requests[GET_REPO], own.requests[GET_LATEST]

        async def storm() -> None:
            while True:
                for account in (bob, *others):
                    draft = Account(did=account.did).create(str(MEMORY), rkey(), memory("forged"))
                    CORRUPTIONS[kind](draft)
                    relay.push(draft.frame(relay.next_seq()))
                    await asyncio.sleep(0.002)

        task = asyncio.create_task(storm())
        for number in range(20):
            world.remember(bob, f"during {number}")
            async with asyncio.timeout(5):
                await world.until_mirrored(space, bob)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await world.until_status(lambda status: status["repos"]["to compare"] == 0)
        assert own.requests[GET_REPO] == fetched
        assert own.requests[GET_LATEST] - asked <= 1 + len(others)
        assert await world.texts(space) == {"hello", *(f"during {number}" for number in range(20))}


@pytest.mark.parametrize("kind", ["garbage-car", "missing-record", "high-s"])
async def test_a_true_commit_that_a_relay_damaged_is_made_good(tmp_path: Path, kind: str) -> None:
    async with hosts(tmp_path, "-", "") as world:
        world.clock = clock = Clock()
        async with world.running():
            alice = world.network.account()
            relay = world.network.pds[1].firehose

            def send(text: str, damage: str | None = None) -> None:
                draft = alice.create(str(MEMORY), rkey(), memory(text))
                if damage is not None:
                    CORRUPTIONS[damage](draft)
                relay.push(draft.frame(relay.next_seq()))

            relay.push(alice.create(str(CONFIG), "self", config()).frame(relay.next_seq()))
            space = SpaceUri.public(Did(alice.did))
            await world.until_declared(space)
            send("before")
            await world.until_texts(space, {"before"})
            fetched = world.network.pds[0].requests[GET_REPO]
            send("damaged", kind)
            await world.until_mirrored(space, alice)
            assert world.network.pds[0].requests[GET_REPO] == fetched + 1
            await world.until_status(lambda status: status["repos"]["states"] == {"synchronized": 1})
            rejected = world.ingest.status()["rejects"]
            send("damaged again", kind)
            await world.until_status(lambda status: status["rejects"] != rejected)
            assert world.ingest._pipeline.rows[Did(alice.did)].sync_state != "synchronized"
            clock.ahead = MINUTE
            await world.until_mirrored(space, alice)
            send("after")
            await world.until_mirrored(space, alice)


async def test_a_relays_word_that_hides_an_account_is_checked_once_its_own_host_sends_a_commit(
    tmp_path: Path,
) -> None:
    async with hosts(tmp_path, "pds+", "") as world, world.running():
        await world.until_connected()
        bob, space = world.authority()
        world.remember(bob, "before")
        await world.until_shown(space, {"before"})
        bob.active, bob.status = False, "deactivated"
        relay = world.network.pds[1].firehose
        relay.push(bob.account_frame(relay.next_seq()))
        bob.active, bob.status = True, None
        await world.until_shown(space, set())
        world.remember(bob, "after")
        await world.until_shown(space, {"before", "after"})
