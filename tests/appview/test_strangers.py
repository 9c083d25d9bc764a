"""What accounts that no rule names write where everyone may, as readers meet it: over HTTP from a server of
its own, and with the command line beside it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from lexicons.ids import LIST_MEMORIES, MEMORY, SEARCH_MEMORIES
from tests.appview.ingest.world import memory, rkey
from tests.appview.process import Appview, command, environment
from tests.appview.test_service import declare, until_settled
from tests.network.synthetic import Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from lexicons.spaces import SpaceUri
    from tests.network.synthetic import Account

pytestmark = pytest.mark.timeout(180)


class Garden:
    """A space that everyone reads, served by a process, and what readers and the operator do."""

    def __init__(self, network: Network, data: Path) -> None:
        self.network = network
        self.data = data
        self.variables = environment(data, network.pds[0].url, network.plc.url)
        self.space: SpaceUri
        self.authority: Account
        self.url = ""
        self._session: aiohttp.ClientSession

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        appview = await Appview.start(self.variables)
        try:
            self.url = await appview.url()
            async with aiohttp.ClientSession() as self._session:
                yield
        finally:
            assert await appview.stop() == 0

    async def declared(self) -> None:
        self.authority, self.space = declare(self.network)
        self.remember(self.authority, "authority's")
        async with asyncio.timeout(20):
            while not await self.listed():  # noqa: ASYNC110 - files signal nothing
                await asyncio.sleep(0.02)

    def stranger(self) -> Account:
        return self.network.account()

    def remember(self, account: Account, name: str, *tags: str) -> None:
        self.network.create(account, str(MEMORY), rkey(), memory(f"compost {name}", *tags))

    async def run(self, *arguments: str, code: int = 0) -> str:
        ended, output = await command(self.variables, *arguments)
        assert ended == code, output
        return output

    async def rule(self, what: str, rule: str) -> str:
        """Add or remove a rule about writing."""
        return await self.run("policy", what, rule.replace("SPACE", self.space))

    async def _asked(self, method: str, **parameters: str) -> tuple[int, Any]:
        query: Mapping[str, str] = {"space": self.space, "limit": "50", **parameters}
        async with self._session.get(f"{self.url}/xrpc/{method}", params=query) as response:
            return response.status, await response.json()

    async def listed(self) -> set[str]:
        """List the space as anybody; nothing where it is not there."""
        status, answer = await self._asked(str(LIST_MEMORIES))
        return _names(answer) if status == 200 else set()

    async def seen(self) -> set[str]:
        """Search the space and list it, which must tell the same; what is there besides the authority's."""
        status, answer = await self._asked(str(SEARCH_MEMORIES), q="compost", mode="keyword")
        assert status == 200, answer
        assert _names(answer) == await self.listed()
        return _names(answer) - {"authority's"}

    async def seen_beside(self) -> set[str]:
        """Search the folder with the command line."""
        output = await self.run("search", str(self.space), "compost", "--json", "--limit", "50")
        return _names(json.loads(output)) - {"authority's"}

    async def until_seen(self, *names: str) -> None:
        """Wait until readers are shown these, and no others."""
        wanted = {"authority's", *names}
        try:
            async with asyncio.timeout(30):
                while await self.listed() != wanted:  # noqa: ASYNC110 - files signal nothing
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{await self.listed()} is shown, not {wanted}") from None
        assert await self.seen() == set(names)


def _names(answer: Any) -> set[str]:
    return {each["text"].removeprefix("compost ") for each in answer["memories"]}


@pytest.fixture
async def garden(tmp_path: Path) -> AsyncIterator[Garden]:
    async with Network() as network:
        yield Garden(network, tmp_path)


ALL = "p, role:everyone, SPACE, path:/*, write, allow"


