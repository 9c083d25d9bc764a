"""Two appviews that differ only in what a caller may not read give the same bytes, whatever is asked.

The answers are exact here: no approximate index has a part in them.
"""

from __future__ import annotations

import itertools
import json
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from aiohttp import ClientSession

from appview.access.access import Access
from appview.access.rules import Permission
from appview.access.subjects import EVERYONE, Token
from appview.access.tokens import make_token
from appview.control import Control
from appview.memory.pool import SpacePool
from appview.memory.scope import Attribute, Exact, Subtree
from appview.memory.values import Put, Refuse, RepoUpdate
from appview.search import keyword, own_words
from appview.search.analysis import ANALYSIS
from appview.search.derived import MAX_CACHE_BYTES, ViewCache
from appview.search.engine import Searcher
from appview.search.tuning import read_tuning
from appview.xrpc import handlers
from appview.xrpc.app import make_app
from appview.xrpc.context import Context
from appview.xrpc.keys import Keys
from appview.xrpc.server import listening
from lexicons import ids
from lexicons.catalog import garden as lexicons
from lexicons.data import cid_of, cid_text, encode
from lexicons.embeddings import Embedding, encode_f16le
from lexicons.hashing import embed, model_key
from lexicons.memories import Memory
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.appview.xrpc.conftest import clock
from tests.appview.xrpc.garden import (
    ALICE,
    BOB,
    DIMS,
    MODEL,
    SPACE,
    START,
    Client,
    Garden,
    query_vector,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.settings import Settings

CAROL: Final = Did("did:web:carol.example")
HIDDEN_SPACE: Final = SpaceUri.public(CAROL)
OTHER: Final = model_key(DIMS * 2)
SECRET: Final = "swordfish"


@dataclass(frozen=True, slots=True)
class Row:
    """One record. `hidden` ones are in one of the twins alone."""

    text: str
    tags: tuple[str, ...] = ()
    author: Did = ALICE
    hidden: bool = False
    fits: bool = True
    refused: bool = False
    day: int = 1


def rows() -> list[Row]:
    """Make records, hidden ones among the others, that share every word, tag, path and author with them."""
    words = ["compost", "tomato", "rain", "frost", "bees", "soil"]
    made: list[Row] = []
    for number, (a, b) in enumerate(itertools.product(words, words)):
        text = f"{a} {b} and the garden {number}"
        author = (ALICE, BOB)[number % 2]
        made.append(Row(text, (f"/open/{a}", f"kind={b}"), author, day=1 + number % 9))
        if number % 3 == 0:
            # Dense in the common words, so that they would move every statistic.
            noise = f"{SECRET} {a} {b} " * (1 + number % 4)
            made.append(Row(noise, (f"/secret/{b}", "shared"), author, hidden=True, day=1 + number % 9))
            made.append(Row(noise, (f"/open/{a}/deep", "level=top"), author, hidden=True))
            made.append(Row(f"{a} {SECRET}", ("/open", "note"), CAROL, hidden=True))
        if number % 7 == 0:
            made.append(Row(f"{a} plain", ("shared", "note"), author, day=2))
            made.append(Row(f"{a} unfit", (f"/open/{a}",), author, fits=False))
            made.append(Row(f"{a} unfit", (f"/secret/{a}",), author, fits=False, hidden=True))
            made.append(Row("", (f"/secret/{a}",), author, refused=True, hidden=True))
            made.append(Row("", ("level=top",), CAROL, refused=True, hidden=True))
    made.append(Row(f"{SECRET} alone", (f"/{SECRET}",), hidden=True))
    return [*made, *linked(made)]


def linked(made: list[Row]) -> list[Row]:
    """Make records that point at others and take their place, across what is hidden and what is shown."""
    open_rows = [number for number, row in enumerate(made) if not row.hidden and row.fits]
    hidden_rows = [number for number, row in enumerate(made) if row.hidden and row.fits and not row.refused]
    rows: list[Row] = []
    for turn, (a, b, c) in enumerate(zip(open_rows[::4], open_rows[1::4], hidden_rows, strict=False)):
        for hidden in (False, True):
            tags = (
                f"/secret/{turn}" if hidden else "/open/linked",
                f"importance={1 + (turn + 5 * hidden) % 10}",
            )
            targets = " ".join([uri(made, a), uri(made, c), "[[/open/rain]]", "[[/secret/rain]]"])
            rows.append(Row(f"rain points to {targets}", tags, made[a].author, hidden=hidden, day=3))
            for target in (b, c):
                relation = f"supersedes={made[target].author}/{rkey(target)}"
                author = made[b].author if turn % 2 else made[target].author
                rows.append(
                    Row(f"compost again {turn}", (*tags, relation), author, hidden=hidden, day=4 + turn % 5)
                )
    return rows


def rkey(number: int) -> str:
    """Give the key of a record by its number."""
    return str(Tid.from_micros(START + number))


def uri(made: Sequence[Row], number: int) -> str:
    """Give the URI of a record by its number."""
    return f"at://{made[number].author}/{ids.MEMORY}/{rkey(number)}"


# What the caller, a token, may read, in every shape that rules can take; each hides the rows marked hidden.
DENIES: Final[list[Permission]] = [
    Permission(EVERYONE, SPACE, pattern, "read", allow=False)
    for pattern in (
        Subtree("/secret"),
        Attribute("level", "top"),
        Attribute("owner", str(CAROL)),
        Exact(f"/{SECRET}"),
    )
]
# The same where Carol's rows are left from a time when she might write: no rule hides them from readers.
FORMER: Final = [each for each in DENIES if each.pattern != Attribute("owner", str(CAROL))]
ALL: Final = Permission(EVERYONE, SPACE, Subtree("/"), "read")
ALLOWS: Final[list[Permission]] = [
    *(
        Permission(EVERYONE, SPACE, pattern, "read")
        for pattern in (Attribute("owner", str(ALICE)), Exact("/nothing"), Subtree("/open"), Exact("/"))
    ),
    *DENIES,
]


@dataclass(slots=True)
class Twin:
    """A running appview, and the header of its caller."""

    client: Client
    garden: Garden
    headers: dict[str, str]
    context: Context
    cache: ViewCache

    async def ask(self, method: str, **given: Any) -> tuple[int, dict[str, str], bytes]:
        """Ask as the caller; give all that the answer is, but for its time and the request's number."""
        pairs = [
            (name, str(value).lower() if isinstance(value, bool) else str(value))
            for name, values in given.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        if lexicons().method(method).kind == "procedure":
            answer = await self.client.send("POST", f"/xrpc/{method}", json=given, headers=self.headers)
            await self.context.reinforcer.flush()  # what is recalled is stronger for the next question
        else:
            answer = await self.client.send("GET", f"/xrpc/{method}", params=pairs, headers=self.headers)
        shown = {k: v for k, v in answer.headers.items() if k not in ("date", "x-request-id")}
        shown = {k: v for k, v in shown.items() if not k.startswith("ratelimit")}
        return answer.status, shown, answer.raw


@asynccontextmanager
async def appview(
    folder: Path,
    settings: Settings,
    executor: ThreadPoolExecutor,
    *,
    whole: bool,
    rules: Sequence[Permission],
    memory: int,
) -> AsyncIterator[Twin]:
    """Run one of the twins; the `whole` one holds the hidden rows too. Without `memory` for an index the file
    answers."""
    settings = replace(settings, data=folder)
    folder.mkdir()
    Keys.load(folder.parent)  # the twins seal cursors alike
    for key in folder.parent.glob("*.key"):
        shutil.copy(key, folder)
    control = await Control.open(settings.control_file, executor)
    pool = SpacePool(settings.spaces_folder, executor, clock, analyser=ANALYSIS)
    garden = Garden(control, await Access.open(control, clock), pool)
    await garden.declare(config=replace(garden.config, next=OTHER))
    await fill(garden, whole=whole)
    await garden.access.change(rules, [ALL] if rules is ALLOWS else [], actor="operator", action="test")
    if rules is FORMER:
        await control.put_membership(SPACE, CAROL, "synced")
    if whole:
        await garden.declare(HIDDEN_SPACE)
        everyone = Permission(EVERYONE, HIDDEN_SPACE, Subtree("/"), "read")
        await garden.access.change(remove=[everyone], actor="operator", action="test")
        await garden.remember(f"compost {SECRET}", space=HIDDEN_SPACE)
    text, row = make_token(Token("twin"), START, None, lambda size: bytes(range(size)))
    await control.tokens.add(row, actor="operator")
    context = Context.of(settings, control, garden.access, pool, clock=clock)
    cache = ViewCache(ANALYSIS, max_bytes=memory)
    searcher = Searcher(cache=cache, tuning=read_tuning("common_facts=5"), now=clock)
    context = replace(context, searcher=searcher)
    try:
        async with listening(make_app(context), "127.0.0.1", 0) as port, ClientSession() as session:
            client = Client(session, f"http://127.0.0.1:{port}")
            yield Twin(client, garden, {"Authorization": f"Bearer {text}"}, context, cache)
    finally:
        await pool.close()
        await control.close()


async def fill(garden: Garden, *, whole: bool) -> None:
    """Index the rows, each in a commit of its own, in order."""
    async with garden.pool.use(SPACE) as store:
        for number, row in enumerate(rows()):
            if row.hidden and not whole:
                continue
            key_of_record = rkey(number)
            key = MODEL if row.fits else model_key(DIMS * 4)
            vector = Embedding(key, encode_f16le(embed(row.text or "x", key.dims)))
            following = Embedding(OTHER, encode_f16le(embed(row.text or "x", OTHER.dims)))
            memory = Memory(row.text, f"2026-01-{row.day:02}T00:00:00.000Z", vector, following, row.tags)
            cid = cid_text(cid_of(encode(memory.to_record())))
            change = (
                Refuse(key_of_record, cid, "blank", "the text is blank", row.tags)
                if row.refused
                else Put(key_of_record, cid, memory)
            )
            await store.apply([RepoUpdate(row.author, str(Tid.from_micros(START + number)), (change,))])
        assert await store.check() == []


def questions() -> list[tuple[str, dict[str, Any]]]:
    """Every method with every parameter, in all the ways that could tell of a row."""
    made = rows()
    hidden = made.index(next(row for row in made if row.hidden))
    shown = made.index(next(row for row in made if not row.hidden))
    uris = [uri(made, number) for number in (hidden, shown)]
    authors, paths = (
        [ALICE, BOB, CAROL, "did:web:nobody.example"],
        [
            *["/", "/open", "/open/compost", "/open/compost/deep", "/secret", "/secret/rain", f"/{SECRET}"],
            *[
                "/nothing",
                "/Open",
                "/open/../secret",
                "//secret//",
                "/secret/",
                "/%73ecret",
                "/\u0455ecret",
                "/open/",
            ],
        ],
    )
    filters: list[dict[str, Any]] = [
        {},
        *({"author": author} for author in authors),
        *({"tags": tags} for tags in (["shared"], ["note"], ["level=top"], ["/secret/rain"], ["kind=rain"])),
        {"tags": ["shared", "note"], "since": "2026-01-02T00:00:00Z"},
        {"since": "2026-01-05T00:00:00Z"},
        {"since": "2026-01-08T00:00:00Z", "author": CAROL},
    ]
    asked: list[tuple[str, dict[str, Any]]] = [(ids.DESCRIBE_SERVICE, {}), (ids.LIST_SPACES, {})]
    asked += [(ids.LIST_SPACES, {"limit": 1}), (ids.GET_SPACE_STATUS, {})]
    asked += [(ids.GET_MEMORY, {"uri": uri}) for uri in [*uris, "at://x", uris[0] + "x"]]
    asked += [(ids.LIST_MEMORIES, {**each, "limit": limit}) for each in filters for limit in (1, 7, 100)]
    asked += [(ids.LIST_PATHS, {"path": path, "limit": limit}) for path in paths for limit in (1, 500)]
    asked += [(ids.GET_PATH, {"path": path, "limit": limit}) for path in paths for limit in (1, 100)]
    texts = [
        *["compost", "compost tomato and the garden", SECRET, f"compost {SECRET}", "and the garden", "?!"],
        *['"and the"', f'"{SECRET} compost"', f"garden -{SECRET}", "garden -compost", "sword*", "co*"],
        *["g* the* and", '"tomato tomato"', "plain note shared", "level top", "secret rain", "0 1 2", "the"],
    ]
    for text in texts:
        for mode in ("keyword", "hybrid", "vector"):
            asked += [(ids.SEARCH_MEMORIES, {"q": text, "mode": mode, "limit": limit}) for limit in (1, 50)]
    for each in filters:
        asked.append((ids.SEARCH_MEMORIES, {"q": "compost rain the", "limit": 5, **each}))
        asked.append((ids.SEARCH_MEMORIES, {**query_vector("compost rain"), "limit": 5, **each}))
        asked.append((ids.SEARCH_MEMORIES, {"q": SECRET, **query_vector(SECRET), "limit": 50, **each}))
    asked.append((ids.SEARCH_MEMORIES, {"q": "x", **query_vector("x", OTHER)}))
    asked += around(uris)
    asked += [
        (ids.LIST_MEMBERS, {}),
        (ids.PUT_MEMBER, {"did": CAROL}),
        (ids.REMOVE_MEMBER, {"did": CAROL}),
        (ids.PUT_PATH_TAG, {"path": "/secret", "key": "k", "value": "v"}),
        (ids.REMOVE_PATH_TAG, {"path": "/secret", "key": "k"}),
    ]
    return asked


def around(uris: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Ask for what weighs, links, supersedes and explains."""
    made = rows()
    weighed: list[dict[str, Any]] = [
        *({"profile": profile} for profile in ("recent", "balanced")),
        {"weights": ["links=1000", "importance=10", "strength=5", "recency=5", "keyword=10", "vector=1"]},
        {"includeSuperseded": True, "profile": "balanced"},
        {"collapse": True, "mode": "vector"},
        {"author": BOB, "tags": ["/open/linked"], "since": "2026-01-02T00:00:00Z"},
    ]
    asked: list[tuple[str, dict[str, Any]]] = []
    for each in weighed:
        for text in ("compost again rain", f"{SECRET} the garden", "the"):
            for method in (ids.SEARCH_MEMORIES, ids.RECALL_MEMORIES):
                asked.append((method, {"q": text, "limit": 20, "explain": True, **each}))
    for target in uris:
        asked.append((ids.SEARCH_MEMORIES, {"similarTo": target, "explain": True, "limit": 50}))
        asked.append((ids.RECALL_MEMORIES, {"similarTo": target, "q": "rain", "explain": True}))
    asked.append((ids.RECALL_MEMORIES, {**query_vector("compost rain"), "explain": True}))
    asked += [(ids.RECALL_MEMORIES, {"explain": True, "limit": limit}) for limit in (1, 50)]
    asked += [
        (ids.GET_MEMORY_LINKS, {"uri": uri(made, number), "limit": limit, "includeSuperseded": superseded})
        for number in range(0, len(made), 5)
        for limit, superseded in ((2, False), (100, True))
    ]
    asked += [
        (
            ids.GET_MEMORY_GRAPH,
            {"limit": limit, "neighbors": 4, "minSimilarity": "0.2", "includeSuperseded": superseded},
        )
        for limit in (3, 500)
        for superseded in (False, True)
    ]
    for path in ("/", "/open", "/open/linked", "/secret"):
        asked.append((ids.LIST_PATHS, {"path": path, "includeSuperseded": True}))
        asked.append((ids.GET_PATH, {"path": path, "includeSuperseded": True}))
    asked.append((ids.LIST_MEMORIES, {"includeSuperseded": True, "limit": 100}))
    return asked


def test_every_method_and_every_parameter_is_asked() -> None:
    """A method or parameter that comes new must be asked here, or this fails."""
    given: dict[str, set[str]] = {}
    for method, parameters in questions():
        given.setdefault(method, {"space"}).update(parameters)
    assert given.keys() == handlers.HANDLERS.keys()
    for method in lexicons().methods():
        taken = set(method.parameters)
        if method.kind == "procedure":
            taken = set(lexicons().schema(method.nsid)["input"]["schema"]["properties"]) - {"protected"}
        # Cursors are followed by `pages`.
        assert taken - {"cursor", "limit"} <= given[method.nsid], method.nsid


async def pages(twin: Twin, method: str, parameters: dict[str, Any]) -> list[Any]:
    """Ask, and follow the cursor to the end."""
    found = [await twin.ask(method, **parameters)]
    while (cursor := json.loads(found[-1][2]).get("cursor")) is not None:
        found.append(await twin.ask(method, **parameters, cursor=cursor))
        assert len(found) < 200
    return found


# From memory, and from the file: by its index, or by the words of what is shown.
IN_MEMORY: Final = [(keyword.MAX_OCCURRENCES, MAX_CACHE_BYTES, 0), (25, MAX_CACHE_BYTES, 0)]
IN_FILES: Final = [
    (25, 0, 0),
    (25, 0, own_words.MAX_KEPT_WORDS),
    (keyword.MAX_OCCURRENCES, 0, own_words.MAX_KEPT_WORDS),
]
CASES: Final = [
    *(pytest.param(DENIES, *limits, id=f"denied-{limits}") for limits in (*IN_MEMORY, *IN_FILES)),
    *(pytest.param(ALLOWS, *limits, id=f"allowed-{limits}") for limits in (*IN_MEMORY, *IN_FILES)),
    *(pytest.param(FORMER, *limits, id=f"former-{limits}") for limits in (IN_MEMORY[0], *IN_FILES[:2])),
]


@pytest.mark.parametrize(("rules", "budget", "memory", "kept"), CASES)
async def test_answers_are_the_same_bytes(
    tmp_path: Path,
    settings: Settings,
    executor: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    rules: list[Permission],
    budget: int,
    memory: int,
    kept: int,
) -> None:
    monkeypatch.setattr(keyword, "MAX_OCCURRENCES", budget)
    monkeypatch.setattr(own_words, "MAX_KEPT_WORDS", kept)
    monkeypatch.setattr(keyword, "MAX_POSTINGS", budget)
    async with (
        appview(tmp_path / "a", settings, executor, whole=False, rules=rules, memory=memory) as without,
        appview(tmp_path / "b", settings, executor, whole=True, rules=rules, memory=memory) as whole,
    ):
        for method, parameters in questions():
            for space in (SPACE, HIDDEN_SPACE):
                given = parameters if method in SPACELESS else {"space": space, **parameters}
                expected = await pages(without, method, given)
                got = await pages(whole, method, given)
                assert got == expected, (method, parameters)
                assert got[0][0] < 500, (method, parameters)
        # The twins do differ, and there is something to see.
        async with whole.garden.pool.use(SPACE) as store:
            assert len(rows()) - len(await store.live(CAROL)) > len(await store.live(ALICE))
        status, _, body = await whole.ask(ids.SEARCH_MEMORIES, space=SPACE, q="compost")
        assert status == 200
        assert b"compost" in body


SPACELESS: Final = frozenset({ids.DESCRIBE_SERVICE, ids.LIST_SPACES})
