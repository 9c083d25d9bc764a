"""Deadlines: what is over takes what it has, says so, and stops reading."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import pytest

from appview.memory import claims, superseding
from appview.memory.scope import EVERYTHING, Scope, Subtree
from appview.memory.search_reads import SearchReads
from appview.memory.stopping import Stopped, stopping
from appview.search import phrases
from appview.search.analysis import ANALYSIS
from appview.search.deadline import NEVER, Deadline
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest
from tests.appview.search.support import Doc, Filler, halves

if TYPE_CHECKING:
    from appview.memory.claims import Claims, Inside
    from appview.memory.superseding import WriteScope
    from appview.sqlite import Connection

EAST = halves(1, 0, 0, 0)
ENDLESS = "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


class Clock:
    """A clock that is over after so many looks at it."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def __call__(self) -> float:
        self.left -= 1
        return 0.0 if self.left >= 0 else 100.0


def test_a_deadline_passes_at_its_instant() -> None:
    now = 5.0
    deadline = Deadline.after(2.0, lambda: now)
    now = 6.999
    assert not deadline.passed()
    now = 7.0
    assert deadline.passed()
    assert not NEVER.passed()


async def test_an_endless_statement_is_stopped(space: Filler) -> None:
    deadline = Deadline.after(0.05)

    def work(connection: Connection) -> int:
        with pytest.raises(Stopped), stopping(connection, deadline.passed):
            connection.execute(ENDLESS).fetchone()
        # The connection is as good as new.
        return int(connection.execute("SELECT count(*) FROM facts").fetchone()[0])

    before = monotonic()
    assert await space.store.database.read(work) == 0
    assert monotonic() - before < 5.0


async def test_without_time_there_is_an_answer_that_says_so(space: Filler, searcher: Searcher) -> None:
    await space.add("moon")
    late = Searcher(cache=searcher._cache, seconds=0.0)
    result = await late.search(space.store, SearchRequest("moon", EAST), EVERYTHING)
    assert result.hits == ()
    assert result.approximate
    assert not (await searcher.search(space.store, SearchRequest("moon", EAST), EVERYTHING)).approximate


@pytest.mark.parametrize("cached", [False, True])
async def test_each_arm_gives_what_it_has_when_time_is_over(space: Filler, cached: bool) -> None:
    await space.add("moon soil", "moon", "soil", "water")
    cache = ViewCache(ANALYSIS) if cached else None
    request = SearchRequest("moon soil", EAST)
    sizes = []
    scope = Scope(frozenset({Subtree("/")}))
    for looks in range(1, 14):
        late = Searcher(cache=cache, seconds=1.0, clock=Clock(looks))
        result = await late.search(space.store, request, scope)
        sizes.append(len(result.hits) if result.approximate else -1)
    assert sizes[0] == 0
    assert sizes[-1] == -1  # all of it was in time
    assert any(size > 0 for size in sizes)  # and in between a part
    # What was given up is never taken for what does not match.
    assert sizes.index(-1) == len([size for size in sizes if size >= 0])


