"""Governing a space from outside: who may, what it does on the next request, and what is refused."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from appview.access.access import Access
from appview.access.rules import Grant, Permission
from appview.access.subjects import AUTHORITY as AUTHORITY_ROLE
from appview.access.subjects import EVERYONE, MEMBER, OPERATOR, Account, Role, Token
from appview.access.tokens import make_token
from appview.control import Control
from appview.control_rules import Rule
from appview.memory.scope import Attribute, Exact, Scope, Subtree, holds_subtree
from appview.xrpc.bodies import MAX_BODY_BYTES
from appview.xrpc.handlers import put_member
from appview.xrpc.routing import to_the_end
from lexicons import ids
from lexicons.catalog import garden as lexicons
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.xrpc.garden import ALICE, BOB, SPACE, START, Answer, Client

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from appview.memory.scope import Pattern
    from appview.xrpc.context import Context
    from tests.appview.xrpc.garden import Garden

PROCEDURES = {
    ids.PUT_MEMBER: {"did": BOB},
    ids.REMOVE_MEMBER: {"did": BOB},
    ids.PUT_PATH_TAG: {"path": "/a", "key": "level", "value": "top"},
    ids.REMOVE_PATH_TAG: {"path": "/a", "key": "level"},
}
GOVERNING = [*PROCEDURES, ids.LIST_MEMBERS]
NOWHERE = SpaceUri.public(Did("did:web:nowhere.example"))


class Caller:
    """Calls as the holder of a token."""

    def __init__(self, client: Client, secret: str) -> None:
        self._client = client
        self.headers = {"Authorization": f"Bearer {secret}"}

    async def call(self, method: str, **given: Any) -> Answer:
        if lexicons().method(method).kind == "procedure":
            return await self._client.send("POST", f"/xrpc/{method}", json=given, headers=self.headers)
        params = {name: str(value) for name, value in given.items()}
        return await self._client.send("GET", f"/xrpc/{method}", params=params, headers=self.headers)


@pytest.fixture
async def caller(client: Client, context: Context, garden: Garden) -> Caller:
    """A known caller without any right but that of everyone, in a space with one memory."""
    await garden.declare()
    await garden.remember("hidden soon", tags=["/a/b"])
    secret, row = make_token(Token("ci"), START, None, lambda size: bytes(range(size)))
    await context.control.tokens.add(row, actor="operator")
    return Caller(client, secret)


@pytest.fixture
async def operator(caller: Caller, garden: Garden) -> Caller:
    await garden.access.change([Grant(Token("ci"), OPERATOR, None)], actor="operator", action="test")
    return caller


def test_every_method_that_governs_is_tried_here() -> None:
    procedures = {method.nsid for method in lexicons().methods() if method.kind == "procedure"}
    procedures.remove(ids.RECALL_MEMORIES)  # changes what memories are to its caller, not the space
    assert procedures == PROCEDURES.keys()


@pytest.mark.parametrize("method", GOVERNING)
async def test_only_those_who_govern_may(client: Client, caller: Caller, garden: Garden, method: str) -> None:
    given = {"space": SPACE, **PROCEDURES.get(method, {})}
    before = await garden.control.rules()
    verb = "POST" if method in PROCEDURES else "GET"
    anonymous = await client.send(verb, f"/xrpc/{method}", **{"json" if verb == "POST" else "params": given})
    assert (anonymous.status, anonymous.error) == (401, "AuthenticationRequired")
    known = await caller.call(method, **given)
    assert (known.status, known.error) == (403, "Forbidden")
    assert await garden.control.rules() == before
    for role in (OPERATOR, AUTHORITY_ROLE):
        grant = Grant(Token("ci"), role, SPACE)
        await garden.access.change([grant], actor="operator", action="test")
        assert (await caller.call(method, **given)).status == 200
        await garden.access.change(remove=[grant], actor="operator", action="test")
        assert (await caller.call(method, **given)).status == 403


@pytest.mark.parametrize("method", GOVERNING)
async def test_a_hidden_space_and_an_absent_one_look_the_same(
    caller: Caller, garden: Garden, method: str
) -> None:
    everyone = Permission(EVERYONE, SPACE, Subtree("/"), "read")
    await garden.access.change(remove=[everyone], actor="operator", action="test")
    hidden = await caller.call(method, space=SPACE, **PROCEDURES.get(method, {}))
    absent = await caller.call(method, space=NOWHERE, **PROCEDURES.get(method, {}))
    assert (hidden.status, hidden.error) == (400, "UnknownSpace")
    assert (absent.status, absent.raw) == (hidden.status, hidden.raw)
    assert not garden.pool.exists(NOWHERE)


async def test_members_come_and_go_and_are_listed(operator: Caller, garden: Garden) -> None:
    assert (await operator.call(ids.PUT_MEMBER, space=SPACE, did=BOB)).body == {"changed": True}
    assert (await operator.call(ids.PUT_MEMBER, space=SPACE, did=BOB)).body == {"changed": False}
    assert garden.access.writers(SPACE) == {SPACE.authority, BOB}
    await operator.call(ids.PUT_MEMBER, space=SPACE, did=ALICE)
    whole = await operator.call(ids.LIST_MEMBERS, space=SPACE)
    assert whole.body == {"members": [{"did": did} for did in sorted([ALICE, BOB])]}
    first = (await operator.call(ids.LIST_MEMBERS, space=SPACE, limit=1)).body
    second = (await operator.call(ids.LIST_MEMBERS, space=SPACE, limit=1, cursor=first["cursor"])).body
    assert first["members"] + second["members"] == whole.body["members"]
    assert "cursor" not in second
    assert (await operator.call(ids.REMOVE_MEMBER, space=SPACE, did=BOB)).body == {"changed": True}
    assert (await operator.call(ids.REMOVE_MEMBER, space=SPACE, did=BOB)).body == {"changed": False}
    assert garden.access.members(SPACE) == [ALICE]
    newest, *_ = await garden.control.audit(10)
    assert (newest.actor, newest.action) == ("token:ci", "member remove")
    assert newest.before == (Rule("g", (BOB, "role:member", SPACE)),)


async def test_what_a_former_member_wrote_is_gone_with_the_next_request(
    operator: Caller, client: Client, garden: Garden, tmp_path: Path, executor: Executor
) -> None:
    """Nothing follows the rules here: readers alone are shown the difference."""
    uri = await garden.remember("bob's words", author=BOB, tags=["/b"])
    await garden.control.put_membership(SPACE, BOB, "synced")
    await operator.call(ids.PUT_MEMBER, space=SPACE, did=BOB)

    async def seen() -> tuple[object, ...]:
        status = (await client.ask(ids.GET_SPACE_STATUS, space=SPACE)).body
        return (
            sorted((await client.ask(ids.LIST_MEMORIES, space=SPACE)).texts),
            (await client.ask(ids.SEARCH_MEMORIES, space=SPACE, q="bob's words")).texts,
            (await client.ask(ids.GET_MEMORY, space=SPACE, uri=uri)).status,
            [path["path"] for path in (await client.ask(ids.LIST_PATHS, space=SPACE)).body["paths"]],
            status["memories"],
            (await client.ask(ids.LIST_SPACES)).body["spaces"][0]["memories"],
        )

    shown = (["bob's words", "hidden soon"], ["bob's words"], 200, ["/a", "/b"], 2, 2)
    hidden = (["hidden soon"], [], 404, ["/a"], 1, 1)
    assert await seen() == shown
    await operator.call(ids.REMOVE_MEMBER, space=SPACE, did=BOB)
    assert await seen() == hidden
    await operator.call(ids.PUT_MEMBER, space=SPACE, did=BOB)
    assert await seen() == shown
    # The same by the command line, in a process of its own.
    control = await Control.open(tmp_path / "control.db", executor)
    elsewhere = await Access.open(control, lambda: START)
    denied = Permission(MEMBER, SPACE, Subtree("/"), "write", allow=False)
    await elsewhere.change([denied], actor="operator", action="policy add")
    assert await seen() == hidden
    await elsewhere.change(remove=[denied], actor="operator", action="policy remove")
    assert await seen() == shown
    await control.close()


async def test_members_by_other_rules_are_listed_and_marked(operator: Caller, garden: Garden) -> None:
    await operator.call(ids.PUT_MEMBER, space=SPACE, did=BOB)
    carol, staff = Did("did:web:carol.example"), Role("staff")
    grants = [
        Grant(Account(ALICE), MEMBER, None),
        Grant(Account(carol), staff, SPACE),
        Grant(staff, MEMBER, None),
    ]
    await garden.access.change(grants, actor="operator", action="test")
    expected = [{"did": ALICE, "inherited": True}, {"did": BOB}, {"did": carol, "inherited": True}]
    listed = (await operator.call(ids.LIST_MEMBERS, space=SPACE)).body["members"]
    assert listed == sorted(expected, key=lambda view: str(view["did"]))
    assert (await operator.call(ids.REMOVE_MEMBER, space=SPACE, did=ALICE)).body == {"changed": False}
    await operator.call(ids.REMOVE_MEMBER, space=SPACE, did=BOB)
    listed = (await operator.call(ids.LIST_MEMBERS, space=SPACE)).body["members"]
    assert [view["did"] for view in listed] == sorted([ALICE, carol])


async def test_a_space_has_so_many_members_and_no_more(
    operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(put_member, "MAX_MEMBERS", 1)
    assert (await operator.call(ids.PUT_MEMBER, space=SPACE, did=BOB)).status == 200
    assert (await operator.call(ids.PUT_MEMBER, space=SPACE, did=BOB)).body == {"changed": False}
    answer = await operator.call(ids.PUT_MEMBER, space=SPACE, did=ALICE)
    assert (answer.status, answer.error) == (400, "InvalidRequest")


async def test_a_tag_of_a_path_decides_on_the_next_request(
    operator: Caller, client: Client, garden: Garden
) -> None:
    await garden.hide(Permission(EVERYONE, SPACE, Attribute("level", "top"), "read", allow=False))
    tag = {"space": SPACE, "path": "/a", "key": "level"}

    async def seen() -> list[str]:
        return (await client.ask(ids.LIST_MEMORIES, space=SPACE)).texts

    assert await seen() == ["hidden soon"]
    assert (await operator.call(ids.PUT_PATH_TAG, **tag, value="top")).body == {"changed": True}
    assert await seen() == []
    assert (await operator.call(ids.PUT_PATH_TAG, **tag, value="top")).body == {"changed": False}
    # The record may say otherwise, unless the path protects the key.
    await garden.remember("says otherwise", tags=["/a", "level=low"])
    assert await seen() == ["says otherwise"]
    protected = {**tag, "value": "top", "protected": True}
    assert (await operator.call(ids.PUT_PATH_TAG, **protected)).body == {"changed": True}
    assert await seen() == []
    assert (await operator.call(ids.REMOVE_PATH_TAG, **tag)).body == {"changed": True}
    assert (await operator.call(ids.REMOVE_PATH_TAG, **tag)).body == {"changed": False}
    assert sorted(await seen()) == ["hidden soon", "says otherwise"]
    changes = [row for row in await garden.control.audit(10) if "path tag" in row.action]
    entries = [(row.actor, row.action, row.before, row.after) for row in changes]
    plain = Rule("tag", (SPACE, "/a", "level=top", "plain"))
    hard = Rule("tag", (SPACE, "/a", "level=top", "protected"))
    assert entries == [
        ("token:ci", "path tag removed", (hard,), ()),
        ("token:ci", "path tag put", (plain,), (hard,)),
        ("token:ci", "path tag put", (), (plain,)),
    ]


async def test_who_governs_a_path_governs_what_is_below_and_nothing_else(
    caller: Caller, garden: Garden
) -> None:
    await garden.hide(Permission(Token("ci"), SPACE, Subtree("/a"), "admin"))
    tag = {"space": SPACE, "key": "k", "value": "v"}
    for path, status in (("/a", 200), ("/a/b", 200), ("/ab", 403), ("/", 403), ("/b", 403)):
        assert (await caller.call(ids.PUT_PATH_TAG, **tag, path=path)).status == status, path
    assert (await caller.call(ids.PUT_MEMBER, space=SPACE, did=BOB)).status == 403
    await garden.hide(Permission(Token("ci"), SPACE, Subtree("/a/c"), "admin", allow=False))
    assert (await caller.call(ids.PUT_PATH_TAG, **tag, path="/a")).status == 403
    assert (await caller.call(ids.PUT_PATH_TAG, **tag, path="/a/b")).status == 200


async def test_who_governs_a_path_does_not_undo_what_a_path_above_protects(
    caller: Caller, client: Client, garden: Garden
) -> None:
    everything = Permission(Token("ci"), SPACE, Subtree("/"), "admin")
    await garden.hide(everything, Permission(EVERYONE, SPACE, Attribute("level", "top"), "read", allow=False))
    early = {"space": SPACE, "path": "/a/b", "key": "level"}
    assert (await caller.call(ids.PUT_PATH_TAG, **early, value="low")).status == 200
    above = {"space": SPACE, "path": "/a", "key": "level", "value": "top", "protected": True}
    assert (await caller.call(ids.PUT_PATH_TAG, **above)).body == {"changed": True}
    # From here on its caller governs the path below alone.
    await garden.hide(Permission(Token("ci"), SPACE, Subtree("/a/b"), "admin"))
    await garden.access.change(remove=[everything], actor="operator", action="test")

    async def seen() -> list[str]:
        return (await client.ask(ids.LIST_MEMORIES, space=SPACE)).texts

    assert await seen() == []
    for path in ("/a/b", "/a/b/c"):
        for protected in (False, True):
            given = {**early, "path": path, "value": "low", "protected": protected}
            answer = await caller.call(ids.PUT_PATH_TAG, **given)
            assert (answer.status, answer.error) == (400, "InvalidRequest")
            assert "/a protects level" in answer.body["message"]
    assert (await caller.call(ids.PUT_PATH_TAG, **{**early, "key": "other"}, value="x")).status == 200
    assert (await caller.call(ids.REMOVE_PATH_TAG, **early)).body == {"changed": True}
    assert (await caller.call(ids.REMOVE_PATH_TAG, space=SPACE, path="/a", key="level")).status == 403
    assert await seen() == []


async def test_who_governs_a_path_alone_does_not_undo_what_the_path_itself_protects(
    caller: Caller, client: Client, garden: Garden
) -> None:
    """Whoever governs above it does."""
    top = Permission(EVERYONE, SPACE, Attribute("level", "top"), "read", allow=False)
    await garden.hide(Permission(Token("ci"), SPACE, Subtree("/a"), "admin"), top)
    async with garden.pool.use(SPACE) as store:
        await store.set_path_tag("/a", "level", "top", protected=True)
        await store.set_path_tag("/a/b", "kind", "x", protected=True)
        await store.set_path_tag("/", "stage", "x", protected=True)
    tag = {"space": SPACE, "path": "/a", "key": "level"}

    async def put(**given: Any) -> tuple[int, str | None]:
        answer = await caller.call(ids.PUT_PATH_TAG, **{**tag, "value": "low", **given})
        return answer.status, answer.error

    async def remove(**given: Any) -> tuple[int, str | None]:
        answer = await caller.call(ids.REMOVE_PATH_TAG, **{**tag, **given})
        return answer.status, answer.error

    forbidden = (403, "Forbidden")
    changes = await garden.control.audit(500)
    for protected in (False, True):
        assert await put(protected=protected) == forbidden
    assert await put(value="top", protected=False) == forbidden
    assert await put(value="top", protected=True) == (200, None)  # changes nothing
    assert await remove() == forbidden
    assert await garden.control.audit(500) == changes
    assert (await client.ask(ids.LIST_MEMORIES, space=SPACE)).texts == []
    # What is below is theirs, and so is another key of the path, until it is protected.
    assert await put(path="/a/b", key="kind") == (200, None)
    assert await remove(path="/a/b", key="kind") == (200, None)
    assert await put(key="kind", protected=False) == (200, None)
    assert await put(key="kind", protected=True) == (200, None)
    assert await remove(key="kind") == forbidden
    # From above, and of the root, all of it is to be governed.
    hole = Permission(Token("ci"), SPACE, Subtree("/z"), "admin", allow=False)
    await garden.hide(Permission(Token("ci"), SPACE, Subtree("/"), "admin"), hole)
    assert await remove() == forbidden
    await garden.access.change(remove=[hole], actor="operator", action="test")
    assert await put(protected=True) == (200, None)
    assert await remove() == (200, None)
    assert await put(path="/", key="stage") == (200, None)
    assert await remove(path="/", key="stage") == (200, None)
    assert (await client.ask(ids.LIST_MEMORIES, space=SPACE)).texts == ["hidden soon"]


@pytest.mark.parametrize(
    "path",
    [
        *["a", "", "//", "/a/", "/a//b", "/a/../b", "/./a", "/a%2fb", "/a\\b", "/*", "/a/*", "/a\u200bb"],
        *["/ a", "/a\n", "/" + "x" * 128, "\u2215a"],
    ],
)
async def test_a_path_that_rules_could_not_name_is_refused(operator: Caller, path: str) -> None:
    for method in (ids.PUT_PATH_TAG, ids.REMOVE_PATH_TAG):
        given = {"space": SPACE, **PROCEDURES[method], "path": path}
        answer = await operator.call(method, **given)
        assert (answer.status, answer.error) == (400, "InvalidRequest"), method


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("owner", str(ALICE)),
        ("owner", "x"),
        ("space", str(ALICE)),
        ("K", "v"),
        ("k=", "v"),
        ("k", " v"),
        ("k", "v\u202e"),
        ("k", "x" * 127),
        ("'; DROP TABLE path_tags; --", "v"),
    ],
)
async def test_a_tag_that_rules_could_not_name_is_refused(operator: Caller, key: str, value: str) -> None:
    answer = await operator.call(ids.PUT_PATH_TAG, space=SPACE, path="/a", key=key, value=value)
    assert (answer.status, answer.error) == (400, "InvalidRequest")


async def test_trust_comes_from_paths_alone(operator: Caller, client: Client, garden: Garden) -> None:
    await garden.hide(Permission(EVERYONE, SPACE, Attribute("trust", "low"), "read", allow=False))
    await garden.remember("claims trust", tags=["/a", "trust=high"])
    await operator.call(ids.PUT_PATH_TAG, space=SPACE, path="/a", key="trust", value="low")
    assert (await client.ask(ids.LIST_MEMORIES, space=SPACE)).texts == []


GOOD = {"space": SPACE, "did": BOB}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'"x"', "application/json"),
        (b"\xff", "application/json"),
        (json.dumps(GOOD).encode("utf-16"), "application/json"),
        (json.dumps(GOOD).encode(), "application/json; charset=utf-16"),
        (json.dumps(GOOD).encode(), "text/plain"),
        (json.dumps(GOOD).encode(), "application/x-www-form-urlencoded"),
        (f"space={SPACE}&did={BOB}".encode(), "application/x-www-form-urlencoded"),
        (json.dumps({"space": SPACE}).encode(), "application/json"),
        (json.dumps({**GOOD, "did": "bob.test"}).encode(), "application/json"),
        (json.dumps({**GOOD, "did": [BOB]}).encode(), "application/json"),
        (json.dumps({**GOOD, "space": None}).encode(), "application/json"),
        (json.dumps({**GOOD, "x": "a\0"}).encode(), "application/json"),
        (json.dumps({**GOOD, "x": 1.5}).encode(), "application/json"),
        (b'{"x": NaN}', "application/json"),
        (json.dumps(GOOD).encode()[:-1] + b', "did": "did:web:evil.example"}', "application/json"),
        (b'{"space": "' + SPACE.encode() + b'", "did": "\\ud800"}', "application/json"),
        (b"[" * 15_000, "application/json"),
        (b'{"a":' * 3_000, "application/json"),
    ],
)
async def test_a_body_that_could_be_read_in_two_ways_is_refused(
    operator: Caller, client: Client, garden: Garden, body: bytes, content_type: str
) -> None:
    headers = {**operator.headers, "Content-Type": content_type}
    answer = await client.send("POST", f"/xrpc/{ids.PUT_MEMBER}", data=body, headers=headers)
    assert (answer.status, answer.error) == (400, "InvalidRequest")
    assert garden.access.members(SPACE) == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "x"])
async def test_a_compressed_body_is_refused(operator: Caller, client: Client, encoding: str) -> None:
    headers = {**operator.headers, "Content-Type": "application/json", "Content-Encoding": encoding}
    answer = await client.send("POST", f"/xrpc/{ids.PUT_MEMBER}", data=b"\x1f\x8b", headers=headers)
    assert (answer.status, answer.error) == (400, "InvalidRequest")


async def test_a_body_of_the_limit_is_read_and_one_byte_more_is_not(operator: Caller, client: Client) -> None:
    body = json.dumps(GOOD).encode()
    headers = {**operator.headers, "Content-Type": "application/json; charset=UTF-8"}
    for size, status in ((MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 413)):
        padded = body + b" " * (size - len(body))
        for data in (padded, chunks(padded)):
            answer = await client.send("POST", f"/xrpc/{ids.PUT_MEMBER}", data=data, headers=headers)
            assert answer.status == status


async def chunks(body: bytes) -> Any:
    """Send a body without telling its size."""
    for start in range(0, len(body), 4_096):
        yield body[start : start + 4_096]
        await asyncio.sleep(0)


async def test_parameters_of_the_url_are_none_of_a_procedure(operator: Caller, client: Client) -> None:
    answer = await client.send(
        "POST", f"/xrpc/{ids.PUT_MEMBER}?space={SPACE}&did={ALICE}", json={}, headers=operator.headers
    )
    assert (answer.status, answer.error) == (400, "InvalidRequest")


async def test_a_cursor_of_the_members_is_good_for_them_alone(operator: Caller, garden: Garden) -> None:
    other = SpaceUri.public(Did("did:web:other.example"))
    await garden.declare(other)
    for did in (ALICE, BOB):
        await operator.call(ids.PUT_MEMBER, space=SPACE, did=did)
    cursor = (await operator.call(ids.LIST_MEMBERS, space=SPACE, limit=1)).body["cursor"]
    for method, space in ((ids.LIST_MEMBERS, other), (ids.LIST_MEMORIES, SPACE)):
        assert (await operator.call(method, space=space, cursor=cursor)).error == "InvalidRequest"


PATTERNS: list[Pattern] = [
    *(kind(path) for kind in (Exact, Subtree) for path in ("/", "/a", "/a/b", "/ab", "/a/b/c")),
    Attribute("k", "v"),
]


@hypothesis_settings(max_examples=300)
@given(
    allow=st.frozensets(st.sampled_from(PATTERNS), max_size=3),
    deny=st.frozensets(st.sampled_from(PATTERNS), max_size=2),
    path=st.sampled_from(["/", "/a", "/a/b", "/ab"]),
)
def test_a_subtree_is_held_only_where_nothing_in_it_is_out_of_reach(
    allow: frozenset[Pattern], deny: frozenset[Pattern], path: str
) -> None:
    scope = Scope(allow, deny)
    below = path if path == "/" else path + "/"
    probes = [path, *(below + rest for rest in ("x", "b", "b/c", "b/c/d", "a", "a/b", "ab"))]
    if holds_subtree(scope, path):
        for probe in probes:
            for attributes in ({}, {"k": "v"}, {"k": "w"}):
                assert scope.covers(probe, attributes), probe


async def path_tag_changes(garden: Garden) -> tuple[Rule, ...]:
    """Follow the audit log's changes of one tag: each begins where the one before it ended."""
    now: tuple[Rule, ...] = ()
    for row in reversed(await garden.control.audit(500)):
        if row.action == "path tag put":
            assert row.before == now, "the log has a change that did not happen, or lacks one that did"
            now = row.after
    return now


