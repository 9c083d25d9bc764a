"""What an author may write: judged by path and effective attributes, taken out when it is taken away."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Pattern, Scope, Subtree
from appview.memory.values import RepoUpdate
from tests.appview.memory.support import ALICE, BOB, CONFIG, memory, put, refuse, rev

if TYPE_CHECKING:
    from appview.memory.store import SpaceStore

PATHS = ["/", "/a", "/a/b", "/ab", "/c"]
TAGS = ["k=v", "k=w", f"owner={BOB}", "trust=high"]
patterns: st.SearchStrategy[Pattern] = st.one_of(
    st.sampled_from(PATHS).map(Exact),
    st.sampled_from(PATHS).map(Subtree),
    st.sampled_from(
        [Attribute("k", "v"), Attribute("owner", ALICE), Attribute("owner", BOB), Attribute("trust", "high")]
    ),
)
scopes = st.builds(Scope, st.frozensets(patterns, max_size=3), st.frozensets(patterns, max_size=2))
records = st.lists(
    st.tuples(st.sampled_from(PATHS), st.lists(st.sampled_from(TAGS), max_size=2, unique=True)), max_size=6
)
path_tags = st.lists(
    st.tuples(st.sampled_from(PATHS), st.sampled_from(["v", "w"]), st.booleans()), max_size=2
)
REVS = count(1)


def expected(scope: Scope, path: str, tags: list[str], given_tags: list[tuple[str, str, bool]]) -> bool:
    """Work out the attributes by the words of the documentation, from the root down."""
    attributes: dict[str, str] = {}
    protected = False
    steps = [step for step in PATHS if step == "/" or path == step or path.startswith(step + "/")]
    nearest = dict.fromkeys(path for path, _, _ in given_tags)
    for step in sorted(steps, key=len):
        if step in nearest:
            _, value, protects = [each for each in given_tags if each[0] == step][-1]
            if not protected:
                attributes["k"] = value
            protected |= protects
    own = [tag.partition("=")[2] for tag in tags if tag.startswith("k=")]
    if own and not protected:
        attributes["k"] = own[-1]
    return scope.covers(path, {**attributes, "owner": str(ALICE)})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(  # what a path protects, a path below does not change
    first=Scope(frozenset({Attribute("k", "v")})),
    then=Scope(frozenset({Attribute("k", "w")})),
    made=[("/a", [])],
    given_tags=[("/", "v", True), ("/a", "w", False)],
)
@given(first=scopes, then=scopes, made=records, given_tags=path_tags)
async def test_a_file_holds_what_its_author_may_write(
    store: SpaceStore,
    first: Scope,
    then: Scope,
    made: list[tuple[str, list[str]]],
    given_tags: list[tuple[str, str, bool]],
) -> None:
    await store.configure(CONFIG)
    for path, value, protects in given_tags:
        await store.set_path_tag(path, "k", value, protects)
    puts = tuple(
        put(str(number), memory(f"m{number}", path, *tags)) for number, (path, tags) in enumerate(made)
    )
    for scope in (first, then):
        held = {
            str(number) for number, (path, tags) in enumerate(made) if expected(scope, path, tags, given_tags)
        }
        before = await store.live(ALICE)
        await store.withdraw([ALICE], scope)
        assert (await store.live(ALICE)).keys() == before.keys() & held
        await store.apply([RepoUpdate(ALICE, rev(next(REVS)), puts, complete=True, scope=scope)])
        assert (await store.live(ALICE)).keys() == held
    assert await store.check() == []
    await store.remove_author(ALICE)
    for path, _, _ in given_tags:
        await store.remove_path_tag(path, "k")


async def test_an_update_that_moves_out_of_reach_is_a_delete(store: SpaceStore) -> None:
    notes = Scope(frozenset({Subtree("/a")}))
    await store.configure(CONFIG)
    await store.apply([RepoUpdate(ALICE, rev(1), (put("x", memory("in", "/a")),), scope=notes)])
    done = await store.apply([RepoUpdate(ALICE, rev(2), (put("x", memory("out", "/c")),), scope=notes)])
    assert (done.deleted, done.created, done.updated) == (1, 0, 0)
    assert await store.list(EVERYTHING, limit=10) == []


async def test_records_that_are_left_out_are_judged_too(store: SpaceStore) -> None:
    notes = Scope(frozenset({Subtree("/a")}))
    await store.configure(CONFIG)
    refused = (refuse("x", tags=("/a/b",)), refuse("y", tags=("/c",)), refuse("z"))
    await store.apply([RepoUpdate(ALICE, rev(1), refused, scope=notes)])
    assert (await store.live(ALICE)).keys() == {"x", "z"}
    assert await store.withdraw([ALICE], Scope(frozenset({Subtree("/a/c")}))) == 1
    assert (await store.live(ALICE)).keys() == {"z"}
    assert await store.withdraw([ALICE], NOTHING) == 1
    assert await store.withdraw([ALICE], EVERYTHING) == 0
    assert await store.live(ALICE) == {}


async def test_others_keep_what_they_have(store: SpaceStore) -> None:
    await store.configure(CONFIG)
    await store.apply([RepoUpdate(ALICE, rev(1), (put("x"),)), RepoUpdate(BOB, rev(1), (put("x"),))])
    assert await store.withdraw([ALICE], NOTHING) == 1
    assert [fact.author for fact in await store.list(EVERYTHING, limit=10)] == [BOB]
