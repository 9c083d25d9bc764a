"""Links, graph, similar memories and superseding over the socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from appview.access.rules import Permission
from appview.access.subjects import EVERYONE, Account
from appview.memory.scope import Subtree
from lexicons.ids import (
    GET_MEMORY,
    GET_MEMORY_GRAPH,
    GET_MEMORY_LINKS,
    GET_PATH,
    LIST_MEMORIES,
    LIST_PATHS,
    SEARCH_MEMORIES,
)
from tests.appview.xrpc.garden import ALICE, BOB, MODEL, SPACE, query_vector

if TYPE_CHECKING:
    from tests.appview.xrpc.garden import Answer, Client, Garden

ABSENT = f"at://{BOB}/garden.engram.memory/3kabcabcabc2a"


async def ask(client: Client, method: str, **given: Any) -> Answer:
    return await client.ask(method, given, space=SPACE)


def key(uri: str) -> str:
    return uri.rpartition("/")[2]


@pytest.fixture
async def declared(garden: Garden) -> Garden:
    await garden.declare()
    return garden


async def hide_secrets(garden: Garden) -> None:
    await garden.hide(Permission(EVERYONE, SPACE, Subtree("/secret"), "read", allow=False))


async def test_links_lead_to_memories_and_paths_and_back(client: Client, declared: Garden) -> None:
    old = await declared.remember("old", tags=["/beds"])
    new = await declared.remember(f"see {old} and [[/beds]]", author=BOB, tags=[f"caused-by={key(ABSENT)}"])
    body = (await ask(client, GET_MEMORY_LINKS, uri=new)).body
    assert [(link["kind"], link.get("path"), link.get("uri")) for link in body["links"]] == [
        ("caused-by", None, ABSENT),
        ("mention", None, old),
        ("path", "/beds", None),
    ]
    assert [link["memory"]["text"] for link in body["links"] if "memory" in link] == ["old"]
    assert body["backlinks"] == []
    (back,) = (await ask(client, GET_MEMORY_LINKS, uri=old)).body["backlinks"]
    assert (back["kinds"], back["memory"]["uri"]) == (["mention", "path"], new)


async def test_backlinks_come_in_pages(client: Client, declared: Garden) -> None:
    old = await declared.remember("old")
    texts = [f"{number} {old}" for number in range(5)]
    for number, text in enumerate(texts):
        await declared.remember(text, created_at=f"2026-01-0{number + 1}T00:00:00Z")
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        body = (await ask(client, GET_MEMORY_LINKS, uri=old, limit=2, **cursor)).body
        seen += [back["memory"]["text"] for back in body["backlinks"]]
        if "cursor" not in body:
            break
        cursor = {"cursor": body["cursor"]}
    assert seen == texts[::-1]
    refused = await ask(client, GET_MEMORY_LINKS, uri=texts[0].split()[1], limit=2, cursor="x" * 40)
    assert refused.error == "InvalidRequest"


async def test_hidden_and_absent_targets_look_alike(client: Client, declared: Garden) -> None:
    secret = await declared.remember("secret", tags=["/secret"])
    open_ = await declared.remember(
        "open", tags=[f"caused-by={key(secret)}", f"derived-from={BOB}/{key(ABSENT)}"]
    )
    await declared.remember(f"a secret about {open_}", tags=["/secret"])
    await hide_secrets(declared)
    body = (await ask(client, GET_MEMORY_LINKS, uri=open_)).body
    assert [set(link) for link in body["links"]] == [{"kind", "uri"}, {"kind", "uri"}]
    assert body["backlinks"] == []
    hidden = await ask(client, GET_MEMORY_LINKS, uri=secret)
    absent = await ask(client, GET_MEMORY_LINKS, uri=ABSENT)
    assert (absent.status, absent.raw) == (404, hidden.raw)
    for uri in (ABSENT, secret):
        similar = await ask(client, SEARCH_MEMORIES, similarTo=uri)
        assert (similar.status, similar.raw) == (404, hidden.raw)


@pytest.mark.parametrize("uri", ["at://nonsense", "x:y", f"at://{ALICE}/memory/x"])
async def test_every_method_refuses_alike_what_is_no_uri_of_a_memory(
    client: Client, declared: Garden, uri: str
) -> None:
    for answer in (
        await ask(client, GET_MEMORY, uri=uri),
        await ask(client, GET_MEMORY_LINKS, uri=uri),
        await ask(client, SEARCH_MEMORIES, similarTo=uri),
    ):
        assert (answer.status, answer.error) == (400, "InvalidRequest")


async def test_what_is_hidden_changes_no_answer(client: Client, garden: Garden) -> None:
    """Hidden memories come that point at, supersede and repeat others."""
    await garden.declare()
    await hide_secrets(garden)
    one = await garden.remember("the moon is full", created_at="2026-01-01T00:00:00Z")
    await garden.remember(f"the moon again, {one}", created_at="2026-01-02T00:00:00Z")
    questions: list[tuple[str, dict[str, Any]]] = [
        (SEARCH_MEMORIES, {"q": "moon", "profile": "balanced", "explain": True, "collapse": True}),
        (SEARCH_MEMORIES, {"q": "moon", "weights": ["links=1000", "keyword=1"], "includeSuperseded": True}),
        (SEARCH_MEMORIES, {"similarTo": one, "explain": True}),
        (GET_MEMORY_GRAPH, {"minSimilarity": "0.01"}),
        (GET_MEMORY_LINKS, {"uri": one}),
        (LIST_MEMORIES, {"includeSuperseded": True}),
        (LIST_MEMORIES, {}),
        (LIST_PATHS, {}),
        (GET_PATH, {"path": "/"}),
        (GET_MEMORY, {"uri": one}),
    ]
    before = [(await ask(client, method, **given)).raw for method, given in questions]
    for tag in ("supersedes", "contradicts", "derived-from", "similar-to"):
        await garden.remember("the moon is full", tags=["/secret", f"{tag}={key(one)}", "importance=10"])
    await garden.remember(f"{one} {one}", tags=["/secret"], author=BOB)
    assert [(await ask(client, method, **given)).raw for method, given in questions] == before


async def test_the_graph_draws_what_is_near(client: Client, declared: Garden) -> None:
    for text in ("slugs eat lettuce at night", "slugs eat lettuce by day", "the bees swarm"):
        await declared.remember(text)
    body = (await ask(client, GET_MEMORY_GRAPH)).body
    assert len(body["nodes"]) == 3
    texts = [node["text"] for node in body["nodes"]]
    (edge,) = body["edges"]
    assert {texts[edge["a"]], texts[edge["b"]]} == {
        "slugs eat lettuce at night",
        "slugs eat lettuce by day",
    }
    assert edge["a"] < edge["b"]
    assert (await ask(client, GET_MEMORY_GRAPH, minSimilarity="1")).body["edges"] == []
    assert len((await ask(client, GET_MEMORY_GRAPH, minSimilarity=".000001")).body["edges"]) >= 1


@pytest.mark.parametrize("wrong", ["0", "0.0", "1.1", "-0.5", "4e-1", "0,4", "nan", "half", "2", " 0.4"])
async def test_a_similarity_is_a_decimal_above_0_and_at_most_1(
    client: Client, declared: Garden, wrong: str
) -> None:
    answer = await ask(client, GET_MEMORY_GRAPH, minSimilarity=wrong)
    assert answer.error == "InvalidRequest"
    assert "minSimilarity" in answer.body["message"]


async def test_similar_memories_are_found_by_name(client: Client, declared: Garden) -> None:
    one = await declared.remember("slugs eat lettuce at night")
    await declared.remember("slugs eat lettuce by day")
    await declared.remember("the bees swarm")
    answer = await ask(client, SEARCH_MEMORIES, similarTo=one, limit=1)
    assert (answer.texts, answer.body["mode"]) == (["slugs eat lettuce by day"], "vector")
    answer = await ask(client, SEARCH_MEMORIES, similarTo=one, q="bees")
    assert answer.body["mode"] == "hybrid"
    assert "slugs eat lettuce at night" not in answer.texts
    for wrong in (query_vector("x"), {"mode": "keyword"}):
        assert (await ask(client, SEARCH_MEMORIES, similarTo=one, **wrong)).error == "InvalidRequest"


async def test_superseded_memories_come_back_with_a_flag(client: Client, declared: Garden) -> None:
    old = await declared.remember("moon old", tags=["/a"])
    await declared.remember("moon new", tags=["/a", f"supersedes={key(old)}"])
    for method, given in (
        (LIST_MEMORIES, {}),
        (GET_PATH, {"path": "/a"}),
        (SEARCH_MEMORIES, {"q": "moon"}),
        (SEARCH_MEMORIES, {"q": "moon", "mode": "keyword"}),
    ):
        assert (await ask(client, method, **given)).texts == ["moon new"]
        shown = await ask(client, method, includeSuperseded=True, **given)
        assert sorted(shown.texts) == ["moon new", "moon old"]
        assert {view["text"]: view.get("superseded") for view in shown.body["memories"]} == {
            "moon new": None,
            "moon old": True,
        }
    assert [path["memories"] for path in (await ask(client, LIST_PATHS)).body["paths"]] == [1]
    assert (await ask(client, GET_MEMORY, uri=old)).body["memory"]["superseded"] is True
    links = await ask(client, GET_MEMORY_LINKS, uri=old)
    assert [back["kinds"] for back in links.body["backlinks"]] == [["supersedes"]]


async def test_only_who_may_write_over_a_memory_supersedes_it(client: Client, declared: Garden) -> None:
    old = await declared.remember("moon old", tags=["/a"])
    await declared.remember("moon new", author=BOB, tags=[f"supersedes={ALICE}/{key(old)}"])
    assert len((await ask(client, LIST_MEMORIES)).texts) == 2
    may = Permission(Account(BOB), SPACE, Subtree("/a"), "write", allow=True)
    await declared.access.change([may], actor="operator", action="test")
    assert (await ask(client, LIST_MEMORIES)).texts == ["moon new"]
    await declared.access.change(remove=[may], actor="operator", action="test")
    assert len((await ask(client, LIST_MEMORIES)).texts) == 2


async def test_every_component_is_in_the_breakdown_and_adds_up(client: Client, declared: Garden) -> None:
    one = await declared.remember("moon one", tags=["importance=8"])
    await declared.remember(f"moon two {one}")
    names = ("keyword", "vector", "recency", "strength", "importance", "links")
    weights = [f"{name}={number * 100 + 50}" for number, name in enumerate(names)]
    answer = await ask(client, SEARCH_MEMORIES, q="moon", weights=weights)
    names = (*names, "context")
    for memory in answer.body["memories"]:
        match = memory["match"]
        parts = [match[name] for name in names if name in match]
        assert sum(part["contribution"] for part in parts) == match["score"]
        told = {missing["component"] for missing in match.get("missing", [])}
        assert {name for name in names if name in match} | told == set(names)
        assert abs(sum(part["weight"] for part in parts) - 1000) <= len(parts)
    by_uri = {memory["uri"]: memory["match"] for memory in answer.body["memories"]}
    assert by_uri[one]["importance"]["raw"] == 8000
    assert by_uri[one]["links"]["raw"] == 1000
    assert by_uri[one]["places"] == [{"field": "text", "byteStart": 0, "byteEnd": 4}]
    assert by_uri[one]["foundBy"] == ["keyword", "vector"]


async def test_duplicates_are_counted_and_named(client: Client, declared: Garden) -> None:
    uris = [await declared.remember("the moon is full") for _ in range(20)]
    answer = await ask(client, SEARCH_MEMORIES, q="moon", collapse=True)
    (memory,) = answer.body["memories"]
    assert memory["match"]["alike"] == 19
    assert len(memory["match"]["alikeUris"]) == 16
    assert {*memory["match"]["alikeUris"], memory["uri"]} <= set(uris)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"profile": "loudest"}, "relevance, recent, balanced"),
        ({"weights": ["recency"]}, "name=thousandths"),
        ({"weights": ["recency=1001"]}, "name=thousandths"),
        ({"weights": ["recency=-1"]}, "name=thousandths"),
        ({"weights": ["relevance=1"]}, "names: keyword"),
        ({"weights": ["links=1", "links=2"]}, "twice"),
        ({"weights": ["keyword=0", "vector=0"]}, "all are 0"),
        ({"weights": ["links=1"] * 7}, "weights"),
        ({"collapse": "yes"}, "collapse"),
        ({"explain": "1"}, "explain"),
    ],
)
async def test_wishes_that_make_no_sense_are_refused(
    client: Client, declared: Garden, given: dict[str, Any], message: str
) -> None:
    answer = await ask(client, SEARCH_MEMORIES, q="moon", **given)
    assert answer.error == "InvalidRequest"
    assert message in answer.body["message"]


async def test_a_trace_comes_on_request(client: Client, declared: Garden) -> None:
    await declared.remember("moon")
    answer = await ask(client, SEARCH_MEMORIES, q='"moon" stars -sun', explain=True)
    assert answer.body["trace"] == {
        "corpus": 1,
        "searched": 1,
        "superseded": 0,
        "keyword": 1,
        "vector": 1,
        "candidates": 1,
        "weights": [
            {"component": "keyword", "weight": 850},
            {"component": "vector", "weight": 150},
            *[{"component": name, "weight": 0} for name in ("recency", "strength", "importance", "links")],
        ],
        "terms": [{"term": "moon", "memories": 1, "counted": True}],
        "phrases": ["=moon"],
        "excluded": ["=sun"],
    }
    assert MODEL.dims  # the space's model is one that the service runs: both arms ran
