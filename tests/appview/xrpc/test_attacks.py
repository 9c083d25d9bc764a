"""Attacks on what a caller may read: nothing that is sent in any parameter opens what rules close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest

from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.memory.scope import Attribute, Subtree
from lexicons import ids
from tests.appview.search.test_engine import INJECTIONS
from tests.appview.xrpc.garden import ALICE, BOB, SPACE

if TYPE_CHECKING:
    from tests.appview.xrpc.garden import Client, Garden

SECRET: Final = "swordfish"
SQL: Final = [
    *["'", '"', "`", "\\", ";", "--", "/*", "*/", "%", "_", "?1", ":a", "@a", "$a", "\u02bc", "\uff07"],
    *["' OR 1=1 --", "' OR '1'='1", "1) OR (1=1", '" OR ""="', "'; DROP TABLE facts; --", "x' AND 0 --"],
    *[
        "' UNION SELECT content FROM facts --",
        "0/**/UNION/**/SELECT/**/1",
        "'||(SELECT content FROM facts)||'",
    ],
    *[
        "[]",
        "{}",
        '["/secret"]',
        '{"$ne": null}',
        "json_each",
        "null",
        "NaN",
        "-1",
        "0x0",
        "1e309",
        "\U0001d7f7",
    ],
    *[
        "/secret' OR '1",
        '/open"]',
        "/open/*",
        "path:/secret/*",
        "tag:level=top",
        "role:operator",
        "../secret",
    ],
]
PATHS: Final = [
    *["/Secret", "/SECRET", "/secret/", "//secret", "/secret//", "/./secret", "/open/../secret", "/secret/."],
    *["/%73ecret", "/%2fsecret", "/secret%2fplan", "/%252fsecret", "\\secret", "/secret\\plan", "/secret;"],
    *[
        "/\u0455ecret",
        "/secret\u200b",
        "/sec\u00adret",
        "/\uff53ecret",
        "/secret\u0301",
        "/secret ",
        "/ secret",
    ],
    *["/secret?", "/secret#", "/secret*", "/s_cret", "/s%cret", "/open//secret", "/secret/plan", "/secret"],
]


@pytest.fixture
async def space(garden: Garden) -> str:
    """A space in which a path and an attribute are hidden; the URI of a hidden memory."""
    await garden.declare()
    await garden.remember("compost is warm", tags=["/open/a", "note"])
    await garden.remember("rain is wet", tags=["/open/b"], author=BOB)
    await garden.remember(f"{SECRET} by attribute", tags=["/open/a", "level=top"])
    uri = await garden.remember(f"{SECRET} by path", tags=["/secret/plan", "note"])
    await garden.hide(
        Permission(EVERYONE, SPACE, Subtree("/secret"), "read", allow=False),
        Permission(EVERYONE, SPACE, Attribute("level", "top"), "read", allow=False),
    )
    return uri


def closed(answer: Any) -> bool:
    """Tell whether an answer, of whatever kind, gives nothing hidden away and is no fault of the service."""
    return answer.status in (200, 400, 404) and SECRET.encode() not in answer.raw


@pytest.mark.parametrize(
    "text", [*SQL, *(text for text in INJECTIONS if "\ud800" not in text and text.strip())]
)
async def test_no_text_is_taken_for_a_statement(client: Client, space: str, text: str) -> None:
    text = text[:1_000]
    asked: list[tuple[str, dict[str, Any]]] = [
        (ids.SEARCH_MEMORIES, {"q": text}),
        (ids.SEARCH_MEMORIES, {"q": "compost", "tags": [text[:40], "note"]}),
        (ids.LIST_MEMORIES, {"tags": text[:40]}),
        (ids.LIST_MEMORIES, {"author": text}),
        (ids.LIST_MEMORIES, {"since": text}),
        (ids.LIST_MEMORIES, {"cursor": text}),
        (ids.GET_PATH, {"path": "/" + text[:40]}),
        (ids.LIST_PATHS, {"path": "/" + text[:40]}),
        (ids.GET_MEMORY, {"uri": text}),
        (ids.GET_MEMORY, {"uri": space + text}),
    ]
    for method, parameters in asked:
        answer = await client.ask(method, parameters, space=SPACE)
        assert closed(answer), (method, parameters)
    assert (await client.ask(ids.LIST_MEMORIES, space=text)).error in ("UnknownSpace", "InvalidRequest")
    assert (await client.ask(ids.GET_SPACE_STATUS, space=SPACE)).body["memories"] == 2


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("encode", [False, True])
async def test_no_spelling_of_a_path_opens_it(client: Client, space: str, path: str, encode: bool) -> None:
    target = quote(path, safe="") if encode else path
    for method in (ids.GET_PATH, ids.LIST_PATHS):
        answer = await client.ask(method, space=SPACE, path=target)
        assert closed(answer)
        if answer.status == 200:
            assert not answer.body.get("memories")
            assert not answer.body.get("paths")


@pytest.mark.parametrize(
    "query",
    [
        f"space={SPACE}&space={SPACE}",
        f"space={SPACE}&space=",
        f"space={SPACE}&Space={SPACE}&SPACE=x",
        f"space={SPACE}&subject={ALICE}&role=operator&scope=*&action=admin",
        f"space={SPACE}&tags=note&tags[]=x&tags[0]=level%3Dtop",
        f"space={SPACE};author={BOB}",
        f"space={SPACE}&author={ALICE}&author={BOB}",
        f"space={SPACE}%26author={BOB}",
        f"space={SPACE}%00",
        f"space[]={SPACE}",
        f"space={SPACE}&limit=1&limit=100",
        f"space={SPACE}#&author={BOB}",
    ],
)
async def test_parameters_sent_twice_or_made_up_open_nothing(client: Client, space: str, query: str) -> None:
    for method in (ids.LIST_MEMORIES, ids.SEARCH_MEMORIES, ids.GET_SPACE_STATUS):
        answer = await client.send("GET", f"/xrpc/{method}?q=compost&{query}")
        assert closed(answer)
        if answer.status == 200 and method == ids.GET_SPACE_STATUS:
            assert answer.body["memories"] == 2


@pytest.mark.parametrize("claim", ["owner", "trust", "space"])
async def test_no_record_takes_an_attribute_that_is_not_its_own_to_set(
    client: Client, garden: Garden, claim: str
) -> None:
    await garden.declare()
    value = str(BOB) if claim != "trust" else "high"
    everyone = Permission(EVERYONE, SPACE, Subtree("/"), "read")
    await garden.access.change(remove=[everyone], actor="operator", action="test")
    await garden.hide(
        Permission(EVERYONE, SPACE, Attribute("trust" if claim != "owner" else claim, value), "read")
    )
    await garden.remember(f"{SECRET}", author=ALICE, tags=[f"{claim}={value}"])
    assert (await client.ask(ids.LIST_MEMORIES, space=SPACE)).texts == []
