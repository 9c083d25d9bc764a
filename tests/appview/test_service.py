"""The appview as a process: started, asked, told, stopped and killed."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest

from appview.clock import now
from appview.control import Control
from appview.memory.pool import SpacePool
from appview.search.analysis import ANALYSIS
from appview.service import TURN_SECONDS, short_turns
from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import config, held, memory, rkey
from tests.appview.killing import KILLS, SEED, admit, kill_again_and_again
from tests.appview.process import Appview, command, environment
from tests.network.synthetic import Network, Write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.network.synthetic import Account


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    async with Network() as network:
        yield network


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[tuple[Control, SpacePool]]:
    """Open the files beside, or after, a running appview."""
    with ThreadPoolExecutor(4) as executor:
        control = await Control.open(data / "control.db", executor)
        pool = SpacePool(data / "spaces", executor, now, analyser=ANALYSIS)
        try:
            yield control, pool
        finally:
            await pool.close()
            await control.close()


async def until_settled(data: Path, network: Network, seconds: float = 40) -> None:
    """Wait until everything the network has sent is behind the cursor and every repo is in step."""
    async with opened(data) as (control, _), asyncio.timeout(seconds):
        while True:
            positions = [position for position, _ in (await control.cursors()).values()]
            repos = await control.repos()
            pairs = await control.memberships()
            if (
                positions
                and min(positions) >= network.pds[0].firehose.seq
                and all(row.sync_state == "synchronized" for row in repos)
                and all(state == "synced" for state in pairs.values())
            ):
                return
            await asyncio.sleep(0.02)


def declare(network: Network) -> tuple[Account, SpaceUri]:
    account = network.account()
    network.create(account, str(CONFIG), "self", config())
    return account, SpaceUri.public(Did(account.did))


async def test_a_memory_is_found_over_http_and_a_member_is_noticed(network: Network, tmp_path: Path) -> None:
    variables = environment(tmp_path, network.pds[0].url, network.plc.url)
    appview = await Appview.start(variables)
    try:
        url = await appview.url()
        _, space = declare(network)
        bob = network.account()
        network.create(bob, str(MEMORY), rkey(), memory("turn the compost weekly"))
        await until_settled(tmp_path, network)
        async with aiohttp.ClientSession() as session:

            async def found() -> list[str]:
                query = {"space": str(space), "q": "compost"}
                async with session.get(f"{url}/xrpc/garden.engram.searchMemories", params=query) as response:
                    answer = await response.json()
                    assert response.status == 200, answer
                    return [each["text"] for each in answer["memories"]]

            assert await found() == []
            code, output = await command(variables, "member", "add", str(space), bob.did)
            assert code == 0, output
            async with asyncio.timeout(3):
                while not await found():  # noqa: ASYNC110 - files signal nothing
                    await asyncio.sleep(0.02)
            assert await found() == ["turn the compost weekly"]
            for page in ("/", f"/browse/search?space={space}&q=compost"):
                async with session.get(url + page) as response:
                    assert response.status == 200
                    assert "engram appview" in await response.text()
            code, output = await command(variables, "member", "remove", str(space), bob.did)
            assert code == 0, output
            async with asyncio.timeout(3):
                while await found():  # noqa: ASYNC110 - files signal nothing
                    await asyncio.sleep(0.02)
    finally:
        assert await appview.stop() == 0
    events = [entry["event"] for entry in appview.log]
    assert events.count("listening") == 1
    assert events[-1] == "stopped"
    assert "compost" not in str(appview.log)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_after_what_was_received_is_written(
    network: Network, tmp_path: Path, number: int
) -> None:
    variables = environment(tmp_path, network.pds[0].url, network.plc.url)
    alice, space = declare(network)
    appview = await Appview.start(variables)
    await appview.url()
    await until_settled(tmp_path, network)
    for _ in range(100):
        network.create(alice, str(MEMORY), rkey(), memory("busy"))
        await asyncio.sleep(0)
    assert await appview.stop(number) == 0
    async with opened(tmp_path) as (control, pool):
        (position,) = [position for position, _ in (await control.cursors()).values()]
        async with pool.use(space) as store:
            kept = await store.live(Did(alice.did))
    # What is behind the cursor is there, to the last record.
    behind = position - (network.pds[0].firehose.seq - 100)
    assert len(kept) == behind


async def test_a_second_one_on_the_same_folder_says_so_and_ends(network: Network, tmp_path: Path) -> None:
    variables = environment(tmp_path, network.pds[0].url, network.plc.url)
    first = await Appview.start(variables)
    try:
        await first.url()
        second = await Appview.start(variables)
        async with asyncio.timeout(20):
            assert await second.process.wait() == 1
        await second.stop()
        assert "another engram-appview" in str(second.log)
    finally:
        assert await first.stop() == 0


async def test_a_port_that_is_taken_is_told(network: Network, tmp_path: Path) -> None:
    first = await Appview.start(environment(tmp_path / "a", network.pds[0].url, network.plc.url))
    try:
        port = (await first.url()).rsplit(":", 1)[1]
        variables = environment(tmp_path / "b", network.pds[0].url, network.plc.url, ENGRAM_PORT=port)
        second = await Appview.start(variables)
        async with asyncio.timeout(20):
            assert await second.process.wait() == 1
        await second.stop()
        assert port in str(second.log)
    finally:
        assert await first.stop() == 0


class History:
    """A scripted history: random writes by members of two spaces, from a seed."""

    def __init__(self, network: Network, seed: int) -> None:
        self.random = random.Random(seed)
        self.network = network
        self.authors = [network.account() for _ in range(3)]
        self.spaces = [SpaceUri.public(Did(account.did)) for account in self.authors[:2]]
        for account in self.authors[:2]:
            network.create(account, str(CONFIG), "self", config())

    def step(self) -> None:
        """Commit something."""
        account = self.random.choice(self.authors)
        keys = list(held(account))
        what = self.random.random()
        if what < 0.6 or not keys:
            writes = [
                Write("create", str(MEMORY), rkey(), self._memory()) for _ in range(self.random.randint(1, 5))
            ]
        elif what < 0.8:
            writes = [Write("update", str(MEMORY), self.random.choice(keys), self._memory())]
        elif what < 0.95:
            writes = [Write("delete", str(MEMORY), self.random.choice(keys))]
        else:
            writes = [Write("create", "app.bsky.feed.post", rkey(), {"text": "beside the point"})]
        self.network.commit(account, *writes)

    def _memory(self) -> dict[str, object]:
        return memory(f"memory {self.random.getrandbits(64):x}", f"/path/{self.random.randint(0, 5)}")


@pytest.mark.timeout(60 + 20 * KILLS)
async def test_killing_it_at_any_moment_loses_and_doubles_nothing(
    network: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\nkill -9: {KILLS} runs, seed {SEED} (ENGRAM_TEST_KILLS, ENGRAM_TEST_SEED)")
    history = History(network, SEED)
    variables = environment(tmp_path, network.pds[0].url, network.plc.url)
    await admit(tmp_path, history)
    await kill_again_and_again(variables, history, KILLS, steps=8, pause=0.02, longest=0.8)
    appview = await Appview.start(variables)
    try:
        await until_settled(tmp_path, network)
    finally:
        assert await appview.stop() == 0
    async with opened(tmp_path) as (_, pool):
        for space in history.spaces:
            async with pool.use(space) as store:
                for account in history.authors:
                    assert await store.live(Did(account.did)) == held(account)
                rows = await store.database.read(
                    lambda c: c.execute(
                        "SELECT author, rkey, cid, deleted_at, invalidated_at FROM facts"
                    ).fetchall()
                )
            live = Counter(
                (row["author"], row["rkey"])
                for row in rows
                if row["deleted_at"] is None and row["invalidated_at"] is None
            )
            assert max(live.values()) == 1
            versions = Counter((row["author"], row["rkey"], row["cid"]) for row in rows)
            assert max(versions.values()) == 1, "a version of a record was indexed twice"


def test_threads_take_turns_often_while_it_runs_and_as_before_afterwards() -> None:
    before = sys.getswitchinterval()
    with short_turns():
        assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before
