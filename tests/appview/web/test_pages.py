"""Pages for people: they show what XRPC answers anybody, and nothing that a browser would act on."""

from __future__ import annotations

import asyncio
import re
import shutil
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.memory.scope import Subtree
from appview.settings import Settings
from appview.web.html import VOID, address, marked, tag, text
from appview.web.layout import HEADERS
from lexicons.ids import GET_MEMORY, GET_SPACE_STATUS, LIST_SPACES, SEARCH_MEMORIES
from tests.appview.xrpc.garden import ALICE, AUTHORITY, BOB, SPACE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appview.web.conftest import Site
    from tests.appview.xrpc.garden import Garden

EVIL = "<script>alert(1)</script> \"'><img src=x onerror=alert(2)> slugs & \u202egnp.exe \x1b[31m </p>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = ("/browse", "/browse/space", "/browse/search", "/browse/path", "/browse/memory")
ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "link",
        "body",
        "nav",
        "main",
        "h1",
        "h2",
        "p",
        "a",
        "b",
        "div",
        "span",
    ),
    *("article", "section", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td"),
    *(
        "meter",
        "mark",
        "bdi",
        "dl",
        "dt",
        "dd",
        "ul",
        "li",
        "form",
        "input",
        "label",
        "select",
        "option",
        "button",
    ),
}


