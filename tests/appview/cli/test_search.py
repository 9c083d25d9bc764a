"""`search` from the command line: what the service would answer, readable."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
import structlog

from appview.access.access import Access
from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.clock import now
from appview.control import Control
from appview.folder import make_folder
from appview.memory.pool import SpacePool
from appview.memory.scope import Subtree
from appview.search.analysis import ANALYSIS
from appview.settings import Settings
from appview.xrpc.app import make_app
from appview.xrpc.context import Context
from appview.xrpc.server import listening
from lexicons.catalog import garden as lexicons
from lexicons.data import from_json
from lexicons.ids import SEARCH_MEMORIES
from tests.appview.xrpc.garden import ALICE, AUTHORITY, SPACE, START, Garden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.appview.cli.conftest import CommandLine


@pytest.fixture
def planted(engram: CommandLine) -> CommandLine:
    """A data folder with a space of four memories, of which one is for its authority alone."""

    async def work() -> None:
        with ThreadPoolExecutor(2) as executor:
            control = await Control.open(engram.data / "control.db", executor)
            access = await Access.open(control, lambda: START)
            pool = SpacePool(engram.data / "spaces", executor, lambda: START, analyser=ANALYSIS)
            garden = Garden(control, access, pool)
            await garden.declare()
            old = await garden.remember("Slugs eat lettuce")
            await garden.remember(
                "Slugs eat\nthe lettuce at night", tags=[f"supersedes={old.rpartition('/')[2]}"]
            )
            await garden.remember("Frost kills tomatoes \x1b[31m")
            await garden.remember("Slugs in secret", tags=["/secret"], author=AUTHORITY)
            await garden.hide(Permission(EVERYONE, SPACE, Subtree("/secret"), "read", allow=False))
            await pool.close()
            await control.close()

    make_folder(engram.data)
    asyncio.run(work())
    engram.capsys.readouterr()  # what the stores logged
    return engram


def test_each_answer_says_why_it_is_there(planted: CommandLine) -> None:
    answer = planted("search", AUTHORITY, "slugs at night", "--limit", 1)
    assert answer.code == 0
    first, text, score, words, uri = answer.out.splitlines()
    assert first == "1 memories, mode hybrid"
    assert text == "1. Slugs eat the lettuce at night"
    assert score.startswith("   0.667 = keyword 0.567 (")
    assert score.endswith(
        " + context 0.000 (0.000, normalised 0.000, weight 0.333)"
    )  # nothing beside it speaks of slugs
    assert words.startswith("   words: Slugs")
    assert uri.startswith(f"   at://{ALICE}/garden.engram.memory/")


def test_the_document_is_the_services_answer(planted: CommandLine) -> None:
    wishes = ("--explain", "--collapse", "--profile", "balanced", "--weight", "links=20", "--mode", "keyword")
    document = planted("search", SPACE, "slugs", "--json", *wishes).json
    lexicons().validate_output(SEARCH_MEMORIES, from_json(document))
    assert [memory["text"] for memory in document["memories"]] == ["Slugs eat\nthe lettuce at night"]
    assert document["trace"]["corpus"] == 3


def test_what_is_hidden_and_superseded_is_shown_to_nobody_by_default(planted: CommandLine) -> None:
    assert "(superseded)" not in planted("search", SPACE, "slugs").out
    assert "(superseded)" in planted("search", SPACE, "slugs", "--include-superseded").out
    assert "secret" not in planted("search", SPACE, "slugs", "--as", AUTHORITY).out  # deny holds for all


def test_a_trace_is_readable_and_harmless(planted: CommandLine) -> None:
    out = planted("search", SPACE, '"frost" -slugs tomatoes', "--explain").out
    assert "searched 1 of 3 memories, 1 superseded" in out
    assert "phrases: =frost" in out
    assert "   found by keyword, vector\n" in out
    assert "   without recency (switched-off), strength (switched-off)" in out
    assert "excluded: =slugs" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("did:plc:nobody", "slugs"), 4, "UnknownSpace"),
        ((SPACE, "slugs", "--weight", "loud=1"), 2, "InvalidRequest"),
        ((SPACE, "x" * 4_001), 2, "InvalidRequest"),
        ((SPACE, "slugs", "--as", "role:everyone"), 2, "UsageError"),
        ((SPACE, "slugs", "--limit", "51"), 2, "UsageError"),
    ],
)
def test_what_cannot_be_asked_is_told(
    planted: CommandLine, arguments: tuple[str, ...], code: int, name: str
) -> None:
    answer = planted("search", *arguments, "--json")
    assert (answer.code, answer.error["code"]) == (code, name)


@pytest.fixture
def service(planted: CommandLine) -> Iterator[str]:
    """The same data folder served on a socket, and a token for its authority."""
    started, stop = threading.Event(), asyncio.Event()
    urls: list[str] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        settings = Settings(data=planted.data)
        with ThreadPoolExecutor(2) as executor:
            control = await Control.open(settings.control_file, executor)
            access = await Access.open(control, now)
            pool = SpacePool(settings.spaces_folder, executor, now, analyser=ANALYSIS)
            context = Context.of(settings, control, access, pool, clock=now)
            async with listening(make_app(context), "127.0.0.1", 0) as port:
                urls.append(f"http://127.0.0.1:{port}")
                started.set()
                await stop.wait()
            await context.searcher.close()
            await pool.close()
            await control.close()

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # stdout is the command's
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(20)
    yield urls[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()
    structlog.reset_defaults()


@pytest.mark.parametrize(
    "wishes", [(), ("--explain",), ("--mode", "vector"), ("--profile", "balanced", "--weight", "links=500")]
)
def test_a_service_gives_the_same_numbers(
    planted: CommandLine, service: str, wishes: tuple[str, ...]
) -> None:
    here = planted("search", SPACE, "slugs at night", *wishes, "--json")
    there = planted("search", SPACE, "slugs at night", *wishes, "--json", "--url", service)
    assert there.code == 0, there.err
    assert there.json == here.json
    told = planted("search", SPACE, "slugs at night", *wishes, "--url", service)
    assert told.out == planted("search", SPACE, "slugs at night", *wishes).out
    # A vector made here is that of the service.
    elsewhere = ("--json", "--url", service, "--embedder", "hashing-64")
    own = planted("search", SPACE, "slugs at night", *wishes, *elsewhere)
    assert own.json == here.json


def test_a_token_says_who_asks_a_service(planted: CommandLine, service: str, tmp_path: Path) -> None:
    token = planted("token", "add", "reader", "--json").json["token"]
    rule = f"p, token:reader, {SPACE}, path:/*, read, allow"
    assert planted("policy", "add", rule).code == 0
    file = tmp_path / "token"
    file.write_text(token + "\n")
    answer = planted("search", SPACE, "slugs", "--url", service, "--token-file", file)
    assert answer.code == 0, answer.err
    file.write_text("wrong")
    answer = planted("search", SPACE, "slugs", "--url", service, "--token-file", file, "--json")
    assert (answer.code, answer.error["code"]) == (1, "BadJwt")
    assert "wrong" not in answer.err


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("did:plc:nobody", "slugs"), 4, "UnknownSpace"),
        ((SPACE, "slugs", "--weight", "loud=1"), 2, "InvalidRequest"),
        ((SPACE, "slugs", "--as", "anonymous"), 2, "UsageError"),
        ((SPACE, "slugs", "--embedder", "hashing-65"), 5, "ModelMismatch"),
    ],
)
def test_what_a_service_refuses_is_told_alike(
    planted: CommandLine, service: str, arguments: tuple[str, ...], code: int, name: str
) -> None:
    answer = planted("search", *arguments, "--url", service, "--json")
    assert (answer.code, answer.error["code"]) == (code, name)


@pytest.mark.parametrize(
    ("url", "code", "name"),
    [
        ("http://127.0.0.1:1", 6, "Unreachable"),
        ("ftp://engram.example", 2, "ConfigurationError"),
        ("engram.example", 2, "ConfigurationError"),
        ("https://a:b@engram.example", 2, "ConfigurationError"),
    ],
)
def test_a_service_that_cannot_be_asked_is_told(engram: CommandLine, url: str, code: int, name: str) -> None:
    answer = engram("search", SPACE, "slugs", "--url", url, "--json")
    assert (answer.code, answer.error["code"]) == (code, name)


def test_a_token_goes_over_a_protected_connection_alone(engram: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    answer = engram("search", SPACE, "slugs", "--url", "http://engram.example", "--token-file", file)
    assert answer.code == 2
    assert "unprotected" in answer.err
    assert engram("search", SPACE, "slugs", "--token-file", file).code == 2


@pytest.mark.parametrize("body", [b"hello", b"{}", b'{"memories": 3, "mode": "x"}', b"[1]"])
def test_what_is_no_answer_of_an_appview_is_told(engram: CommandLine, body: bytes) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        answer = engram("search", SPACE, "slugs", "--url", f"http://127.0.0.1:{server.server_port}", "--json")
        server.shutdown()
        thread.join()
    assert (answer.code, answer.error["code"]) == (6, "Unreachable")
