"""Reading a space over the socket: single memories, lists, the tree, status, spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.control import SpaceRow
from appview.memory.scope import Attribute, Subtree
from appview.memory.values import Visibility
from lexicons.hashing import model_key
from lexicons.ids import GET_MEMORY, GET_PATH, GET_SPACE_STATUS, LIST_MEMORIES, LIST_PATHS, LIST_SPACES
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.xrpc.garden import ALICE, AUTHORITY, BOB, MODEL, SPACE, START, Client, Garden

if TYPE_CHECKING:
    from appview.memory.scope import Pattern

PAGED = [LIST_MEMORIES, GET_PATH, LIST_PATHS, LIST_SPACES]


@pytest.fixture(autouse=True)
async def declared(garden: Garden) -> None:
    """A space with a model in every test."""
    await garden.declare()


def day(number: int) -> str:
    return f"2026-01-{number:02d}T00:00:00.000Z"


def deny(pattern: Pattern) -> Permission:
    return Permission(EVERYONE, SPACE, pattern, "read", allow=False)


async def pages(client: Client, method: str, **params: Any) -> list[dict[str, Any]]:
    """Read every page of a list."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    for _ in range(100):
        answer = await client.ask(method, params, **cursor)
        assert answer.status == 200, answer.body
        (items,) = [value for value in answer.body.values() if isinstance(value, list)]
        assert len(items) <= params.get("limit", 100)
        found += items
        if "cursor" not in answer.body:
            return found
        assert items, "a page that promises more is not empty"
        cursor = {"cursor": answer.body["cursor"]}
    raise AssertionError("the list has no end")


async def test_a_memory_comes_back_as_it_was_published(client: Client, garden: Garden) -> None:
    tags = ["/beds/north", "crop=lettuce", "urgent", "\u83dc\u56ed"]
    uri = await garden.remember(
        "Slugs \U0001f40c at night", tags=tags, source="diary", created_at="2026-01-02T03:04:05+02:00"
    )
    answer = await client.ask(GET_MEMORY, space=SPACE, uri=uri)
    memory = answer.body["memory"]
    assert {
        name: memory[name] for name in ("uri", "author", "text", "tags", "source", "path", "createdAt")
    } == {
        "uri": uri,
        "author": ALICE,
        "text": "Slugs \U0001f40c at night",
        "tags": tags,
        "source": "diary",
        "path": "/beds/north",
        "createdAt": "2026-01-02T03:04:05+02:00",
    }
    assert memory["cid"].startswith("bafyrei")
    assert "similarity" not in memory
    assert "match" not in memory


async def test_what_is_absent_stays_absent(client: Client, garden: Garden) -> None:
    uri = await garden.remember("plain")
    memory = (await client.ask(GET_MEMORY, space=SPACE, uri=uri)).body["memory"]
    assert memory["tags"] == []
    assert memory["path"] == "/"
    assert "source" not in memory


@pytest.mark.parametrize(
    "uri",
    [
        f"at://{ALICE}/garden.engram.memory/3jzfcijpj2z2a",
        f"at://{ALICE}/garden.engram.config/self",
        f"at://{ALICE}",
        "at://alice.example.org/garden.engram.memory/3jzfcijpj2z2a",
        SPACE,
    ],
)
async def test_a_memory_that_is_not_there(client: Client, uri: str) -> None:
    answer = await client.ask(GET_MEMORY, space=SPACE, uri=uri)
    assert (answer.status, answer.error) == (404, "MemoryNotFound")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "x",
        "%00",
        "at://x",
        "at://",
        f"at://{ALICE}/memory/x",
        f"at://{ALICE}/garden.engram.memory/",
        "https://example.org/memory",
    ],
)
async def test_what_is_no_uri_of_a_memory(client: Client, uri: str) -> None:
    answer = await client.ask(GET_MEMORY, space=SPACE, uri=uri)
    assert (answer.status, answer.error) == (400, "InvalidRequest")
    assert "uri" in answer.body["message"]


async def test_a_hidden_memory_and_a_deleted_one_look_like_one_that_never_was(
    client: Client, garden: Garden
) -> None:
    hidden = await garden.remember("hidden", tags=["/private"])
    deleted = await garden.remember("deleted")
    await garden.forget(deleted)
    await garden.hide(deny(Subtree("/private")))
    never = await client.ask(GET_MEMORY, space=SPACE, uri=f"at://{BOB}/garden.engram.memory/3jzfcijpj2z2a")
    for uri in (hidden, deleted):
        answer = await client.ask(GET_MEMORY, space=SPACE, uri=uri)
        assert (answer.status, answer.raw) == (never.status, never.raw)


