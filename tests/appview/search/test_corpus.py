"""What a scope shows, kept: never stale, never somebody else's, never too much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.memory.scope import EVERYTHING, Attribute, Exact, Scope, Subtree
from appview.memory.search_reads import SearchReads
from appview.search import keyword, own_words
from appview.search.analysis import ANALYSIS
from appview.search.corpus import Corpus, CorpusCache, read_corpus
from appview.search.derived import MAX_CACHE_BYTES, ViewCache
from appview.search.engine import Searcher, SearchRequest
from appview.search.own_words import MAX_KEPT_WORDS
from appview.search.ranking import positions_in
from appview.search.tuning import read_tuning
from tests.appview.search.support import BOB, Doc, Filler, halves

if TYPE_CHECKING:
    from appview.memory.store import SpaceStore

OPEN = Scope(frozenset({Subtree("/open")}))
NOT_SECRET = Scope(frozenset({Subtree("/")}), frozenset({Subtree("/secret"), Attribute("k", "v")}))
# Everything, said in a way that takes every restricted turn.
ALL_BUT_NOTHING = Scope(frozenset({Subtree("/")}), frozenset({Exact("/nowhere")}))
DOCS = [
    *(Doc(f"the tomato {number}", tags=("/open/a",)) for number in range(8)),
    *(Doc(f"the secret tomato {number}", tags=("/secret",), author=BOB) for number in range(8)),
    *(Doc("the rain", tags=("/open", "k=v")) for _ in range(3)),
    Doc("the moon", tags=("/open/b",)),
]


async def corpora(store: SpaceStore, cache: CorpusCache, scope: Scope) -> tuple[Corpus, Corpus]:
    """Give what the cache gives, and what the file says."""

    def work(connection: object) -> tuple[Corpus, Corpus]:
        reads = SearchReads(connection)  # type: ignore[arg-type]
        return cache.corpus(store, reads, scope), read_corpus(reads, scope)

    return await store.database.read(work)


@pytest.mark.parametrize("scope", [OPEN, NOT_SECRET, ALL_BUT_NOTHING, EVERYTHING])
async def test_it_is_what_the_file_says_after_every_change(space: Filler, scope: Scope) -> None:
    cache = CorpusCache()
    keys = await space.add(*DOCS)
    for change in ("nothing", "delete", "move", "tag"):
        if change == "delete":
            await space.delete(keys[0], keys[1])
        elif change == "move":
            await space.replace(keys[2], Doc("moved", tags=("/secret/b",)))
        elif change == "tag":
            await space.store.set_path_tag("/open/b", "k", "v")
        for _ in range(2):
            kept, fresh = await corpora(space.store, cache, scope)
            assert kept.ids.tolist() == fresh.ids.tolist()
            assert kept.lengths.tolist() == fresh.lengths.tolist()
            assert kept.hidden == fresh.hidden


async def test_it_is_kept_until_the_space_changes(space: Filler) -> None:
    cache = CorpusCache()
    await space.add(*DOCS)
    first, _ = await corpora(space.store, cache, OPEN)
    again, _ = await corpora(space.store, cache, OPEN)
    assert again is first
    await corpora(space.store, cache, NOT_SECRET)
    both = cache.size
    await space.add(Doc("news", tags=("/open",)))
    news, _ = await corpora(space.store, cache, OPEN)
    assert news is not first
    assert news.counts == {}
    assert cache.size < both  # what was of the version before is gone


async def test_all_together_are_bounded(space: Filler) -> None:
    await space.add(*DOCS)
    first, _ = await corpora(space.store, CorpusCache(), OPEN)
    cache = CorpusCache(first.size * 2)
    for number in range(20):
        await corpora(space.store, cache, Scope(OPEN.allow, frozenset({Exact(f"/{number}")})))
        assert 0 < cache.size <= first.size * 2
    nothing = CorpusCache(0)
    await corpora(space.store, nothing, OPEN)
    assert nothing.size == 0


async def test_whoever_reads_an_older_state_does_not_push_out_the_newer(space: Filler) -> None:
    cache = CorpusCache()
    await space.add(*DOCS)

    def read(connection: object) -> SearchReads:
        return SearchReads(connection)  # type: ignore[arg-type]

    old = await space.store.database.read(read)
    await space.add(Doc("news", tags=("/open",)))
    newer, _ = await corpora(space.store, cache, OPEN)
    cache.corpus(space.store, old, OPEN)
    assert (await corpora(space.store, cache, OPEN))[0] is newer


# Without room for a view the file answers: by its index, or by the words of the facts that are shown.
@pytest.mark.parametrize(("memory", "kept"), [(0, 0), (0, MAX_KEPT_WORDS), (MAX_CACHE_BYTES, 0)])
@pytest.mark.parametrize(
    "text",
    ["the tomato", "the", "tomato rain moon the secret", "to* se*", "the -rain", '"the moon" tomato', "5"],
)
async def test_who_may_read_all_by_rules_is_answered_as_who_may_read_all(
    space: Filler, monkeypatch: pytest.MonkeyPatch, text: str, memory: int, kept: int
) -> None:
    monkeypatch.setattr(own_words, "MAX_KEPT_WORDS", kept)
    monkeypatch.setattr(own_words, "OCCURRENCES_A_WORD", 10**9)
    await space.add(*DOCS)
    searcher = Searcher(cache=ViewCache(ANALYSIS, memory), tuning=read_tuning("common_facts=4"))
    request = SearchRequest(text, halves(1, 0, 0, 0), limit=50)
    whole = await searcher.search(space.store, request, EVERYTHING)
    for _ in range(2):
        assert await searcher.search(space.store, request, ALL_BUT_NOTHING) == whole


# Without room for a view the file answers: by its index, or by the words of the facts that are shown.
@pytest.mark.parametrize(("memory", "kept"), [(0, 0), (0, MAX_KEPT_WORDS), (MAX_CACHE_BYTES, 0)])
@pytest.mark.parametrize("budget", [3, 10, 40, 1_000])
@pytest.mark.parametrize(
    "text", ["the tomato", "the", "tomato rain moon the secret", "to* se*", "secret", "the rain"]
)
@pytest.mark.parametrize("scope", [OPEN, NOT_SECRET, Scope(frozenset({Attribute("owner", BOB)}))])
async def test_budgets_and_common_words_are_those_of_what_is_shown(
    space: Filler,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    budget: int,
    memory: int,
    kept: int,
    scope: Scope,
) -> None:
    """Facts outside of the scope come, change and go: the answer stays, with statistics that are kept and
    with fresh ones."""
    monkeypatch.setattr(keyword, "MAX_POSTINGS", budget)
    monkeypatch.setattr(own_words, "MAX_KEPT_WORDS", kept)
    monkeypatch.setattr(own_words, "OCCURRENCES_A_WORD", 10**9)
    await space.add(*DOCS)
    searcher = Searcher(cache=ViewCache(ANALYSIS, memory), tuning=read_tuning("common_facts=2"))
    request = SearchRequest(text, mode="keyword", limit=50)
    before = await searcher.search(space.store, request, scope)
    assert await searcher.search(space.store, request, scope) == before
    hidden = "/secret" if scope is not OPEN else "/elsewhere"
    added = await space.add(*(Doc(f"the {text} tomato the", tags=(hidden, "k=v")) for _ in range(30)))
    assert await searcher.search(space.store, request, scope) == before
    await space.delete(*added)
    assert await searcher.search(space.store, request, scope) == before


@given(ids=st.sets(st.integers(1, 300), min_size=1), wanted=st.lists(st.integers(-5, 400), max_size=60))
def test_positions_are_those_that_searching_finds(ids: set[int], wanted: list[int]) -> None:
    held = np.array(sorted(ids), np.int64)
    corpus = Corpus(held, np.ones(len(held), np.float32))
    asked = np.array(wanted, np.int64)
    positions, there = corpus.positions(asked)
    expected, found = positions_in(held, asked)
    assert there.tolist() == found.tolist()
    assert positions[there].tolist() == expected[found].tolist()
