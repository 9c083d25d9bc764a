"""A process that brings a file to another analysis, step by step, and says so: to be killed at any moment.

Arguments: the file, the version. Prints how many memories are analysed anew after each step.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from appview.memory.store import SpaceStore
from tests.appview.search.support import NOW, SPACE
from tests.appview.search.upgraded import Upgraded


async def main(path: Path, version: str) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with ThreadPoolExecutor(2) as executor:
        store = await SpaceStore.open(path, SPACE, executor, lambda: NOW, analyser=Upgraded(version))
        while await store.reanalyse() is not None:
            print((await store.reanalysis()).done, flush=True)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
