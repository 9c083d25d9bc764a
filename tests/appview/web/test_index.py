"""The page at `/`."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession, web

from appview.settings import Settings
from appview.web.index import add_pages, index_page
from lexicons.catalog import garden

if TYPE_CHECKING:
    from pathlib import Path


class Reader(HTMLParser):
    """Collects what a browser would do something with."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("registration", ["open", "closed"])
def test_the_page_says_who_the_service_is_and_what_it_answers(tmp_path: Path, registration: str) -> None:
    settings = Settings(data=tmp_path, public_url="https://memory.example.org", registration=registration)  # type: ignore[arg-type]
    page = Reader(index_page(settings))
    assert "did:web:memory.example.org" in page.words
    assert registration in page.words
    for method in garden().methods():
        assert ("href", f"/xrpc/{method.nsid}") in page.attributes
        assert method.description in page.words


def test_the_page_runs_and_loads_nothing(tmp_path: Path) -> None:
    page = Reader(index_page(Settings(data=tmp_path)))
    assert not page.tags & {"script", "img", "link", "iframe", "form", "object", "embed"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    assert all(value.startswith("/") for name, value in page.attributes if name == "href")


async def test_it_is_served_with_a_policy_against_scripts(tmp_path: Path) -> None:
    app = web.Application()
    add_pages(app, Settings(data=tmp_path))
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        async with ClientSession() as session, session.get(url) as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/html; charset=utf-8"
            assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    finally:
        await runner.cleanup()
