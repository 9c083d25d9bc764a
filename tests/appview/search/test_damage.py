"""What is derived from the facts is lost or damaged: that costs time, and no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from appview.memory.scope import EVERYTHING, Scope, Subtree
from appview.search import own_words, vector
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest
from tests.appview.search.support import Doc, Filler, halves

if TYPE_CHECKING:
    from appview.search.engine import Mode
    from appview.sqlite import Connection

EAST = halves(1, 0, 0, 0)
DOCS = [
    Doc("water the tomato plants", vector=(1, 0.1, 0, 0)),
    Doc("slugs eat lettuce", ("/secret",), vector=(1, 0.2, 0, 0)),
    Doc("compost is warm", vector=(1, 0.3, 0, 0)),
    Doc("frost kills tomato plants", ("/beds",), "notes", vector=(1, 0.4, 0, 0)),
    *[Doc(f"soil number {number}", vector=(0, 1, number, 0)) for number in range(20)],
]
QUESTIONS: Final[list[tuple[str, Mode]]] = [
    ("tomato plants", "keyword"),
    ("tomato plants", "vector"),
    ("tomato plants", "hybrid"),
    ('"tomato plants"', "keyword"),
    ('"tomato plants" -frost', "hybrid"),
    ("toma*", "keyword"),
]
LOST: Final = {
    "a row of the vectors": ["DELETE FROM facts_vec_1_rowids WHERE rowid = 1"],
    "a vector": ["DELETE FROM facts_vec_1 WHERE rowid = 1"],
    "the table of rows": ["DELETE FROM facts_vec_1_rowids"],
    "the words of a memory": ["DELETE FROM facts_fts WHERE rowid = 1"],
    "the numbers of words": ["DELETE FROM facts_fts_docsize"],
    "all words": ["DELETE FROM facts_fts_data WHERE id > 10"],
    "what words are": ["UPDATE facts_fts_data SET block = x'00010203' WHERE id > 10"],
    "what the index of words is": ["DELETE FROM facts_fts_data"],
}


async def answers(searcher: Searcher, space: Filler, scope: Scope) -> list[list[tuple[str, float]]]:
    found = []
    for text, mode in QUESTIONS:
        request = SearchRequest(text, EAST, mode)
        result = await searcher.search(space.store, request, scope)
        assert not result.approximate
        found.append([(hit.fact.text, round(hit.score, 9)) for hit in result.hits])
    return found


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("restricted", [False, True])
async def test_what_is_lost_of_an_index_costs_no_answer_and_is_mended(
    space: Filler, lost: str, cached: bool, restricted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector, "MAX_MEASURED_ROWS", 5)  # so that few vectors are looked up in the index
    scope = Scope(frozenset({Subtree("/")}), frozenset({Subtree("/secret")})) if restricted else EVERYTHING
    await space.add(*DOCS)
    whole = await answers(Searcher(), space, scope)
    assert all(whole)

    def lose(connection: Connection) -> None:
        for statement in LOST[lost]:
            connection.execute(statement)

    await space.store.database.write(lose)
    searcher = Searcher(cache=ViewCache(ANALYSIS) if cached else None)
    assert await answers(searcher, space, scope) == whole
    assert await space.store.check() != []
    await space.store.mend()
    assert await space.store.check() == []
    assert await answers(searcher, space, scope) == whole


async def test_where_there_is_no_time_to_read_the_words_the_vectors_answer(
    space: Filler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_words, "FACTS_A_READ", 1)
    await space.add(*DOCS)
    await space.store.database.write(lambda connection: connection.execute("DELETE FROM facts_fts_data"))
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.01
        return now

    late = Searcher(seconds=0.3, clock=clock)
    result = await late.search(space.store, SearchRequest("frost", EAST), EVERYTHING)
    assert result.approximate
    assert [hit.fact.text for hit in result.hits][:2] == ["water the tomato plants", "slugs eat lettuce"]
    await space.store.mend()
