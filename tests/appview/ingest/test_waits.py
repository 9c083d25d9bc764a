"""How long a change waits on its way to who searches while there is nothing else to do: in simulated time, so
that what is found is what the program chooses to wait, on sockets and files that are real."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from appview.memory.scope import EVERYTHING
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher
from appview.search.values import SearchRequest
from lexicons.ids import MEMORY
from tests.appview.ingest.world import World, memory
from tests.network.synthetic import Network
from tests.simulated_time import seconds_of, simulated, simulated_clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from lexicons.spaces import SpaceUri
    from tests.network.synthetic import Account

AT_MOST = 0.1  # seconds
# How long nothing happened: a checkpoint is due, has just been, or was long ago.
QUIET = (0.0, 0.1, 0.49, 0.51, 1.0, 31.0)


class Quiet(World):
    """A space of one author where nothing happens but what a test does, and somebody who searches it."""

    alice: Account
    space: SpaceUri
    searcher: Searcher

    async def found(self) -> set[str]:
        """Search for what every memory of these tests has."""
        async with self.pool.use(self.space) as store:
            request = SearchRequest(text="compost", limit=50)
            result = await self.searcher.search(store, request, store.visible(EVERYTHING))
        return {hit.fact.text for hit in result.hits}

    async def waits(self, change: Callable[[], object], texts: set[str]) -> float:
        """Make a change, and tell how long it takes until exactly these texts are found."""

        async def found() -> bool:
            return await self.found() == texts

        change()
        return await seconds_of(self.until(found))


@asynccontextmanager
async def quiet(folder: Path) -> AsyncIterator[Quiet]:
    async with Network() as network:
        world = Quiet(network, folder)
        world.clock, world.sleep = simulated_clock(), asyncio.sleep
        world.searcher = Searcher(cache=ViewCache(ANALYSIS))
        async with world.running():
            world.alice, world.space = world.authority()
            await world.until_declared(world.space)
            yield world
            await world.searcher.close()


@simulated
async def test_a_commit_alone_is_found_within_a_tenth_of_a_second(tmp_path: Path) -> None:
    async with quiet(tmp_path) as world:
        texts: set[str] = set()
        waits = []
        for number, seconds in enumerate(QUIET):
            await asyncio.sleep(seconds)
            text = f"compost {number}"
            texts |= {text}
            waits.append(await world.waits(lambda text=text: world.remember(world.alice, text), texts))
        assert max(waits) <= AT_MOST, waits


@simulated
async def test_an_update_and_a_delete_wait_no_longer(tmp_path: Path) -> None:
    async with quiet(tmp_path) as world:
        network, alice, waits = world.network, world.alice, []
        for seconds in QUIET:
            key = world.remember(alice, "compost is warm")
            await world.until_shown(world.space, {"compost is warm"})
            hot = memory("compost is hot")
            await asyncio.sleep(seconds)
            waits.append(
                await world.waits(
                    lambda key=key, hot=hot: network.update(alice, str(MEMORY), key, hot), {"compost is hot"}
                )
            )
            await asyncio.sleep(seconds)
            waits.append(await world.waits(lambda key=key: network.delete(alice, str(MEMORY), key), set()))
        assert max(waits) <= AT_MOST, waits


@simulated
async def test_nor_does_an_account_that_goes_or_comes_back(tmp_path: Path) -> None:
    async with quiet(tmp_path) as world:
        network, alice, waits = world.network, world.alice, []
        world.remember(alice, "compost is warm")
        await world.until_shown(world.space, {"compost is warm"})
        for seconds in (1.0, 61.0):
            for status, texts in (("deactivated", set()), (None, {"compost is warm"})):
                await asyncio.sleep(seconds)
                waits.append(
                    await world.waits(lambda status=status: network.set_status(alice, status), texts)
                )
        assert max(waits) <= AT_MOST, waits