async def test_a_slow_reader_ends_at_the_deadline(
    space: Filler, searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    await space.add("moon", "the soil")

    def slow(self: SearchReads, *_: object) -> object:
        return self.connection.execute(ENDLESS).fetchone()

    request = SearchRequest('moon "the soil"', EAST)
    monkeypatch.setattr(SearchReads, "phrase", slow)
    late = Searcher(cache=searcher._cache, seconds=0.4)
    before = monotonic()
    result = await late.search(space.store, request, EVERYTHING)
    assert monotonic() - before < 5.0
    assert result.approximate
    # Nothing is known of any phrase; what may hold it is the best there is, found by both arms.
    assert "the soil" in [hit.fact.text for hit in result.hits]
    assert result.mode == "hybrid"


async def test_what_may_hold_a_phrase_that_must_not_be_there_is_left_out(
    space: Filler, searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    await space.add("moon over soil", "moon, the soil", "the soil under the moon")

    def slow(self: SearchReads, *_: object) -> object:
        return self.connection.execute(ENDLESS).fetchone()

    monkeypatch.setattr(SearchReads, "phrase", slow)
    late = Searcher(cache=searcher._cache, seconds=0.4)
    result = await late.search(space.store, SearchRequest('moon -"the soil"', EAST), EVERYTHING)
    assert result.approximate
    assert {hit.fact.text for hit in result.hits} <= {"moon over soil"}


@pytest.mark.parametrize("cached", [False, True])
async def test_the_facts_that_were_seen_to_hold_a_phrase_are_the_answer_when_time_is_over(
    space: Filler, cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phrases, "FACTS_A_READ", 1)
    monkeypatch.setattr(phrases, "OCCURRENCES_A_WORD", 0)  # facts are read where they are as many as these
    hidden = [Doc("the moon " * 3, ("/secret",)) for _ in range(3)]
    await space.add("soil of the moon", *hidden, "the moon", "soil the", "moon and the", "over the moon")
    scope = Scope(frozenset({Subtree("/")}), frozenset({Subtree("/secret")}))
    cache = ViewCache(ANALYSIS) if cached else None
    request = SearchRequest('"the moon"', EAST)
    whole = {hit.fact.text for hit in (await Searcher(cache=cache).search(space.store, request, scope)).hits}
    assert whole == {"soil of the moon", "the moon", "over the moon"}
    seen = []
    for looks in range(1, 40):
        late = Searcher(cache=cache, seconds=1.0, clock=Clock(looks))
        result = await late.search(space.store, request, scope)
        found = {hit.fact.text for hit in result.hits}
        assert result.approximate or found == whole
        assert found <= whole | {"moon and the"}  # which has all the words
        seen.append(found)
    assert seen[-1] == whole


def test_half_of_the_time_that_is_left_is_halfway() -> None:
    now = 5.0
    deadline = Deadline.after(2.0, lambda: now)
    assert deadline.halfway().at == 6.0
    now = 8.0
    assert deadline.halfway().passed()
    assert not NEVER.halfway().passed()


@pytest.mark.parametrize("asked", ["search", "strongest"])
async def test_what_is_superseded_is_worked_out_beside_questions_that_have_no_time_for_it(
    space: Filler, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """A superseded fact is in no answer meanwhile, and nobody waits."""
    (old,) = await space.add("moon, waxing")
    await space.add(Doc("moon, full", (f"supersedes={old}",)))
    monkeypatch.setattr(claims, "_CLAIMS", f"{claims._CLAIMS} WHERE ({ENDLESS})")
    searcher = Searcher(cache=ViewCache(ANALYSIS), seconds=0.1)
    ask = getattr(searcher, asked)
    before = monotonic()
    result = await ask(space.store, SearchRequest("moon"), EVERYTHING)
    assert monotonic() - before < 5.0
    assert result.approximate
    assert result.hits == ()
    monkeypatch.undo()
    await searcher.close()  # it went on beside, and is ended
    assert space.store.superseding._known == {}


async def test_what_took_too_long_for_a_question_is_known_to_the_next(
    space: Filler, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = await space.add("moon, waxing")
    await space.add(Doc("moon, full", (f"supersedes={old}",)))
    times = 0

    def slow(
        connection: Connection,
        scope: Scope,
        may_write: WriteScope,
        inside: Inside | None = None,
        claims: Claims | None = None,
    ) -> frozenset[int]:
        nonlocal times
        times += 1
        if times == 1:
            connection.execute(ENDLESS).fetchone()
        return found(connection, scope, may_write, inside, claims)

    found = superseding.superseded
    monkeypatch.setattr(superseding, "superseded", slow)
    searcher = Searcher(seconds=0.1)
    assert not (await searcher.search(space.store, SearchRequest("moon"), EVERYTHING)).hits
    await searcher.settled()
    result = await Searcher().search(space.store, SearchRequest("moon"), EVERYTHING)
    assert [hit.fact.text for hit in result.hits] == ["moon, full"]
    assert times == 2  # once in vain, once beside


async def test_words_that_are_slow_to_read_leave_the_vectors(
    space: Filler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await space.add("moon", "soil")

    def slow(self: SearchReads, *_: object) -> object:
        return self.connection.execute(ENDLESS).fetchone()

    monkeypatch.setattr(SearchReads, "postings", slow)
    late = Searcher(seconds=0.2)
    result = await late.search(space.store, SearchRequest("moon", EAST), EVERYTHING)
    assert result.approximate


async def test_hits_after_the_deadline_are_shown_unmarked_and_the_answer_says_so(space: Filler) -> None:
    await space.add("moon soil", "moon water", "moon", "soil")
    request = SearchRequest("moon", limit=3)
    whole = await Searcher().search(space.store, request, EVERYTHING)
    assert not whole.approximate
    assert [hit.words for hit in whole.hits] == [("moon",)] * 3

    marked = set()
    for looks in range(1, 200):
        late = await Searcher(seconds=1.0, clock=Clock(looks)).search(space.store, request, EVERYTHING)
        marks = [hit.words for hit in late.hits]
        if len(marks) == 3:
            count = sum(map(bool, marks))
            assert marks == [("moon",)] * count + [()] * (3 - count)
            assert late.approximate == (count < 3)
            assert [hit.fact for hit in late.hits] == [hit.fact for hit in whole.hits]
            marked.add(count)
    # Time ends before the first, between each two, and after the last.
    assert marked == {0, 1, 2, 3}
