"""kill -9 while accounts come and go, keys change and repos move between the two hosts that are followed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from appview.memory.scope import EVERYTHING
from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import config, held, memory, rkey
from tests.appview.killing import KILLS, SEED, admit, kill_again_and_again
from tests.appview.process import Appview, environment
from tests.appview.test_service import opened
from tests.network.synthetic import K256, Network, Write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.network.synthetic import Account

SETTLE_SECONDS = 150.0  # a key that changed unsaid is looked for again after a minute
RUNS = max(KILLS // 2, 1)  # of each kind of source


class Unrest:
    """A history of six authors on two hosts, from a seed. What happens, and how often, is counted."""

    def __init__(self, network: Network, seed: int) -> None:
        self.random = random.Random(seed)
        self.network = network
        self.authors = [network.account(pds=number % 2) for number in range(6)]
        self.spaces = [SpaceUri.public(Did(account.did)) for account in self.authors[:2]]
        self.happened: Counter[str] = Counter()
        for account in self.authors[:2]:
            network.create(account, str(CONFIG), "self", config())
        self._events: list[tuple[int, Callable[[Account], None]]] = [
            (50, self.write),
            (15, self.rewrite),
            (12, self.delete),
            (4, self.hide),
            (4, self.rotate),
            (3, self.move),
            (3, self.sync),
            (3, self.lose),
            (2, self.apply_many),
            (4, self.write_elsewhere),
        ]

    def step(self) -> None:
        """Let something happen to somebody."""
        account = self.random.choice(self.authors)
        if not account.active:
            if self.random.random() < 0.5:
                self.network.set_status(account, None)
                self.happened["show"] += 1
            return
        weights = [weight for weight, _ in self._events]
        ((_, event),) = self.random.choices(self._events, weights)
        event(account)
        self.happened[event.__name__] += 1

    def end(self) -> None:
        """Let everybody be there, and say something."""
        for account in self.authors:
            if not account.active:
                self.network.set_status(account, None)
            self.write(account)

    def write(self, account: Account, count: int = 0) -> None:
        count = count or self.random.randint(1, 4)
        writes = [Write("create", str(MEMORY), rkey(), self._memory()) for _ in range(count)]
        self.network.commit(account, *writes)

    def apply_many(self, account: Account) -> None:
        self.write(account, 40)

    def rewrite(self, account: Account) -> None:
        for key in self._one_of(account):
            self.network.update(account, str(MEMORY), key, self._memory())

    def delete(self, account: Account) -> None:
        for key in self._one_of(account):
            self.network.delete(account, str(MEMORY), key)

    def hide(self, account: Account) -> None:
        self.network.set_status(account, self.random.choice(["deactivated", "takendown", "suspended"]))

    def rotate(self, account: Account) -> None:
        self.network.rotate_key(account, K256(), announce=self.random.random() < 0.7)
        self.network.publish(account.draft())  # the host signs the repo again

    def move(self, account: Account) -> None:
        self.network.move(account, 1 - self.network.pds.index(self.network.host_of(account)))
        self.network.publish(account.draft())

    def sync(self, account: Account) -> None:
        self.network.announce_sync(account)

    def lose(self, account: Account) -> None:
        account.draft(Write("create", str(MEMORY), rkey(), self._memory()))

    def write_elsewhere(self, account: Account) -> None:
        self.network.create(account, "app.bsky.feed.post", rkey(), {"text": "beside the point"})

    def _one_of(self, account: Account) -> list[str]:
        keys = sorted(held(account))
        return [self.random.choice(keys)] if keys else []

    def _memory(self) -> dict[str, object]:
        return memory(f"memory {self.random.getrandbits(64):x}", f"/path/{self.random.randint(0, 5)}")


async def differences(data: Path, history: Unrest) -> list[str]:
    """List what is served of anybody and is not as in the repo."""
    found: list[str] = []
    async with opened(data) as (_, pool):
        for space in history.spaces:
            if not pool.exists(space):
                found.append(f"no file of {space}")
                continue
            async with pool.use(space) as store:
                shown = await store.list(store.visible(EVERYTHING), limit=1_000_000)
                seen = {(fact.author, fact.rkey, fact.cid) for fact in shown}
                for account in history.authors:
                    wanted = {(account.did, *pair) for pair in held(account).items()}
                    there = {each for each in seen if each[0] == account.did}
                    if there != wanted:
                        found.append(
                            f"{account.did}: {len(there - wanted)} extra, {len(wanted - there)} missing"
                        )
    return found


@pytest.mark.parametrize("kind", ["relays", "hosts"])
@pytest.mark.timeout(60 + SETTLE_SECONDS + 20 * RUNS)
async def test_killing_it_while_accounts_keys_and_hosts_change_loses_and_doubles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    with capsys.disabled():
        print(f"\nkill -9 of two {kind}: {RUNS} runs, seed {SEED} (ENGRAM_TEST_KILLS, ENGRAM_TEST_SEED)")
    async with Network(pds=2) as network:
        history = Unrest(network, SEED)
        prefix = "pds+" if kind == "hosts" else ""
        sources = " ".join(prefix + host.url for host in network.pds)
        variables = environment(tmp_path, sources, network.plc.url)
        await admit(tmp_path, history)
        await kill_again_and_again(variables, history, RUNS, steps=4, pause=0.03, longest=1.0)
        history.end()
        appview = await Appview.start(variables)
        found = ["not looked yet"]
        try:
            await appview.url()
            async with asyncio.timeout(SETTLE_SECONDS):
                while found:
                    await asyncio.sleep(0.5)
                    found = await differences(tmp_path, history)
        except TimeoutError:
            raise AssertionError(f"{found}\n{dict(history.happened)}") from None
        finally:
            assert await appview.stop() == 0
        if RUNS >= 6:
            assert len(history.happened) == 11, history.happened
        async with opened(tmp_path) as (_, pool):
            for space in history.spaces:
                async with pool.use(space) as store:
                    rows = await store.database.read(
                        lambda c: c.execute("SELECT author, rkey, cid FROM facts").fetchall()
                    )
                versions = Counter((row["author"], row["rkey"], row["cid"]) for row in rows)
                assert max(versions.values()) == 1, "a version of a record was indexed twice"
