"""`search` from the command line: what the service would answer, readable."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from appview.access.access import Access
from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.control import Control
from appview.folder import make_folder
from appview.memory.pool import SpacePool
from appview.memory.scope import Subtree
from appview.search.analysis import ANALYSIS
from lexicons.catalog import garden as lexicons
from lexicons.data import from_json
from lexicons.ids import SEARCH_MEMORIES
from tests.appview.xrpc.garden import ALICE, AUTHORITY, SPACE, START, Garden

if TYPE_CHECKING:
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
    assert score.endswith(" + context 0.000 (0.000, weight 0.333)")  # nothing beside it speaks of slugs
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