class Page(HTMLParser):
    """Reads a page strictly: what is opened is closed, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.rows: list[list[str]] = []
        self.marks: list[str] = []
        self.words = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "a":
            self.links.append(dict(attrs)["href"] or "")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "mark":
            self.marks.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        if "mark" in self.open:
            self.marks[-1] += data


@pytest.fixture
async def planted(garden: Garden) -> dict[str, str]:
    """A space whose memories point to each other, one of them hidden, one hostile."""
    await garden.declare()
    slugs = await garden.remember("Slugs eat the lettuce at night", tags=["/beds/north", "pest"])
    frost = await garden.remember(
        f"Frost after slugs, see {slugs} and [[/beds/north]]",
        author=BOB,
        tags=["/beds/south"],
        source="a log",
    )
    secret = await garden.remember(f"Slugs in secret, {slugs}", tags=["/secret"], author=AUTHORITY)
    evil = await garden.remember(EVIL, tags=[EVIL[:40], "/<b>x"], source=EVIL[:60])
    await garden.hide(Permission(EVERYONE, SPACE, Subtree("/secret"), "read", allow=False))
    return {"slugs": slugs, "frost": frost, "secret": secret, "evil": evil}


async def every_page(site: Site, planted: dict[str, str]) -> list[str]:
    pages = [
        await site.get("/browse"),
        await site.get("/browse/space", space=SPACE),
        await site.get("/browse/search", space=SPACE, q="slugs alert", explain="true", profile="balanced"),
        await site.get("/browse/search", space=SPACE, q=EVIL, explain="true"),
        await site.get("/browse/path", space=SPACE, path="/beds/north"),
        await site.get("/browse/path", space=SPACE, path="/"),
        *[await site.get("/browse/memory", space=SPACE, uri=uri) for uri in planted.values()],
    ]
    return [each.text for each in pages]


async def test_a_hit_is_shown_with_the_numbers_of_xrpc(site: Site, planted: dict[str, str]) -> None:
    wishes = {"space": SPACE, "q": "slugs at night", "profile": "balanced", "explain": "true"}
    answer = await site.ask(SEARCH_MEMORIES, **wishes)
    page = Page((await site.get("/browse/search", **wishes)).text)
    rows = [
        row for row in page.rows if row and row[0] in ("keyword", "vector", "context", "recency", "score")
    ]
    wanted: list[list[str]] = []
    for memory in answer["memories"]:
        match = memory["match"]
        names = ("keyword", "vector", "context", "recency", "strength", "importance", "links")
        parts = [(name, match[name]) for name in names if name in match]
        assert sum(part["contribution"] for _, part in parts) == match["score"]
        for name, part in parts:
            figures = [f"{part[key] / 1000:.3f}" for key in ("raw", "normalised", "weight", "contribution")]
            wanted.append([name, *figures])
        wanted.append(["score", "", "", "", f"{match['score'] / 1000:.3f}"])
        for each in match["missing"]:
            assert any(row[0] == each["component"] and len(row) == 2 for row in page.rows)
    shown = [row[:5] for row in page.rows if len(row) == 6 and row[0] != "part"]
    assert shown == wanted
    assert rows
    assert {mark.lower() for mark in page.marks} >= {"slugs", "night"}
    assert f"searched{answer['trace']['searched']} of {answer['trace']['corpus']} memories" in page.words
    for term in answer["trace"]["terms"]:
        assert [term["term"], str(term["memories"]), "yes" if term["counted"] else "passed over"] in page.rows


async def test_a_memory_is_shown_with_what_lies_around_it(site: Site, planted: dict[str, str]) -> None:
    page = Page((await site.get("/browse/memory", space=SPACE, uri=planted["slugs"])).text)
    assert re.search(r"(mention, path|path, mention): Frost after slugs", page.words)
    assert address("/browse/memory", space=SPACE, uri=planted["frost"]) in page.links
    near = page.words.partition("Nearest in meaning")[2]
    assert re.search(r"0\.\d{3} Frost after slugs", near)
    page = Page((await site.get("/browse/memory", space=SPACE, uri=planted["frost"])).text)
    assert "path: /beds/north" in page.words
    assert "mention: Slugs eat the lettuce" in page.words
    assert "source: a log" in page.words


async def test_pages_lead_to_each_other_and_every_link_works(site: Site, planted: dict[str, str]) -> None:
    seen: set[str] = set()
    left = ["/browse"]
    while left:
        link = left.pop()
        seen.add(link)
        parts = urlsplit(link)
        assert not parts.netloc
        shown = await site.get(
            parts.path, **{name: value for name, (value,) in parse_qs(parts.query).items()}
        )
        assert shown.status == 200, link
        left += [
            each
            for each in Page(shown.text).links
            if each.startswith("/browse") and each not in seen | set(left)
        ]
    uris = {uri for link in seen for uri in parse_qs(urlsplit(link).query).get("uri", ())}
    assert uris == {planted[name] for name in ("slugs", "frost", "evil")}


async def test_long_lists_go_on(site: Site, garden: Garden) -> None:
    await garden.declare()
    for number in range(30):
        await garden.remember(f"memory number {number}", tags=["/many"])
    for path, given in (("/browse/space", {}), ("/browse/path", {"path": "/many"})):
        first = Page((await site.get(path, space=SPACE, **given)).text)
        (following,) = [link for link in first.links if "cursor=" in link]
        values = {name: value for name, (value,) in parse_qs(urlsplit(following).query).items()}
        second = Page((await site.get(path, **values)).text)
        both = re.findall(r"memory number \d+", first.words + second.words)
        assert sorted(both) == sorted(f"memory number {number}" for number in range(30))


async def test_what_everyone_may_not_read_is_nowhere(site: Site, planted: dict[str, str]) -> None:
    for shown in await every_page(site, planted):
        assert "in secret" not in shown
    for page in ("/browse/space", "/browse/path"):
        assert "secret" not in (await site.get(page, space=SPACE, path="/")).text
    hidden = await site.get("/browse/memory", space=SPACE, uri=planted["secret"])
    absent = await site.get("/browse/memory", space=SPACE, uri=planted["secret"][:-1] + "a")
    assert (hidden.status, hidden.text) == (absent.status, absent.text)
    assert hidden.status == 404


async def test_a_space_that_everyone_may_not_read_is_as_one_that_is_not_there(
    site: Site, garden: Garden
) -> None:
    await garden.declare()
    await garden.hide(Permission(EVERYONE, SPACE, Subtree("/"), "read", allow=False))
    assert SPACE not in (await site.get("/browse")).text
    for path in PAGES[1:]:
        given = {"q": "x", "path": "/", "uri": f"at://{ALICE}/garden.engram.memory/3m6f72q6k2422"}
        here = await site.get(path, space=SPACE, **given)
        nowhere = await site.get(path, space=SPACE.replace(AUTHORITY, ALICE), **given)
        assert here.status == nowhere.status == 400
        assert here.text == nowhere.text


async def test_text_of_others_is_text(site: Site, planted: dict[str, str]) -> None:
    for shown in await every_page(site, planted):
        page = Page(shown)
        assert page.tags <= ALLOWED
        for name, attribute, value in page.attributes:
            assert not attribute.startswith("on")
            assert attribute not in ("style", "srcdoc", "src", "formaction")
            if attribute in ("href", "action"):
                assert value.startswith("/"), (name, value)
        assert "\u202e" not in shown
        assert "\x1b" not in shown
    memory = await site.ask(GET_MEMORY, space=SPACE, uri=planted["evil"])
    shown = (await site.get("/browse/memory", space=SPACE, uri=planted["evil"])).text
    assert "<script>alert(1)</script>" in memory["memory"]["text"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown


@pytest.mark.parametrize("path", [*PAGES, "/browse/style.css"])
async def test_a_browser_may_do_nothing_but_show_it(site: Site, planted: dict[str, str], path: str) -> None:
    shown = await site.get(path, space=SPACE, q="slugs", path="/", uri=planted["slugs"])
    assert shown.status == 200
    assert shown.headers["X-Content-Type-Options"] == "nosniff"
    if path.endswith(".css"):
        assert shown.headers["Content-Type"].startswith("text/css")
        return
    assert shown.headers["Content-Type"] == "text/html; charset=utf-8"
    for name, value in HEADERS.items():
        assert shown.headers[name] == value
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "script-src" not in policy  # so default-src 'none' holds


@pytest.mark.parametrize(
    ("path", "given", "status", "told"),
    [
        ("/browse/search", {"space": SPACE, "q": "x", "mode": "magic"}, 400, "mode"),
        ("/browse/search", {"space": SPACE}, 400, "q: is missing"),
        ("/browse/search", {"space": SPACE, "q": "x", "since": "yesterday"}, 400, "since"),
        ("/browse/search", {"q": "x"}, 400, "space"),
        ("/browse/space", {"space": "<script>"}, 400, "space: not a valid uri"),
        ("/browse/memory", {"space": SPACE, "uri": f"at://{ALICE}/x.y.z/1"}, 404, "no such memory"),
        ("/browse/space", {"space": SPACE, "cursor": "x"}, 400, "cursor"),
    ],
)
async def test_what_cannot_be_shown_is_told(
    site: Site, planted: dict[str, str], path: str, given: dict[str, str], status: int, told: str
) -> None:
    shown = await site.get(path, **given)
    assert shown.status == status
    page = Page(shown.text)
    assert told in page.words
    assert "script" not in page.tags


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
async def test_a_browser_makes_of_it_what_was_meant(
    site: Site, planted: dict[str, str], tmp_path: Path
) -> None:
    for address_of in (
        address("/browse/memory", space=SPACE, uri=planted["evil"]),
        address("/browse/search", space=SPACE, q=EVIL, explain="true"),
    ):
        browser = await asyncio.create_subprocess_exec(
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"),
            f"--user-data-dir={tmp_path}",
            site.base + address_of,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, told = await browser.communicate()
        assert browser.returncode == 0
        page = Page(out.decode())
        assert page.tags <= ALLOWED
        assert "<script>alert(1)</script>" in page.words
        assert [
            line for line in told.decode().splitlines() if "CONSOLE" in line
        ] == []  # of policy, of scripts


async def test_empty_fields_of_the_form_count_as_none(site: Site, planted: dict[str, str]) -> None:
    form = {
        "q": "slugs",
        "mode": "hybrid",
        "profile": "relevance",
        "limit": "10",
        "tags": "",
        "author": "",
        "since": "",
    }
    shown = await site.get("/browse/search", space=SPACE, **form)
    assert shown.status == 200
    assert "Slugs eat the lettuce" in Page(shown.text).words
    form["tags"] = "pest"
    page = Page((await site.get("/browse/search", space=SPACE, **form)).text)
    assert "1 memories, mode hybrid" in page.words
    assert ("input", "value", "pest") in page.attributes


async def test_a_credential_is_not_looked_at(site: Site, planted: dict[str, str]) -> None:
    async with site.session.get(
        f"{site.base}/browse/space", params={"space": SPACE}, headers={"Authorization": "Bearer wrong"}
    ) as response:
        assert response.status == 200


class TestLimits:
    """Pages count as the methods that they are made of."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(data=tmp_path, public_url="https://memory.example.org", rate_address=3)

    async def test_pages_count_against_the_limits_of_their_caller(self, site: Site) -> None:
        statuses = [(await site.get("/browse")).status for _ in range(5)]
        assert statuses[0] == 200
        assert statuses[-1] == 429


async def test_the_list_of_spaces_is_that_of_xrpc(site: Site, planted: dict[str, str]) -> None:
    (space,) = (await site.ask(LIST_SPACES))["spaces"]
    status: dict[str, Any] = await site.ask(GET_SPACE_STATUS, space=SPACE)
    page = Page((await site.get("/browse")).text)
    assert f"{space['memories']} memories" in page.words
    assert status["memories"] == space["memories"] == 3


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (tag("p", "a<b", tag("b", "&"), None, class_="x\"y", data_x=True, hidden=False),
         '<p class="x&quot;y" data-x>a&lt;b<b>&amp;</b></p>'),
        (tag("input", value="'>"), '<input value="&#x27;&gt;">'),
        (text("a\x00\u202eb\ud800"), "a\\u0000\\u202eb\\ud800"),
        (marked("été <x>", [(0, 5), (7, 8)]), "<mark>été</mark> &lt;<mark>x</mark>&gt;"),
        (marked("abc", []), "abc"),
        (marked("é", [(0, 1)]), "<mark>\ufffd</mark>\ufffd"),  # a range that splits a character harms nothing
    ],
)  # fmt: skip
def test_markup_is_what_was_meant(made: str, written: str) -> None:
    assert made == written
