"""`engram-appview queries`, and `eval` of what comes back from a judge: from a server's log to figures."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from appview.access.access import Access
from appview.control import Control
from appview.folder import make_folder
from appview.memory.pool import SpacePool
from appview.search.analysis import ANALYSIS
from appview.settings import Settings
from appview.xrpc.context import Call, Context
from appview.xrpc.handlers import search_memories
from appview.xrpc.limits import Desk, Limits
from lexicons.catalog import garden as lexicons
from lexicons.ids import SEARCH_MEMORIES
from tests.appview.evaluation.small_set import NOTES
from tests.appview.xrpc.garden import AUTHORITY, SPACE, START, Garden

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appview.cli.conftest import CommandLine

# Questions, and the note that answers each.
QUESTIONS = {
    "how hot did the compost get": "The compost heap reached sixty degrees after turning it",
    "what ate the lettuce": "Slugs ate the first row of lettuce during the wet week",
    "seeds that were ordered": "Ordered seeds: leek, chard, two kinds of kale",
    "which pot for the fern": "She settled on the glazed blue one from the market",
}


@pytest.fixture
def asked(engram: CommandLine) -> CommandLine:
    """A data folder whose server has kept questions, one of them asked twice."""

    async def work() -> None:
        from appview.access.subjects import Anonymous

        with ThreadPoolExecutor(2) as executor:
            settings = Settings(data=engram.data, query_log=(SPACE,))
            control = await Control.open(settings.control_file, executor)
            access = await Access.open(control, lambda: START)
            pool = SpacePool(settings.spaces_folder, executor, lambda: START, analyser=ANALYSIS)
            garden = Garden(control, access, pool)
            await garden.declare()
            for note in NOTES["garden"]:
                await garden.remember(note)
            await garden.remember("An ordered list of chores", tags=["chores"])
            context = Context.of(settings, control, access, pool, clock=lambda: START)
            context.embedder.start()
            context.query_log.start()
            wishes: list[dict[str, Any]] = [{"q": text} for text in QUESTIONS]
            wishes += [{"q": "what ate the lettuce"}, {"q": "ordered", "tags": ["chores"]}]
            for wish in wishes:
                given = lexicons().validate_params(SEARCH_MEMORIES, {"space": SPACE, **wish})
                call = Call(context, SEARCH_MEMORIES, Anonymous(), given, Desk(Limits(lambda: START), ""))
                await search_memories.handle(call)
            await context.query_log.close()
            await context.embedder.close()
            await context.searcher.close()
            await pool.close()
            await control.close()

    make_folder(engram.data)
    asyncio.run(work())
    engram.capsys.readouterr()  # what the stores logged
    return engram


def export(engram: CommandLine, *options: object) -> list[dict[str, Any]]:
    answer = engram("queries", "export", AUTHORITY, *options)
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


def test_questions_are_listed_and_removed(asked: CommandLine) -> None:
    (row,) = asked("queries", "list", "--json").json["spaces"]
    assert (row["space"], row["questions"]) == (SPACE, 6)
    assert "6 questions" in asked("queries", "list").out
    assert asked("queries", "remove", SPACE, "--json").json == {"space": SPACE, "changed": True}
    assert asked("queries", "remove", SPACE).out == "there were none\n"
    assert asked("queries", "list").out == "no questions are kept\n"
    answer = asked("queries", "export", SPACE)
    assert answer.code == 4
    assert "query_log" in answer.err


def test_each_question_is_exported_once_with_what_is_to_be_judged(asked: CommandLine) -> None:
    lines = export(asked)
    assert {line["query"]: line["asked"] for line in lines} == {
        **dict.fromkeys(QUESTIONS, 1),
        "what ate the lettuce": 2,
        "ordered": 1,
    }
    for line in lines:
        assert line["space"] == SPACE
        assert line["relevant"] == []
        assert {"vector", "model", "modelDigest"} <= set(line)
        assert {mode for each in line["candidates"] for mode in each["ranks"]} <= {
            "keyword",
            "vector",
            "hybrid",
        }
        assert all(each["relevant"] is None for each in line["candidates"])
        assert len({each["uri"] for each in line["candidates"]}) == len(line["candidates"]) > 0
    (narrowed,) = [line for line in lines if line["query"] == "ordered"]
    assert [each["text"] for each in narrowed["candidates"]] == ["An ordered list of chores"]
    assert export(asked, "--limit", 2) == lines[:2]
    assert all(len(line["candidates"]) <= 3 for line in export(asked, "--depth", 1))


def judged(lines: list[dict[str, Any]], path: Path) -> Path:
    """Judge as somebody who knows the answers would; leave one question alone, find no answer to another."""
    for line in lines:
        right = QUESTIONS.get(line["query"])
        for each in line["candidates"]:
            if line["query"] != "seeds that were ordered":
                each["relevant"] = each["text"] == right
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_judged_questions_are_measured_with_the_vectors_of_the_log(
    asked: CommandLine, tmp_path: Path
) -> None:
    file = judged(export(asked), tmp_path / "judged.jsonl")
    # The embedder is not the space's model, and is not needed.
    answer = asked(
        "eval", file, "--space", AUTHORITY, "--embedder", "hashing-8", "--compare", "context=0", "--json"
    )
    assert answer.code == 0, answer.err
    assert "1 questions that nobody has judged, 1 to which no answer was right" in answer.err
    document = answer.json
    assert document["embedder"]["spec"] == "vectors of the log"
    first = document["configurations"][0]
    assert first["results"]["keyword"]["other"]["questions"] == 3
    assert first["results"]["hybrid"]["other"]["recall@10"]["mean"] == 1.0
    assert 0 <= first["results"]["hybrid"]["other"]["ndcg@10"]["low"] <= 1
    assert set(document["comparison"]) == {"keyword", "vector", "hybrid"}
    assert first["unjudgedHits"] == {"hybrid": 0, "vector": 0, "keyword": 0}


def test_hits_that_nobody_has_judged_are_counted(asked: CommandLine, tmp_path: Path) -> None:
    file = judged(export(asked, "--depth", 1), tmp_path / "judged.jsonl")
    answer = asked("eval", file, "--space", AUTHORITY)
    assert answer.code == 0, answer.err
    assert "that nobody has judged, counted as wrong: " in answer.out
    assert " 0 by hybrid" not in answer.out


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"candidates": 3}, "candidates: must be a list"),
        ({"candidates": [{"uri": "x", "relevant": "yes"}]}, "true, false or null"),
        ({"candidates": [{"uri": "x", "relevant": True}], "vector": "%"}, "is not what was exported"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(
    asked: CommandLine, tmp_path: Path, line: dict[str, Any], reason: str
) -> None:
    file = tmp_path / "judged.jsonl"
    whole = {"query": "x", "at": "2026-01-01T00:00:00Z", "mode": "hybrid", **line}
    file.write_text(json.dumps(whole) + "\n")
    answer = asked("eval", file, "--space", AUTHORITY)
    assert answer.code == 1
    assert reason in answer.err
    assert "judged.jsonl:1" in answer.err