async def test_a_change_is_made_whole_though_its_caller_has_gone(operator: Caller, garden: Garden) -> None:
    for turn in range(40):
        call = operator.call(ids.PUT_PATH_TAG, space=SPACE, path="/a", key="turn", value=str(turn))
        task = asyncio.create_task(call)
        await asyncio.sleep(turn / 4000)  # where it is cut off differs; nothing is waited for
        task.cancel()
        await asyncio.wait([task])
    answer = await operator.call(ids.PUT_PATH_TAG, space=SPACE, path="/a", key="turn", value="last")
    assert answer.body == {"changed": True}
    (last,) = await path_tag_changes(garden)
    assert last.fields[2] == "turn=last"
    assert await garden.control.policy_version() == garden.access.version


async def test_changes_at_once_are_logged_one_after_the_other(operator: Caller, garden: Garden) -> None:
    calls = [
        operator.call(ids.PUT_PATH_TAG, space=SPACE, path="/a", key="turn", value=str(turn))
        for turn in range(12)
    ]
    assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
    assert len(await path_tag_changes(garden)) == 1


async def test_what_was_begun_goes_on_to_its_end() -> None:
    begun, leave, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def change() -> None:
        begun.set()
        await leave.wait()
        ended.set()

    task = asyncio.create_task(to_the_end(change()))
    await begun.wait()
    task.cancel()
    asyncio.get_running_loop().call_soon(leave.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