async def test_lists_are_newest_first_and_paths_oldest_first(client: Client, garden: Garden) -> None:
    for number in (2, 1, 3):
        await garden.remember(f"day {number}", created_at=day(number), tags=["/days"])
    answer = await client.ask(LIST_MEMORIES, space=SPACE)
    assert answer.texts == ["day 3", "day 2", "day 1"]
    answer = await client.ask(GET_PATH, space=SPACE, path="/days")
    assert answer.texts == ["day 1", "day 2", "day 3"]


async def test_memories_of_one_moment_are_ordered_by_author_and_key(client: Client, garden: Garden) -> None:
    uris = [await garden.remember(f"{n}", author=(ALICE, BOB)[n % 2], tags=["/x"]) for n in range(6)]
    listed = [memory["uri"] for memory in await pages(client, LIST_MEMORIES, space=SPACE, limit=1)]
    assert listed == sorted(uris, reverse=True)
    at_path = [memory["uri"] for memory in await pages(client, GET_PATH, space=SPACE, path="/x", limit=1)]
    assert at_path == sorted(uris)


async def test_a_memory_dated_in_the_future_does_not_stay_on_top(client: Client, garden: Garden) -> None:
    await garden.remember("from the year 9999", created_at="9999-12-31T23:59:59Z")
    await garden.remember("of today", created_at=day(1))
    memories = (await client.ask(LIST_MEMORIES, space=SPACE)).body["memories"]
    assert [memory["createdAt"] for memory in memories] == ["9999-12-31T23:59:59Z", day(1)]
    since = await client.ask(LIST_MEMORIES, space=SPACE, since="9000-01-01T00:00:00Z")
    assert since.texts == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
async def test_pages_join_to_the_whole_list(client: Client, garden: Garden, size: int) -> None:
    for number in range(7):
        await garden.remember(f"{number}", tags=[f"/p{number}", "x"], created_at=day(1 + number % 3))
    whole = (await client.ask(LIST_MEMORIES, space=SPACE)).body["memories"]
    assert len(whole) == 7
    assert await pages(client, LIST_MEMORIES, space=SPACE, limit=size) == whole
    paths = (await client.ask(LIST_PATHS, space=SPACE)).body["paths"]
    assert await pages(client, LIST_PATHS, space=SPACE, limit=size) == paths


async def test_a_full_last_page_promises_no_more(client: Client, garden: Garden) -> None:
    for number in range(4):
        await garden.remember(f"{number}")
    assert "cursor" not in (await client.ask(LIST_MEMORIES, space=SPACE, limit=4)).body
    assert "cursor" in (await client.ask(LIST_MEMORIES, space=SPACE, limit=3)).body


async def test_pages_are_stable_while_memories_arrive_and_go(client: Client, garden: Garden) -> None:
    uris = [await garden.remember(f"{n}", created_at=day(10 + n)) for n in range(6)]
    first = await client.ask(LIST_MEMORIES, space=SPACE, limit=3)
    assert first.texts == ["5", "4", "3"]
    await garden.remember("newer than all", created_at=day(30))
    await garden.forget(uris[3])  # the very item that the cursor names
    await garden.remember("older than all", created_at=day(1))
    rest = await client.ask(LIST_MEMORIES, space=SPACE, limit=10, cursor=first.body["cursor"])
    assert rest.texts == ["2", "1", "0", "older than all"]


async def test_hidden_memories_leave_no_trace_in_pages(client: Client, garden: Garden) -> None:
    for number in range(6):
        await garden.remember(
            f"{number}", tags=["/private"] if number % 2 else [], created_at=day(1 + number)
        )
    await garden.hide(deny(Subtree("/private")))
    answer = await client.ask(LIST_MEMORIES, space=SPACE, limit=3)
    assert answer.texts == ["4", "2", "0"]
    assert "cursor" not in answer.body


async def test_filters_hold_together(client: Client, garden: Garden) -> None:
    await garden.remember("alice, both", tags=["red", "k=v"], created_at=day(1))
    await garden.remember("alice, one", tags=["red"], created_at=day(2))
    await garden.remember("bob, both", author=BOB, tags=["red", "k=v"], created_at=day(3))

    async def texts(**given: Any) -> list[str]:
        return (await client.ask(LIST_MEMORIES, given, space=SPACE)).texts

    assert await texts(tags=["red", "k=v"]) == ["bob, both", "alice, both"]
    assert await texts(author=ALICE) == ["alice, one", "alice, both"]
    assert await texts(since=day(2)) == ["bob, both", "alice, one"]
    assert await texts(author=BOB, tags="k=v", since=day(3)) == ["bob, both"]
    assert await texts(tags="re") == []
    assert await texts(tags="%") == []
    assert await texts(author="did:plc:nobody") == []


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.9Z"])
async def test_any_valid_instant_can_be_asked_for(client: Client, since: str) -> None:
    assert (await client.ask(LIST_MEMORIES, space=SPACE, since=since)).status == 200