async def test_what_a_stranger_writes_is_found_for_as_long_as_the_rule_stands(garden: Garden) -> None:
    async with garden.served():
        await garden.declared()
        assert "followed from its next memory on" in await garden.rule("add", ALL)
        bob, carol = garden.stranger(), garden.stranger()
        garden.remember(bob, "bob's")
        await garden.until_seen("bob's")
        assert await garden.seen_beside() == {"bob's"}
        garden.remember(bob, "bob's second")
        garden.remember(carol, "carol's")
        await garden.until_seen("bob's", "bob's second", "carol's")
        await garden.run("verify")
        # A change that has nothing to do with them, then one that names one of them.
        await garden.rule("add", "p, role:other, SPACE, path:/other/*, write, allow")
        assert await garden.seen() == {"bob's", "bob's second", "carol's"}
        await garden.rule("add", f"p, {carol.did}, SPACE, path:/*, read, deny")
        assert await garden.seen() == {"bob's", "bob's second", "carol's"}
        await garden.rule("add", f"p, {carol.did}, SPACE, path:/*, write, deny")
        assert await garden.seen() == {"bob's", "bob's second"}  # from the next request on
        await garden.rule("remove", f"p, {carol.did}, SPACE, path:/*, write, deny")
        await garden.until_seen("bob's", "bob's second", "carol's")
    async with garden.served():
        assert await garden.seen() == {"bob's", "bob's second", "carol's"}
        garden.remember(bob, "bob's third")
        await garden.until_seen("bob's", "bob's second", "bob's third", "carol's")
        await garden.run("member", "add", garden.space, carol.did)
        await garden.rule("remove", ALL)
        assert await garden.seen() == {"carol's"}
        assert await garden.seen_beside() == {"carol's"}
        await until_settled(garden.data, garden.network)
        await garden.run("verify")
        assert await garden.seen() == {"carol's"}


async def test_strangers_are_reached_by_path_by_attribute_and_by_role(garden: Garden) -> None:
    async with garden.served():
        await garden.declared()
        bob = garden.stranger()
        for name, *tags in (
            ("at the root",),
            ("open", "/open/a"),
            ("closed", "/open/closed"),
            ("blue", "/b", "team=blue"),
            ("red", "/r", "team=red"),
        ):
            garden.remember(bob, name, *tags)
        await garden.rule("add", "p, role:everyone, SPACE, path:/open/*, write, allow")
        garden.remember(bob, "late", "/open")
        await garden.until_seen("open", "closed", "late")
        await garden.rule("add", "p, role:everyone, SPACE, path:/open/closed/*, write, deny")
        assert await garden.seen() == {"open", "late"}
        await garden.rule("add", "p, role:everyone, SPACE, tag:team=blue, write, allow")
        await garden.until_seen("open", "late", "blue")
        await garden.rule("remove", "p, role:everyone, SPACE, path:/open/*, write, allow")
        assert await garden.seen() == {"blue"}
        await garden.rule("add", f"p, role:everyone, SPACE, tag:owner={bob.did}, write, allow")
        await garden.until_seen("at the root", "open", "late", "blue", "red")
        for rule in ("tag:team=blue", f"tag:owner={bob.did}"):
            await garden.rule("remove", f"p, role:everyone, SPACE, {rule}, write, allow")
        assert await garden.seen() == set()
        await garden.rule("add", "p, role:guest, SPACE, path:/r/*, write, allow")
        await garden.rule("add", "g, role:everyone, role:guest, SPACE")
        garden.remember(bob, "guest's", "/r")
        await garden.until_seen("red", "guest's")
        await garden.run("verify")
        await garden.rule("remove", "g, role:everyone, role:guest, SPACE")
        assert await garden.seen() == set()


async def test_a_stranger_whose_account_is_not_active_is_hidden_until_it_is(garden: Garden) -> None:
    async with garden.served():
        await garden.declared()
        await garden.rule("add", ALL)
        bob = garden.stranger()
        garden.remember(bob, "bob's")
        await garden.until_seen("bob's")
        garden.network.set_status(bob, "deactivated")
        await garden.until_seen()
        await garden.run("verify")
        garden.network.set_status(bob, None)
        await garden.until_seen("bob's")
        garden.network.set_status(bob, "deleted")
        await garden.until_seen()
