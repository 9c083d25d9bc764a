"""Files that cannot be read: a named error, a line for the operator, and nobody else notices."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.control import Control
from appview.errors import StoreError
from appview.memory.scope import Subtree
from appview.xrpc.errors import UNREADABLE_SECONDS
from lexicons.ids import (
    GET_MEMORY,
    GET_PATH,
    GET_SPACE_STATUS,
    LIST_MEMORIES,
    LIST_PATHS,
    LIST_SPACES,
    SEARCH_MEMORIES,
)
from lexicons.spaces import SpaceUri
from tests.appview.xrpc.garden import ALICE, BOB, SPACE, Client, Garden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lexicons.syntax import Nsid

SHED, ATTIC = sorted((SpaceUri.public(ALICE), SpaceUri.public(BOB)))
ASKED: dict[Nsid, dict[str, Any]] = {
    GET_MEMORY: {"uri": f"at://{ALICE}/garden.engram.memory/3jqfcqzm3fo2j"},
    GET_PATH: {"path": "/"},
    GET_SPACE_STATUS: {},
    LIST_MEMORIES: {},
    LIST_PATHS: {},
    SEARCH_MEMORIES: {"q": "compost"},
}


async def damage(garden: Garden, space: SpaceUri) -> None:
    """Write over the first three pages of a space's file, and close what is open."""
    path = garden.pool.path(space)
    for each in list(garden.pool._places.values()):
        await each.close()
    garden.pool._places.clear()
    with path.open("r+b") as file:
        file.write(random.Random(1).randbytes(3 * 4096))


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


async def planted(garden: Garden) -> None:
    for space in (SPACE, SHED, ATTIC):
        await garden.declare(space)
        await garden.remember("compost is warm", space=space)
    await damage(garden, SHED)


@pytest.mark.parametrize("method", ASKED)
async def test_a_space_whose_file_is_damaged_is_unavailable_and_told_once(
    client: Client, garden: Garden, logged: list[Any], method: Nsid
) -> None:
    await planted(garden)
    for _ in range(3):
        answer = await client.ask(method, ASKED[method], space=SHED)
        assert (answer.status, answer.error) == (503, "IndexLoading")
        assert answer.headers["retry-after"] == str(UNREADABLE_SECONDS)
        assert b".db" not in answer.raw
    (line,) = [line for line in logged if line["log_level"] == "error"]
    assert (line["event"], line["space"], line["count"]) == ("a space cannot be read", SHED, 1)
    assert "move it away" in line["hint"]
    assert "exc_info" not in line
    assert (await client.ask(LIST_MEMORIES, space=SPACE)).texts == ["compost is warm"]


async def test_it_is_left_out_of_the_list_and_of_no_page_the_end(client: Client, garden: Garden) -> None:
    await planted(garden)
    listed = (await client.ask(LIST_SPACES)).body
    assert [space["uri"] for space in listed["spaces"]] == sorted({SPACE, ATTIC})
    found: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(3):
        page = (await client.ask(LIST_SPACES, cursor, limit=1)).body
        found += [space["uri"] for space in page["spaces"]]
        cursor = {"cursor": page.get("cursor", "")}
    assert "cursor" not in page
    assert found == sorted({SPACE, ATTIC})


async def test_whoever_may_not_read_it_is_told_nothing_of_it(client: Client, garden: Garden) -> None:
    await planted(garden)
    await garden.hide(Permission(EVERYONE, SHED, Subtree("/"), "read", allow=False))
    assert (await client.ask(LIST_MEMORIES, space=SHED)).error == "UnknownSpace"


async def test_a_database_of_the_service_that_fails_is_no_fault_of_the_program(
    client: Client, garden: Garden, logged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_self: Control) -> None:
        raise StoreError("cannot use control.db: disk I/O error", hint="look into the system's log")

    monkeypatch.setattr(Control, "spaces", fail)
    for _ in range(2):
        answer = await client.ask(LIST_SPACES)
        assert (answer.status, answer.error) == (503, "NotEnoughResources")
        assert b"control" not in answer.raw
    (line,) = [line for line in logged if line["log_level"] == "error"]
    assert (line["event"], line["hint"]) == ("storage fails", "look into the system's log")
    assert "exc_info" not in line
