"""The shell of a test server: aiohttp on loopback, an ephemeral port, stopped by whoever started it."""

from __future__ import annotations

from typing import Self

from aiohttp import web


class Serving:
    """A server that runs inside `async with`."""

    def __init__(self) -> None:
        self.url = ""
        self._runner: web.AppRunner | None = None
        self._port = 0

    def routes(self) -> list[web.RouteDef]:
        """Give the routes."""
        raise NotImplementedError

    async def start(self) -> None:
        """Listen; a server that is started again listens on its old port."""
        app = web.Application()
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
