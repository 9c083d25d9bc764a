"""How long a change waits on its way to readers while there is nothing else to do: in simulated time, so that
what is found is what the program chooses to wait, on sockets and files that are real."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.appview.ingest.world import World
from tests.simulated_time import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lexicons.spaces import SpaceUri
    from tests.network.synthetic import Account

AT_MOST = 0.1  # seconds
# How long there was nothing to do: while a checkpoint is due, after it, and long after everything.
QUIET = [0.0, 0.1, 0.49, 0.51, 1.0, 60.0, 3600.0]


class Quiet(World):
    """A space with one author, where nothing happens but what a test does."""

    space: SpaceUri
    alice: Account
    sleep = staticmethod(asyncio.sleep)

    async def begin(self) -> None:
        """Make the space."""
        self.alice, self.space = self.authority()
        await self.until_declared(self.space)
        self.remember(self.alice, "a memory")
        await self.until_shown(self.space, {"a memory"})

    async def takes(self, quiet: float, change: Callable[[], object], texts: set[str]) -> float:
        """Tell how long it takes after so long a quiet until a reader is shown exactly these texts."""
        await asyncio.sleep(quiet)
        change()
        return await seconds_of(self.until_shown(self.space, texts))
