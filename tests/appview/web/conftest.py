"""The appview of the tests of XRPC, with the pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession

from appview.service import make_site
from appview.xrpc.server import listening
from tests.appview.xrpc.conftest import context, garden, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from appview.xrpc.context import Context

__all__ = ["context", "garden", "settings"]


@dataclass(frozen=True)
class Shown:
    """What a browser gets."""

    status: int
    text: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Site:
    """Fetches pages and, for comparison, answers."""

    session: ClientSession
    base: str

    async def get(self, path: str, /, **parameters: Any) -> Shown:
        """Fetch a page."""
        async with self.session.get(self.base + path, params=parameters) as response:
            return Shown(response.status, await response.text(), dict(response.headers))

    async def ask(self, method: str, /, **parameters: Any) -> Any:
        """Ask XRPC the same, without a credential."""
        async with self.session.get(f"{self.base}/xrpc/{method}", params=parameters) as response:
            return await response.json()


@pytest.fixture
async def site(context: Context) -> AsyncIterator[Site]:
    """The running appview."""
    async with listening(make_site(context), "127.0.0.1", 0) as port, ClientSession() as session:
        yield Site(session, f"http://127.0.0.1:{port}")
    await context.searcher.close()
