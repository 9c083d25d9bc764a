"""Words, beginnings, phrases and left-out words of whoever may not read everything: the same from memory,
from the file's index and from the facts' own words, and at no more cost than what may be read is worth."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from appview.memory import stopping
from appview.memory.index_reads import IndexReads
from appview.memory.scope import EVERYTHING, Attribute, Exact, Scope, Subtree
from appview.memory.search_reads import SearchReads
from appview.memory.store import SpaceStore
from appview.memory.values import Filters
from appview.search import derived, keyword, own_words, phrases
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest
from appview.search.own_words import MAX_KEPT_WORDS
from tests.appview.search.support import ALICE, BOB, CONFIG, NOW, SPACE, Doc, Filler, halves
from tests.appview.search.test_in_memory import has_view

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from typing import Any

    from appview.search.engine import SearchResult

# Forms that share a stem, that share a beginning with one of another stem, and wholes beside their parts.
WORDS = [
    *("tomato", "tomatoes", "Tomato", "toma", "run", "runs", "running", "runner", "runn"),
    *("happy", "happiness", "happily", "happi", "happ", "sky", "skies", "skying", "die", "dying", "dice"),
    *("the", "then", "there", "engram_space_uri", "engrams", "ModelMismatch", "models", "search.go"),
    *("searching", "gone", "1.2.3", "1200", "C++", "don't", "C", "東京都庁", "京都", "=equals", "a=b"),
]
BEGINNINGS = [
    *("to", "tom", "toma", "tomat", "tomatoe", "ru", "run", "runn", "runni", "happ", "happi", "happy"),
    *("sk", "ski", "di", "dy", "th", "the", "en", "engram_s", "mo", "modelm", "se", "search.g", "go"),
    *("12", "1.2", "ca", "don", "=eq", "=a", "zz"),
]
SCOPES = [
    EVERYTHING,
    Scope(frozenset({Subtree("/a")})),
    Scope(frozenset({Subtree("/")}), frozenset({Subtree("/b")})),
    Scope(frozenset({Attribute("owner", BOB), Exact("/a/c")})),
]
FILTERS = [Filters(), Filters(), Filters(author=ALICE), Filters(path="/a")]


def text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 9)))


def doc(chance: random.Random) -> Doc:
    return Doc(
        text(chance),
        (
            chance.choice(["/a", "/a/c", "/b", "/tomatoes"]),
            *chance.sample([text(chance), "running", "k=v"], 1),
        ),
        chance.choice([None, "https://search.go/skies", text(chance)]),
        author=chance.choice([ALICE, BOB]),
    )


def question(chance: random.Random) -> str:
    parts = [chance.choice(BEGINNINGS) + "*" for _ in range(chance.randint(0, 2))]
    parts += [
        f'"{" ".join(chance.choices(WORDS, k=chance.randint(1, 3)))}"' for _ in range(chance.randint(0, 1))
    ]
    parts += ["-" + chance.choice(WORDS) for _ in range(chance.randint(0, 1))]
    parts += chance.choices(WORDS, k=chance.randint(0, 2))
    chance.shuffle(parts)
    return " ".join(parts) or "tomato"


@pytest.mark.parametrize("seed", range(3))
async def test_all_ways_answer_alike(space: Filler, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "MIN_TAIL", 20)
    chance = random.Random(seed)
    cache = ViewCache(ANALYSIS)
    in_memory, of_file = Searcher(cache=cache), Searcher()
    found = 0

    async def compare(times: int) -> None:
        nonlocal found
        for _ in range(times):
            request = SearchRequest(
                question(chance), mode="keyword", limit=40, filters=chance.choice(FILTERS)
            )
            scope = chance.choice(SCOPES)
            results: list[SearchResult] = []
            # How much reading is thought to cost decides which way is taken, and nothing else.
            for kept, cost in ((0, 10**9), (0, 0), (10**9, 10**9)):
                for module in (own_words, phrases):
                    monkeypatch.setattr(module, "OCCURRENCES_A_WORD", cost)
                monkeypatch.setattr(own_words, "MAX_KEPT_WORDS", kept)
                results += [await each.search(space.store, request, scope) for each in (of_file, in_memory)]
            assert all(result == results[0] for result in results), (request, scope)
            found += bool(results[0].hits)

    for _ in range(3):
        await space.add(*[doc(chance) for _ in range(60)])
        await compare(25)  # the newest are in the growing part
        await in_memory.settled()
        assert await has_view(cache, space.store)
        await compare(15)  # and now in the compact one
        await space.delete(*[f"k{chance.randrange(space.records):04}" for _ in range(5)])
    assert found > 60


# A space of which most is hidden, and what is left of it without that.

HIDDEN, SHOWN = int(os.environ.get("ENGRAM_TEST_HIDDEN", "30000")), 300
OPEN = Scope(frozenset({Subtree("/open")}))
QUESTIONS = [
    "aa*",
    "aa* bb* tom*",
    '"compost heap"',
    '"of the" compost',
    '"the compost heap is warm" heap',
    "compost -tomato",
    'compost heap -"of the" -blight',
    "the compost of tomatoes",
    "the",
    "aa12 aa7 nowhere",
]


def shown(number: int) -> Doc:
    middle = ("compost heap is warm", "heap of the compost", "tomatoes on the compost", "blight")[number % 4]
    vector = (1.0, number % 7, number % 11, 1.0)
    return Doc(f"the {middle} aa{number} bb{number % 20}", ("/open",), vector=vector)


def hidden(number: int) -> Doc:
    return Doc(f"aa{number % 5_000} bb the compost heap of the tomato", ("/secret",), author=BOB)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the two spaces. Hidden facts stand before, among and after the others."""
    folder = tmp_path_factory.mktemp("spaces")

    async def fill(name: str, secret: int) -> None:
        async with opened(folder / name) as store:
            await store.configure(CONFIG)
            space = Filler(store)
            for part in range(3):
                for start in range(0, secret // 3, 5_000):
                    own = Filler(store)
                    own.commits, own.records = space.commits + start, 1_000_000 + part * HIDDEN + start
                    await own.add(*[hidden(start + n) for n in range(min(5_000, secret // 3 - start))])
                space.commits += 1_000_000
                await space.add(*[shown(n) for n in range(part * SHOWN // 3, (part + 1) * SHOWN // 3)])

    asyncio.run(fill("alone", 0))
    asyncio.run(fill("whole", HIDDEN))
    return {name: folder / name for name in ("alone", "whole")}


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SpaceStore]:
    with ThreadPoolExecutor(2) as executor:
        store = await SpaceStore.open(path, SPACE, executor, lambda: NOW, analyser=ANALYSIS)
        try:
            yield store
        finally:
            await store.close()


def told(result: SearchResult) -> list[object]:
    """Give all that an answer tells, but for the numbers that the file gives its facts."""
    return [
        (result.mode, result.approximate),
        *(
            (hit.fact.rkey, hit.score, hit.keyword, hit.vector, hit.context, hit.words, hit.places)
            for hit in result.hits
        ),
    ]


@dataclass
class Work:
    """What a question reads, apart from time: steps of SQLite (by the hundred), places of words, facts."""

    steps: int = 0
    places: int = 0
    facts: int = 0

    def look(self) -> float:
        self.steps += 1
        return 0.0

    def counting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def counted(of: type, name: str, note: Callable[[Any], None]) -> None:
            method = getattr(of, name)

            def read(*given: Any) -> Any:
                answer = method(*given)
                note(answer)
                return answer

            monkeypatch.setattr(of, name, read)

        def places(answer: Any) -> None:
            self.places += len(getattr(answer, "ids", answer))

        def facts(answer: list[Any]) -> None:
            self.facts += len(answer)

        monkeypatch.setattr(stopping, "STEPS", 100)
        for name in ("postings", "postings_of_prefix", "phrase"):
            counted(SearchReads, name, places)
        counted(IndexReads, "sources", facts)


# From memory; from the file, where what is shown is read once and kept; where it is read for each question.
WAYS = {"memory": (True, MAX_KEPT_WORDS), "kept": (False, MAX_KEPT_WORDS), "read": (False, 0)}


@pytest.mark.timeout(60 + HIDDEN // 250)  # a fact takes 0.2 ms on an idle machine
@pytest.mark.parametrize("way", WAYS)
async def test_what_is_hidden_changes_neither_answers_nor_work(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    in_memory, kept = WAYS[way]
    monkeypatch.setattr(own_words, "MAX_KEPT_WORDS", kept)
    answers: dict[str, list[list[object]]] = {}
    work: dict[str, list[Work]] = {}
    counted = Work()
    counted.counting(monkeypatch)
    for name, path in files.items():
        async with opened(path) as store:
            cache = ViewCache(ANALYSIS, derived.MAX_CACHE_BYTES if in_memory else 0)
            searcher = Searcher(cache=cache, clock=counted.look)
            requests = [
                SearchRequest(text, halves(1, 0.5, 0.2, 0), mode, limit=30)  # type: ignore[arg-type]
                for text in QUESTIONS
                for mode in ("keyword", "hybrid")
            ]
            # What a scope shows is found out once, and an index built.
            await searcher.search(store, requests[0], OPEN)
            await searcher.settled()
            assert await has_view(cache, store) == in_memory
            answers[name], work[name] = [], []
            for request in requests:
                counted.steps = counted.places = counted.facts = 0
                answers[name].append(told(await searcher.search(store, request, OPEN)))
                work[name].append(Work(counted.steps, counted.places, counted.facts))
    assert answers["whole"] == answers["alone"]
    assert not any(answer[0][1] for answer in answers["whole"])  # type: ignore[index]
    assert all(len(answer) > 1 for answer in answers["whole"])
    # The index is gone through, and counted, as far as what is shown is worth: in ten steps each.
    worth = own_words.OCCURRENCES_A_WORD * 10 * SHOWN if way == "read" else 0
    for request, whole, alone in zip(requests, work["whole"], work["alone"], strict=True):
        assert whole.places <= alone.places + worth, request
        assert whole.facts <= 4 * SHOWN, request
        assert whole.steps <= 2 * alone.steps + worth // 10 + 100, (request, whole, alone)


async def test_beginnings_are_not_cut_in_memory(space: Filler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyword, "MAX_OCCURRENCES", 5)
    keys = await space.add(*[f"tomato{number}" for number in range(12)])
    request = SearchRequest("toma*", limit=50)
    of_file = await Searcher().search(space.store, request, EVERYTHING)
    assert of_file.approximate
    assert len(of_file.hits) == 5
    in_memory = await Searcher(cache=ViewCache(ANALYSIS)).search(space.store, request, EVERYTHING)
    assert not in_memory.approximate
    assert sorted(hit.fact.rkey for hit in in_memory.hits) == keys


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("text", ['"the moon"', "moon* -the", "moon sun"])
async def test_reading_facts_stops_at_the_deadline(
    space: Filler, monkeypatch: pytest.MonkeyPatch, in_memory: bool, text: str
) -> None:
    for module in (own_words, phrases):
        monkeypatch.setattr(module, "OCCURRENCES_A_WORD", 0)
    monkeypatch.setattr(own_words, "MAX_KEPT_WORDS", 0)
    monkeypatch.setattr(phrases, "FACTS_A_READ", 2)
    monkeypatch.setattr(own_words, "FACTS_A_READ", 2)
    await space.add(*[Doc(f"the moon {n}", ("/a",)) for n in range(40)], Doc("the moon", ("/b",)))
    cache = ViewCache(ANALYSIS) if in_memory else None
    request = SearchRequest(text, mode="keyword", limit=50)
    whole = await Searcher(cache=cache).search(space.store, request, SCOPES[1])
    assert not whole.approximate
    seen = set()
    for looks in range(60):
        ticks = itertools.chain(itertools.repeat(0.0, looks), itertools.repeat(100.0))
        late = Searcher(cache=cache, seconds=1.0, clock=partial(next, ticks))
        result = await late.search(space.store, request, SCOPES[1])
        assert result.approximate or result == whole
        assert {hit.fact.rkey for hit in result.hits} <= {hit.fact.rkey for hit in whole.hits}
        seen.add(result.approximate)
    assert seen == {True, False}
