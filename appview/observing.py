"""The tasks that tell what a running appview does: a file for its command line, a port for a collector."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from appview.telemetry import Rates, database_sizes, render, write_live

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from appview.clock import Clock
    from appview.settings import Settings

    Status = Callable[[], dict[str, Any]]

PERIOD_SECONDS: Final = 1.0


@asynccontextmanager
async def told_to_the_command_line(settings: Settings, status: Status, clock: Clock) -> AsyncIterator[None]:
    """Keep the file of live numbers fresh during the block."""

    async def run() -> None:
        rates = Rates()
        while True:
            told, now = status(), clock()
            document = {"process": os.getpid(), "at": now, "rates": rates.sample(now, told), **told}
            await asyncio.to_thread(write_live, settings.data, document)
            await asyncio.sleep(PERIOD_SECONDS)

    task = asyncio.create_task(run(), name="live numbers")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def metrics_app(settings: Settings, status: Status) -> web.Application:
    """Answer `GET /metrics`, and nothing else."""

    async def metrics(_request: web.Request) -> web.Response:
        sizes = await asyncio.to_thread(database_sizes, settings.control_file, settings.spaces_folder)
        text = render(status(), sizes)
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics)])
    return app