@pytest.mark.parametrize(
    ("method", "most"), [(LIST_MEMORIES, 100), (GET_PATH, 100), (LIST_PATHS, 500), (LIST_SPACES, 100)]
)
async def test_each_list_has_its_limits(client: Client, method: str, most: int) -> None:
    given = {"space": SPACE, "path": "/"}
    for limit in (1, most):
        assert (await client.ask(method, given, limit=limit)).status == 200
    for wrong in (0, -1, most + 1, "x", "1.5", 2**70):
        assert (await client.ask(method, given, limit=wrong)).error == "InvalidRequest"


async def test_a_cursor_is_good_for_its_query_alone(client: Client, garden: Garden) -> None:
    other = SpaceUri.public(BOB)
    await garden.declare(other)
    for number in range(3):
        for space in (SPACE, other):
            await garden.remember(f"{number}", tags=["/x"], space=space)
    cursor = (await client.ask(LIST_MEMORIES, space=SPACE, limit=1)).body["cursor"]
    assert (await client.ask(LIST_MEMORIES, space=SPACE, limit=2, cursor=cursor)).status == 200
    for method, given in [
        (LIST_MEMORIES, {"space": other}),
        (LIST_MEMORIES, {"space": SPACE, "author": ALICE}),
        (LIST_MEMORIES, {"space": SPACE, "tags": "/x"}),
        (LIST_MEMORIES, {"space": SPACE, "since": day(1)}),
        (GET_PATH, {"space": SPACE, "path": "/x"}),
        (LIST_PATHS, {"space": SPACE}),
        (LIST_SPACES, {}),
    ]:
        answer = await client.ask(method, given, cursor=cursor)
        assert (answer.status, answer.error) == (400, "InvalidRequest"), (method, given)


@pytest.mark.parametrize("method", PAGED)
@pytest.mark.parametrize(
    "cursor", ["x", "AAAA", "-", "1 OR 1=1", "\u00e9", "0" * 1024, "null", "{}", "A" * 9000]
)
async def test_what_is_no_cursor_is_refused(client: Client, method: str, cursor: str) -> None:
    answer = await client.ask(method, space=SPACE, path="/", cursor=cursor)
    assert (answer.status, answer.error) == (400, "InvalidRequest")


async def test_the_longest_did_can_be_paged_past(client: Client, garden: Garden) -> None:
    long = Did("did:web:" + "a" * 2040)
    for number in range(3):
        await garden.remember(f"{number}", author=long, tags=["/x"])
    assert len(await pages(client, LIST_MEMORIES, space=SPACE, limit=1)) == 3
    assert len(await pages(client, GET_PATH, space=SPACE, path="/x", limit=1)) == 3


async def test_the_tree_is_listed_level_by_level(client: Client, garden: Garden) -> None:
    for tags in (["/a"], ["/a"], ["/a/b"], ["/a/b/c"], ["/d/e"], []):
        await garden.remember("x", tags=tags)
    answer = await client.ask(LIST_PATHS, space=SPACE)
    assert answer.body == {
        "path": "/",
        "paths": [
            {"path": "/a", "segment": "a", "memories": 2, "children": 1, "descendants": 2},
            {"path": "/d", "segment": "d", "memories": 0, "children": 1, "descendants": 1},
        ],
    }
    below = await client.ask(LIST_PATHS, space=SPACE, path="/a//b/")
    assert below.body["path"] == "/a/b"
    assert [node["path"] for node in below.body["paths"]] == ["/a/b/c"]


async def test_a_path_holds_its_own_memories_and_not_those_below(client: Client, garden: Garden) -> None:
    await garden.remember("at", tags=["/a"])
    await garden.remember("below", tags=["/a/b"])
    await garden.remember("beside", tags=["/ab"])
    answer = await client.ask(GET_PATH, space=SPACE, path="//a/")
    assert answer.body["path"] == "/a"
    assert answer.texts == ["at"]


@pytest.mark.parametrize("method", [LIST_PATHS, GET_PATH])
async def test_hidden_paths_and_absent_ones_are_empty(client: Client, garden: Garden, method: str) -> None:
    await garden.remember("hidden", tags=["/private/x"])
    await garden.hide(deny(Attribute("owner", ALICE)))
    hidden = await client.ask(method, space=SPACE, path="/private")
    absent = await client.ask(method, space=SPACE, path="/nowhere")
    assert hidden.status == 200
    assert hidden.raw == absent.raw.replace(b"/nowhere", b"/private")
    root = await client.ask(LIST_PATHS, space=SPACE)
    assert root.body["paths"] == []


@pytest.mark.parametrize("method", [LIST_PATHS, GET_PATH])
@pytest.mark.parametrize("path", ["a", "work/../x", "\\a", ".", "~"])
async def test_a_path_starts_at_the_root(client: Client, method: str, path: str) -> None:
    answer = await client.ask(method, space=SPACE, path=path)
    assert (answer.status, answer.error) == (400, "InvalidRequest")


