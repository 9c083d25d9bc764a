"""Pages of two appviews that differ only in what a visitor may not read are the same bytes, and so are the
answers of everything else that is served.

Every address that the service has is asked here, or by the twins of XRPC.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any, Final

import pytest

from appview.search import keyword, own_words
from appview.search.derived import MAX_CACHE_BYTES
from appview.service import make_site
from tests.appview.xrpc import test_twins as twins
from tests.appview.xrpc.conftest import settings
from tests.appview.xrpc.garden import ALICE, BOB, SPACE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.access.rules import Permission
    from appview.settings import Settings
    from appview.xrpc.context import Context

__all__ = ["settings"]

XRPC: Final = "/xrpc/{method}"  # asked by the twins of XRPC, which fail for a method that is not
ABOUT_THE_SERVICE: Final = ("/", "/xrpc/_health", "/.well-known/did.json", "/browse/style.css")
NO_DIFFERENCE: Final = frozenset({"date", "x-request-id"})
MAX_PAGES: Final = 40  # that follow one another; the twins hold fewer


def visits() -> list[tuple[str, dict[str, Any]]]:
    """Every page with what could tell of a row: each parameter, hidden and shown things, and nonsense."""
    made = twins.rows()
    hidden = made.index(next(row for row in made if row.hidden))
    shown = made.index(next(row for row in made if not row.hidden))
    linked = [number for number, row in enumerate(made) if "points to" in row.text]
    uris = [twins.uri(made, number) for number in (hidden, shown, *linked[:4])]
    asked: list[tuple[str, dict[str, Any]]] = [(path, {}) for path in ABOUT_THE_SERVICE]
    asked += [("/browse", {}), ("/browse", {"limit": 1}), ("/browse/space", {})]
    for space in (SPACE, twins.HIDDEN_SPACE, "at://did:web:nowhere.example/garden.engram.config/self", "x"):
        asked += [("/browse/space", {"space": space}), ("/browse/space", {"space": space, "limit": 3})]
        asked += [
            ("/browse/memory", {"space": space, "uri": uri}) for uri in (*uris, uris[0] + "x", "at://x")
        ]
        for path in ("/", "/open", "/open/compost", "/open/compost/deep", "/secret", "/secret/rain", "/Open"):
            asked.append(("/browse/path", {"space": space, "path": path}))
        asked.append(("/browse/path", {"space": space, "path": f"/{twins.SECRET}", "limit": 1}))
        texts = (
            "compost",
            twins.SECRET,
            f"compost {twins.SECRET}",
            '"and the garden"',
            "sword*",
            "the",
            "?!",
        )
        for text in texts:
            for mode in ("keyword", "hybrid"):
                found = {"space": space, "q": text, "mode": mode, "limit": 50, "explain": "true"}
                asked.append(("/browse/search", found))
        for author in (ALICE, BOB, twins.CAROL):
            asked.append(("/browse/search", {"space": space, "q": "compost rain", "author": author}))
        asked.append(("/browse/search", {"space": space, "q": "rain", "tags": "level=top"}))
        asked.append(("/browse/search", {"space": space, "similarTo": uris[0], "mode": "vector"}))
        asked.append(("/browse/search", {"space": space, "similarTo": uris[1], "mode": "vector"}))
    return asked


async def visit(twin: twins.Twin, path: str, given: dict[str, Any]) -> tuple[int, dict[str, str], str]:
    """Fetch a page as anybody; give all that comes but for its time and the request's id."""
    async with twin.client.session.get(twin.client.base + path, params=given) as response:
        headers = {name.lower(): value for name, value in response.headers.items()}
        shown = {
            name: value
            for name, value in headers.items()
            if name not in NO_DIFFERENCE and not name.startswith("ratelimit")
        }
        return response.status, shown, await response.text()


async def follow(twin: twins.Twin, path: str, given: dict[str, Any]) -> list[tuple[int, dict[str, str], str]]:
    """Fetch a page, and those that its link to more leads to."""
    found = [await visit(twin, path, given)]
    while (more := re.search(r'href="([^"]*[?&](?:amp;)?cursor=[^"]*)"', found[-1][2])) is not None:
        found.append(await visit(twin, unescape(more[1]), {}))
        assert len(found) < MAX_PAGES
    return found


CASES: Final = [
    pytest.param(rules, memory, id=f"{name}-{memory}")
    for name, rules in (("denied", twins.DENIES), ("allowed", twins.ALLOWS), ("former", twins.FORMER))
    for memory in (MAX_CACHE_BYTES, 0)
]


@pytest.mark.parametrize(("rules", "memory"), CASES)
async def test_pages_are_the_same_bytes(
    tmp_path: Path,
    settings: Settings,
    executor: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    rules: Sequence[Permission],
    memory: int,
) -> None:
    monkeypatch.setattr(twins, "make_app", make_site)
    monkeypatch.setattr(keyword, "MAX_OCCURRENCES", 25)
    monkeypatch.setattr(own_words, "MAX_KEPT_WORDS", 0)
    async with (
        twins.appview(tmp_path / "a", settings, executor, whole=False, rules=rules, memory=memory) as without,
        twins.appview(tmp_path / "b", settings, executor, whole=True, rules=rules, memory=memory) as whole,
    ):
        statuses: dict[str, set[int]] = {}
        for path, given in visits():
            expected, got = await follow(without, path, given), await follow(whole, path, given)
            assert got == expected, (path, given)
            statuses.setdefault(path, set()).update(status for status, _, _ in got)
        for path, seen in statuses.items():
            assert 200 in seen and max(seen) < 500, path  # something is shown at each


async def test_where_nothing_is_hidden_pages_differ(
    tmp_path: Path, settings: Settings, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twins, "make_app", make_site)
    folders, open_to_all = (tmp_path / "a", tmp_path / "b"), {"rules": (), "memory": MAX_CACHE_BYTES}
    async with (
        twins.appview(folders[0], settings, executor, whole=False, **open_to_all) as without,
        twins.appview(folders[1], settings, executor, whole=True, **open_to_all) as whole,
    ):
        differ = {
            path
            for path, given in visits()
            if await follow(without, path, given) != await follow(whole, path, given)
        }
        assert differ == {path for path, _ in visits()} - {*ABOUT_THE_SERVICE}


async def test_every_address_is_asked(context: Context) -> None:
    """An address that comes new must be asked here, or this fails."""
    paths = {route.resource.canonical for route in make_site(context).router.routes() if route.resource}
    assert paths - {XRPC} == {path for path, _ in visits()}
    assert XRPC in paths
