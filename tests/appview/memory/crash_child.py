"""A process that applies a history to a file, batch by batch, and says so: to be killed at any moment.

Arguments: the file, the seed, the number of commits a batch. Prints how many commits are on disk after each.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from appview.memory.store import SpaceStore
from tests.appview.memory.support import CONFIG, SPACE, Clock, WordAnalyser, history


async def main(path: Path, seed: int, size: int) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    updates = history(seed)
    with ThreadPoolExecutor(2) as executor:
        store = await SpaceStore.open(path, SPACE, executor, Clock(), analyser=WordAnalyser())
        await store.configure(CONFIG)
        print(0, flush=True)
        for start in range(0, len(updates), size):
            await store.apply(updates[start : start + size])
            print(start + size, flush=True)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
