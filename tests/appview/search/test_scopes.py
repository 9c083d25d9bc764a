"""What scopes cover and what stands beside a memory, in memory: as the file has it, whatever has changed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from appview.memory.index_reads import PathRow
from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Scope, Subtree
from appview.memory.search_reads import SearchReads
from appview.memory.superseding import Succession, Superseding
from appview.memory.values import Filters
from appview.search import scopes, sequence
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest, search
from appview.search.masks import in_scope, with_filters, without
from appview.search.scopes import CoveredSlots
from appview.search.sequence import Neighbours
from appview.search.signals import PROFILES
from appview.search.tree import NOBODY, Tree
from tests.appview.search.support import ALICE, BOB, Doc, halves

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.memory.scope import Pattern
    from appview.memory.store import SpaceStore
    from appview.search.view import View
    from appview.sqlite import Connection
    from tests.appview.search.support import Filler

SEGMENTS = ["a", "a.", "a0", "b", "ä", "A", "%"]
KEYS = ["kind", "kind-x", "k"]
VALUES = ["1", "2", "", "a=b", "\0", "1\0"]
ALL = frozenset({Subtree("/")})


class Chance(random.Random):
    """Random parts of a space."""

    def path(self) -> str:
        return "/" + "/".join(self.choices(SEGMENTS, k=self.randint(0, 3)))

    def doc(self) -> Doc:
        own = [f"{self.choice(KEYS)}={self.choice(VALUES)}" for _ in range(self.randint(0, 3))]
        special = self.choice([(), (), ("trust=1",), ("owner=x",), ("note",)])
        moment = f"2026-11-30T09:{self.randint(0, 5) * 10:02}:00.000Z"
        return Doc(
            f"word{self.randint(0, 9)}",
            (self.path(), *own, *special),
            author=self.choice([ALICE, BOB]),
            created_at=moment,
        )

    def pattern(self) -> Pattern:
        match self.randint(0, 4):
            case 0:
                return Exact(self.path())
            case 1 | 2:
                return Subtree(self.path())
            case 3:
                return Attribute("owner", self.choice([ALICE, BOB]))
            case _:
                return Attribute(self.choice([*KEYS, "trust"]), self.choice(VALUES))

    def scope(self) -> Scope:
        allow = frozenset(self.pattern() for _ in range(self.randint(0, 3)))
        deny = frozenset(self.pattern() for _ in range(self.randint(0, 3)))
        return Scope(allow if self.random() < 0.6 else ALL, deny)

    def filters(self) -> Filters:
        return Filters(
            author=self.choice([None, None, ALICE]),
            tags=self.choice([(), (), ("note",), (f"kind={self.choice(VALUES)}",)]),
            path=self.choice([None, None, self.path()]),
            since=self.choice([None, None, 1_796_029_200_000_000]),
        )


async def change(space: Filler, chance: Chance, keys: dict[str, str]) -> None:
    """Change something. `keys` are the records that are there, with their authors."""
    match chance.randint(0, 6):
        case 0 | 1 | 2:
            docs = [chance.doc() for _ in range(chance.randint(1, 9))]
            added = await space.add(*docs)
            keys.update(zip(added, [str(doc.author) for doc in docs], strict=True))
        case 3 if keys:
            for key in chance.sample(sorted(keys), min(len(keys), chance.randint(1, 3))):
                await space.delete(key, author=ALICE if keys.pop(key) == ALICE else BOB)
        case 4 if keys:
            doc = chance.doc()
            mine = sorted(key for key, author in keys.items() if author == doc.author)
            if mine:
                await space.replace(chance.choice(mine), doc)
        case 5:
            await space.store.set_path_tag(
                chance.path(),
                chance.choice([*KEYS, "trust"]),
                chance.choice(VALUES),
                protected=chance.random() < 0.5,
            )
        case _:
            tags = await space.store.path_tags()
            if tags:
                path, tag = chance.choice(tags)
                await space.store.remove_path_tag(path, tag.key)


async def with_view(space: Filler, cache: ViewCache, work: Callable[[SearchReads, View], None]) -> None:
    def read(connection: Connection) -> None:
        reads = SearchReads(connection)
        view = cache.view(space.store, reads)
        assert view is not None
        work(reads, view)

    await space.store.database.read(read)


@pytest.mark.parametrize("described", [0, 500])
@pytest.mark.parametrize("seed", range(4))
async def test_memory_covers_what_the_file_selects_after_any_change(
    space: Filler, seed: int, described: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "MAX_DESCRIBED", described)
    chance = Chance(seed)
    cache, keys, asked = ViewCache(ANALYSIS), dict[str, str](), [chance.scope() for _ in range(12)]
    await space.add(*[chance.doc() for _ in range(60)])
    different = 0

    def compare(reads: SearchReads, view: View) -> None:
        nonlocal different
        for scope in [*asked, chance.scope()]:
            covered = in_scope(view, reads.bulk, scope)
            ids = view.ids if covered is None else view.ids[covered]
            assert ids.tolist() == reads.ids(scope).tolist(), scope
            different += 0 < len(ids) < view.live_count
            filters = chance.filters()
            found = with_filters(view, covered, filters)
            ids = view.ids if found is None else view.ids[found]
            assert ids.tolist() == reads.ids(scope, filters).tolist(), (scope, filters)

    for _ in range(40):
        await change(space, chance, keys)
        await with_view(space, cache, compare)
    assert different > 100


@pytest.mark.parametrize("window", [1, 3, 16])
@pytest.mark.parametrize("seed", range(3))
async def test_the_same_stands_around_a_memory_after_any_change(
    space: Filler, seed: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence, "WINDOW", window)
    monkeypatch.setattr(f"{__name__}.SEGMENTS", ["a", "b"])  # few paths, so that many stand beside each other
    chance = Chance(seed)
    cache, keys, beside = ViewCache(ANALYSIS), dict[str, str](), 0

    def compare(reads: SearchReads, view: View) -> None:
        nonlocal beside
        for scope in (EVERYTHING, chance.scope(), chance.scope()):
            covered = in_scope(view, reads.bulk, scope)
            ids = view.ids if covered is None else view.ids[covered]
            out = frozenset(chance.sample(ids.tolist(), min(len(ids), chance.choice([0, 0, 4]))))
            filters = Filters(without=out)
            around = Neighbours(view, without(view, covered, filters))
            reach, gap = chance.choice([1, 2, 5]), chance.choice([0, 10 * 60_000_000, 10**15])
            found = around.of(view.slots(ids), reach, gap)
            assert found == reads.neighbours(ids.tolist(), scope, reach, gap, filters)
            beside += sum(map(len, found.values()))

    await space.add(*[chance.doc() for _ in range(60)])
    for _ in range(25):
        await change(space, chance, keys)
        await with_view(space, cache, compare)
    assert beside > 500


async def test_a_view_that_follows_changes_of_the_tree_is_not_made_anew(space: Filler) -> None:
    cache, views = ViewCache(ANALYSIS), []
    await space.add(*["plain"] * 20, Doc("x", ("/x/deep",)))
    await with_view(space, cache, lambda _, view: views.append(view))
    await space.store.set_path_tag("/x", "kind", "1")
    await space.add(Doc("y", ("/y/deep",)))
    await with_view(space, cache, lambda _, view: views.append(view))
    assert views[0].covered is views[1].covered
    assert views[0].path_tags.version < views[1].path_tags.version
    assert "/y/deep" in views[1].tree.numbers


async def test_a_number_that_another_path_gets_is_not_taken_for_the_first(space: Filler) -> None:
    cache, x, y = ViewCache(ANALYSIS), Scope(frozenset({Subtree("/x")})), Scope(frozenset({Exact("/y")}))
    await space.add(*["plain"] * 20)
    (key,) = await space.add(Doc("x", ("/x",)))
    numbers: list[int] = []

    def count(scope: Scope, expected: int) -> Callable[[SearchReads, View], None]:
        def work(reads: SearchReads, view: View) -> None:
            covered = in_scope(view, reads.bulk, scope)
            assert covered is not None
            assert np.count_nonzero(covered) == expected
            numbers.append(max(view.tree.numbers.values()))

        return work

    await with_view(space, cache, count(x, 1))
    await space.delete(key)
    await space.add(Doc("y", ("/y",)))
    await with_view(space, cache, count(x, 0))
    await with_view(space, cache, count(y, 1))
    assert len(set(numbers)) == 1  # or the file did not give the number again, and this tests nothing


async def test_a_tag_of_a_path_counts_for_the_next_question(space: Filler) -> None:
    searcher = Searcher(cache=ViewCache(ANALYSIS))
    await space.add(Doc("moon one", ("/a/b",)), Doc("moon two", ("/a", "stage=final")), "moon three")
    request, scope = SearchRequest("moon"), Scope(ALL, frozenset({Attribute("stage", "draft")}))

    async def texts() -> list[str]:
        result = await searcher.search(space.store, request, scope)
        assert result == await search(space.store, request, scope)
        return sorted(hit.fact.text for hit in result.hits)

    assert await texts() == ["moon one", "moon three", "moon two"]
    await space.store.set_path_tag("/a", "stage", "draft")
    assert await texts() == ["moon three", "moon two"]
    await space.store.set_path_tag("/a", "stage", "draft", protected=True)
    assert await texts() == ["moon three"]
    await space.store.set_path_tag("/a/b", "stage", "open")
    assert await texts() == ["moon three"]
    await space.store.set_path_tag("/a", "stage", "draft")
    assert await texts() == ["moon one", "moon three", "moon two"]
    await space.store.remove_path_tag("/a", "stage")
    assert await texts() == ["moon one", "moon three", "moon two"]


def rules(count: int) -> Scope:
    denied: list[Pattern] = [Subtree(f"/no/{number}") for number in range(count)]
    return Scope(ALL, frozenset([*denied, Attribute("kind", "2"), Attribute("owner", "did:web:no.example")]))


@pytest.mark.parametrize("mix", ["relevance", "balanced"])
async def test_rules_cost_no_reading(space: Filler, mix: str) -> None:
    chance, searcher = Chance(1), Searcher(cache=ViewCache(ANALYSIS))
    await space.add(*[chance.doc() for _ in range(100)])
    await space.add(Doc("word1 newer", ("supersedes=k0003",)))
    request = SearchRequest("word1 word2", halves(1, 0, 0, 0), mix=PROFILES[mix])

    async def statements(scope: Scope) -> list[str]:
        seen: list[str] = []

        def traced(connection: Connection) -> None:
            connection.set_trace_callback(seen.append)

        def silent(connection: Connection) -> None:
            connection.set_trace_callback(None)

        for _ in range(8):  # there are a few connections
            await space.store.database.read(traced)
        await searcher.search(space.store, request, scope)
        for _ in range(8):
            await space.store.database.read(silent)
        return seen

    await searcher.search(space.store, request, EVERYTHING)
    plain = await statements(EVERYTHING)
    assert plain
    for count in (1, 300):
        scope = rules(count)
        await searcher.search(space.store, request, scope)  # who has been superseded is worked out once
        restricted = await statements(scope)
        assert len(restricted) <= len(plain)
        assert not any("/no/0" in statement for statement in restricted)


async def test_links_count_where_the_caller_may_read_them(space: Filler, searcher: Searcher) -> None:
    linked, unlinked = await space.add(Doc("moon one"), Doc("moon two"))
    await space.add(*[Doc("far", (path, f"derived-from={linked}")) for path in ("/a", "/b", "/b")])
    await space.add(Doc("far", ("/a", f"derived-from={unlinked}")))
    request = SearchRequest("moon", mix=PROFILES["relevance"].given({"links": 0.5}))
    for scope, counts in ((EVERYTHING, (3, 1)), (Scope(ALL, frozenset({Subtree("/b")})), (1, 1))):
        result = await searcher.search(space.store, request, scope)
        raw = {hit.fact.rkey: hit.signals["links"].raw for hit in result.hits}
        assert raw == dict(zip((linked, unlinked), counts, strict=True))


async def test_what_a_scope_covers_is_kept_and_forgotten(space: Filler) -> None:
    await space.add(*["plain"] * 100)
    kept = CoveredSlots(max_bytes=350)

    def work(reads: SearchReads, view: View) -> None:
        first = kept.of(view, reads.bulk, rules(1))
        assert kept.of(view, reads.bulk, rules(1)) is first  # an equal scope, another object
        for count in (2, 3):
            kept.of(view, reads.bulk, rules(count))
        assert (len(kept), kept.size) == (3, 300)
        assert kept.of(view, reads.bulk, rules(1)) is first
        kept.of(view, reads.bulk, rules(4))
        assert (len(kept), kept.size) == (3, 300)
        assert kept.of(view, reads.bulk, rules(1)) is first  # asked for before the last
        with pytest.raises(ValueError, match="read-only"):
            first[0] = False

    await with_view(space, ViewCache(ANALYSIS), work)


async def test_an_older_view_gets_what_a_newer_one_knows(space: Filler) -> None:
    cache, views = ViewCache(ANALYSIS), []
    scope = Scope(frozenset({Subtree("/a")}))
    await space.add(*[Doc("x", (path,)) for path in ("/a", "/b")] * 10)
    await with_view(space, cache, lambda _, view: views.append(view))
    await space.add(*[Doc("x", (path,)) for path in ("/a", "/b")])

    def work(reads: SearchReads, view: View) -> None:
        assert view.covered.of(view, reads.bulk, scope).tolist() == [True, False] * 11
        assert views[0].covered.of(views[0], reads.bulk, scope).tolist() == [True, False] * 10
        assert view.covered.of(view, reads.bulk, scope).tolist() == [True, False] * 11

    await with_view(space, cache, work)


async def test_nothing_and_nobody_are_covered_by_nothing(space: Filler) -> None:
    await space.add("plain")

    def work(reads: SearchReads, view: View) -> None:
        for scope in (NOTHING, Scope(ALL, ALL), Scope(frozenset({Exact("/nowhere")}))):
            covered = in_scope(view, reads.bulk, scope)
            assert covered is not None
            assert not covered.any()

    await with_view(space, ViewCache(ANALYSIS), work)


async def test_many_facts_that_others_took_the_place_of_stand_beside_nothing(space: Filler) -> None:
    searcher, query = Searcher(cache=ViewCache(ANALYSIS)), halves(1, 0, 0, 0)
    keys = await space.add(*[Doc(f"moon {number}") for number in range(60)])
    await space.add(*[Doc("moon newer", (f"supersedes={key}",)) for key in keys[::2]])
    for shown in (False, True):
        request = SearchRequest("moon 7", query, limit=50, succession=Succession(shown=shown))
        for scope in (EVERYTHING, rules(3)):
            result = await searcher.search(space.store, request, scope)
            assert result == await search(space.store, request, scope)
            assert result.hits


@pytest.mark.parametrize("seed", range(2))
async def test_memory_and_file_agree_on_what_others_took_the_place_of(space: Filler, seed: int) -> None:
    chance, different = Chance(seed), set[int]()
    keys = await space.add(
        *[replace(chance.doc(), text=f"moon {number}", author=ALICE) for number in range(30)]
    )
    for author in (ALICE, BOB):
        docs = [replace(chance.doc(), text="moon new", author=author) for _ in keys[::3]]
        tags = [f"supersedes={ALICE}/{chance.choice(keys)}" for _ in docs]
        await space.add(*[replace(doc, tags=(*doc.tags, tag)) for doc, tag in zip(docs, tags, strict=True)])
    searcher = Searcher(cache=ViewCache(ANALYSIS))
    for _ in range(20):
        scope, writes = chance.choice([EVERYTHING, chance.scope()]), chance.scope()
        succession = Succession(lambda _, writes=writes: writes)
        request = SearchRequest("moon", limit=100, succession=succession, explain=True)
        result = await searcher.search(space.store, request, scope)
        # Another store object, which has not worked it out yet.
        space.store.superseding = Superseding()
        expected = await search(space.store, request, scope)
        assert result.hits == expected.hits
        assert (result.trace is None) == (expected.trace is None)
        if result.trace is not None and expected.trace is not None:
            assert result.trace.superseded == expected.trace.superseded
            different.add(result.trace.superseded)
        space.store.superseding = Superseding()
    assert len(different) > 2


def test_a_tree_knows_what_is_below() -> None:
    rows = [PathRow(1, 0, "/"), PathRow(2, 1, "/a"), PathRow(3, 2, "/a/b"), PathRow(7, 1, "/ab")]
    tree = Tree.of(rows)
    assert np.flatnonzero(tree.covered((), ["/a"])).tolist() == [2, 3]
    assert np.flatnonzero(tree.covered(["/a"], ["/nowhere"])).tolist() == [2]
    assert tree.nearest({"/": 1, "/a/b": 2}).tolist() == [0, 1, 1, 2, 0, 0, 0, 1]
    deep = [PathRow(n + 10, 7 if n == 0 else n + 9, "/ab" + "/x" * (n + 1)) for n in range(130)]
    grown = tree.grown(deep)
    assert grown is not None
    assert np.count_nonzero(grown.covered((), ["/ab"])) == 131
    assert grown.nearest({"/ab": 5})[139] == 5
    assert np.flatnonzero(tree.covered((), ["/ab"])).tolist() == [7]  # as it was
    again = tree.grown(deep)  # the first may have come to nothing
    assert again is not None
    assert np.count_nonzero(again.covered((), ["/ab"])) == 131
    assert grown.grown(deep) is grown
    assert grown.size > tree.size > 0
    assert tree.parents[4] == NOBODY


@pytest.mark.parametrize("row", [PathRow(3, 1, "/new"), PathRow(50, 2, "/a/b")])
def test_a_tree_that_is_contradicted_says_so(row: PathRow) -> None:
    tree = Tree.of([PathRow(1, 0, "/"), PathRow(2, 1, "/a"), PathRow(3, 2, "/a/b")])
    assert tree.grown([row]) is None
    assert tree.numbers == {"/": 1, "/a": 2, "/a/b": 3}


async def test_a_scope_of_hidden_authors_stays_the_same_value(space: Filler, store: SpaceStore) -> None:
    from appview.memory.values import Visibility

    scope = rules(5)
    assert store.visible(scope) is scope
    await space.add(Doc("x", author=BOB))
    await store.apply([Visibility(BOB, hidden=True)])
    narrowed = store.visible(scope)
    assert Attribute("owner", BOB) in narrowed.deny
    assert store.visible(rules(5)) is narrowed
    await store.apply([Visibility(BOB, hidden=False)])
    assert store.visible(scope) is scope
