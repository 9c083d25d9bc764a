"""Which questions of callers are kept, and what of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from appview.query_log import read_log
from appview.settings import Settings
from lexicons.ids import RECALL_MEMORIES, SEARCH_MEMORIES
from tests.appview.xrpc.garden import ALICE, MODEL, SPACE, query_vector

if TYPE_CHECKING:
    from pathlib import Path

    from appview.query_log import Asked
    from appview.xrpc.context import Context
    from tests.appview.xrpc.garden import Client, Garden


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    given: dict[str, Any] = getattr(request, "param", {"query_log": (SPACE,)})
    return Settings(data=tmp_path, public_url="https://memory.example.org", registration="closed", **given)


async def kept(context: Context) -> list[Asked]:
    await context.query_log.flush()
    return read_log(context.settings.queries_folder, SPACE)


async def test_a_question_is_kept_with_what_it_takes_to_ask_it_again(
    client: Client, context: Context, garden: Garden
) -> None:
    await garden.declare()
    uri = await garden.remember("Slugs eat lettuce", tags=["/beds"])
    await client.ask(SEARCH_MEMORIES, {"q": "slugs", "tags": ["/beds"], "author": ALICE}, space=SPACE)
    await client.ask(SEARCH_MEMORIES, {"q": "lettuce", "mode": "keyword"}, space=SPACE)
    await client.ask(SEARCH_MEMORIES, {"q": "mine", **query_vector("mine")}, space=SPACE)
    for without_words in (query_vector("slugs"), {"similarTo": uri}, {"q": "slugs", "similarTo": uri}):
        await client.ask(SEARCH_MEMORIES, without_words, space=SPACE)
    first, second, third = await kept(context)
    assert (first.text, first.mode, first.model, first.tags, first.author) == (
        "slugs",
        "hybrid",
        MODEL,
        ("/beds",),
        ALICE,
    )
    assert first.vector is not None
    assert len(first.vector) == 2 * MODEL.dims
    assert (second.text, second.mode, second.vector, second.model) == ("lettuce", "keyword", None, None)
    assert third.model == MODEL
    assert {each.subject for each in (first, second, third)} == {None}


async def test_a_recall_is_a_question_too(client: Client, context: Context, garden: Garden) -> None:
    await garden.declare()
    await garden.remember("Slugs eat lettuce")
    await client.ask(RECALL_MEMORIES, {"q": "slugs"}, space=SPACE)
    await client.ask(RECALL_MEMORIES, {}, space=SPACE)
    assert [each.text for each in await kept(context)] == ["slugs"]


@pytest.mark.parametrize(
    "settings", [{}, {"query_log": ("at://did:plc:other/garden.engram.config/self",)}], indirect=True
)
async def test_nothing_is_kept_unless_it_is_wished(client: Client, context: Context, garden: Garden) -> None:
    await garden.declare()
    await garden.remember("Slugs eat lettuce")
    await client.ask(SEARCH_MEMORIES, {"q": "slugs"}, space=SPACE)
    assert await kept(context) == []
    assert not context.settings.queries_folder.exists()


@pytest.mark.parametrize("settings", [{"query_log": ("all",), "query_log_subjects": True}], indirect=True)
async def test_who_asked_is_kept_on_request(client: Client, context: Context, garden: Garden) -> None:
    await garden.declare()
    await garden.remember("Slugs eat lettuce")
    await client.ask(SEARCH_MEMORIES, {"q": "slugs"}, space=SPACE)
    assert [each.subject for each in await kept(context)] == ["anonymous"]