@pytest.mark.parametrize("path", ["/work/../x", "/..", "/%2f", "/Work", "/*", "/' OR 1=1 --", "/\U0001f331"])
async def test_odd_paths_are_names_and_nothing_more(client: Client, garden: Garden, path: str) -> None:
    await garden.remember("elsewhere", tags=["/work"])
    assert (await client.ask(GET_PATH, space=SPACE, path=path)).texts == []
    await garden.remember("there", tags=[path])
    assert (await client.ask(GET_PATH, space=SPACE, path=path)).texts == ["there"]


async def test_status_counts_what_is_indexed_and_what_is_not(client: Client, garden: Garden) -> None:
    await garden.remember("fits")
    await garden.remember("another model", author=BOB, model=model_key(32))
    status = (await client.ask(GET_SPACE_STATUS, space=SPACE)).body
    assert status["memories"] == 1
    assert status["active"] == MODEL.to_record()
    assert status["config"] == {**MODEL.to_record(), "createdAt": garden.config.created_at}
    assert "building" not in status
    assert "buildingMemories" not in status
    assert status["skipped"] == [{"author": BOB, "count": 1, "reasons": [{"reason": "model", "count": 1}]}]


async def test_status_shows_a_change_of_model(client: Client, garden: Garden) -> None:
    await garden.declare(config=garden.config.with_next(model_key(32)))
    status = (await client.ask(GET_SPACE_STATUS, space=SPACE)).body
    assert status["active"] == MODEL.to_record()
    assert status["building"] == status["config"]["next"] == model_key(32).to_record()
    assert status["buildingMemories"] == 0


async def test_a_space_whose_config_is_gone_is_known_and_empty(client: Client, garden: Garden) -> None:
    await garden.remember("was here")
    await garden.withdraw()
    status = await client.ask(GET_SPACE_STATUS, space=SPACE)
    assert status.status == 200
    assert status.body["memories"] == 0
    assert "config" not in status.body
    assert "active" not in status.body


async def test_status_counts_only_what_the_caller_may_read(client: Client, garden: Garden) -> None:
    await garden.remember("open")
    await garden.remember("hidden", tags=["/private"])
    await garden.remember("hidden, unfit", author=BOB, tags=["/private"], model=model_key(32))
    await garden.hide(deny(Subtree("/private")))
    status = (await client.ask(GET_SPACE_STATUS, space=SPACE)).body
    assert (status["memories"], status["skipped"]) == (1, [])


async def test_spaces_are_listed_by_uri_with_model_and_count(client: Client, garden: Garden) -> None:
    others = [SpaceUri.public(did) for did in (ALICE, BOB)]
    for space in others:
        await garden.declare(space)
    await garden.remember("x", space=others[0])
    await garden.withdraw(others[1])
    found = await pages(client, LIST_SPACES, limit=1)
    assert [space["uri"] for space in found] == sorted([SPACE, *others])
    by_uri = {space["uri"]: space for space in found}
    assert by_uri[others[0]] == {
        "uri": others[0],
        "kind": "public",
        "authority": ALICE,
        "memories": 1,
        "model": MODEL.to_record(),
    }
    assert by_uri[SPACE]["authority"] == AUTHORITY
    assert "model" not in by_uri[others[1]]


async def test_hidden_spaces_are_not_listed(client: Client, garden: Garden) -> None:
    await garden.declare(SpaceUri.public(BOB))
    await garden.hide(deny(Subtree("/")))
    spaces = (await client.ask(LIST_SPACES)).body["spaces"]
    assert [space["uri"] for space in spaces] == [SpaceUri.public(BOB)]


async def test_a_space_that_an_operator_only_made_room_for_is_not_there_yet(
    client: Client, garden: Garden
) -> None:
    admitted = SpaceUri.public(BOB)
    await garden.control.put_space(SpaceRow(admitted, BOB, "public", None, None, None, START))
    assert [space["uri"] for space in (await client.ask(LIST_SPACES)).body["spaces"]] == [SPACE]
    assert (await client.ask(GET_SPACE_STATUS, space=admitted)).error == "UnknownSpace"
    assert not garden.pool.exists(admitted)


async def test_what_is_hidden_of_an_inactive_account_is_not_counted_in_the_list_of_spaces(
    client: Client, garden: Garden
) -> None:
    await garden.remember("shown", author=ALICE)
    await garden.remember("hidden", author=BOB)
    async with garden.pool.use(SPACE) as store:
        await store.apply([Visibility(BOB, True)])
    listed = (await client.ask(LIST_SPACES)).body["spaces"]
    assert [each["memories"] for each in listed if each["uri"] == SPACE] == [1]
