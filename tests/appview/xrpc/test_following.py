"""A space whose index is late to follow its rules: nothing is answered that it might hold wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from appview.access import withheld
from appview.access.rules import Permission
from appview.access.subjects import MEMBER
from appview.memory.scope import Subtree
from lexicons import ids
from lexicons.spaces import SpaceUri
from tests.appview.xrpc.garden import ALICE, BOB, SPACE

if TYPE_CHECKING:
    from tests.appview.xrpc.garden import Client, Garden

OTHER = SpaceUri.public(BOB)
QUESTIONS: list[tuple[str, dict[str, Any]]] = [(ids.LIST_MEMORIES, {}), (ids.SEARCH_MEMORIES, {"q": "more"})]


@pytest.fixture
async def late(garden: Garden, monkeypatch: pytest.MonkeyPatch) -> Garden:
    """An index that has followed once, and holds what its author may not write any more."""
    monkeypatch.setattr(withheld, "SETTLE_SECONDS", 0.1)
    await garden.declare()
    await garden.declare(OTHER)
    await garden.access.add_member(SPACE, ALICE, "test")
    await garden.remember("no more of this", tags=["/a"])
    await garden.control.put_membership(SPACE, ALICE, "synced")
    garden.access.withheld.wake = lambda: None
    garden.access.withheld.follow(garden.access.rules)
    await garden.hide(Permission(MEMBER, SPACE, Subtree("/a"), "write", allow=False))
    return garden


async def test_it_answers_again_once_it_has_followed(client: Client, late: Garden) -> None:
    for method, given in QUESTIONS:
        answer = await client.ask(method, given, space=SPACE)
        assert (answer.status, answer.error) == (503, "IndexLoading")
        assert answer.headers["retry-after"] == "1"
    listed = await client.ask(ids.LIST_SPACES)
    assert [space["uri"] for space in listed.body["spaces"]] == [OTHER]
    assert (await client.ask(ids.LIST_MEMORIES, space=OTHER)).status == 200
    late.access.withheld.follow(late.access.rules)
    assert (await client.ask(ids.LIST_MEMORIES, space=SPACE)).status == 200
    assert len((await client.ask(ids.LIST_SPACES)).body["spaces"]) == 2


async def test_a_space_whose_index_cannot_follow_is_not_out_of_reach_for_good(
    client: Client, late: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(withheld, "REFUSE_SECONDS", 0.0)
    assert (await client.ask(ids.LIST_MEMORIES, space=SPACE)).status == 200
