"""`engram-appview eval`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.appview.evaluation import small_set

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appview.cli.conftest import CommandLine


def test_a_judged_set_is_measured(engram: CommandLine, tmp_path: Path) -> None:
    memories, queries = small_set.write(tmp_path)
    answer = engram("eval", memories, queries, "--embedder", "hashing-64", "--vectors", tmp_path / "v")
    assert answer.code == 0, answer.err
    assert "22 memories in 3 spaces, part all; embedder hashing-64" in answer.out
    assert "hybrid less vector" in answer.out
    assert "embedding 22 memories" in answer.err


def test_one_document_says_all(engram: CommandLine, tmp_path: Path) -> None:
    memories, queries = small_set.write(tmp_path)
    answer = engram(
        *("eval", memories, queries, "--embedder", "hashing-64", "--vectors", tmp_path / "v", "--json"),
        *("--settings", "k1=0.9", "--compare", "fusion=rank", "--part", "tune"),
    )
    assert (answer.code, answer.err) == (0, "")
    document = answer.json
    assert document["embedder"] == {
        "spec": "hashing-64",
        "model": "hashing-64",
        "modelDigest": "sha256:hashing",
        "dims": 64,
    }
    assert [each["settings"]["k1"] for each in document["configurations"]] == [0.9, 1.2]
    assert document["configurations"][1]["settings"]["fusion"] == "rank"
    assert document["spaces"] == 2  # garden and service
    assert document["configurations"][0]["results"]["hybrid"]["all"]["questions"] == 12


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--settings", "k9=1"], "unknown setting 'k9'"),
        (["--compare", "b=2"], "b from 0 to 1"),
        (["--embedder", "magic"], "not an embedder"),
        (["--part", "half"], "half"),
        (["--settings", "language=klingon"], "klingon"),
        (["--compare", "language=klingon"], "klingon"),
        (["--settings", "reach=1e9"], "reach is from 1 to 100"),
    ],
)
def test_a_wrong_option_is_told(
    engram: CommandLine, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    memories, queries = small_set.write(tmp_path)
    answer = engram("eval", memories, queries, "--vectors", tmp_path / "v", *arguments, "--json")
    assert answer.code != 0
    assert reason in answer.error["message"]
    assert not (tmp_path / "v").exists()  # nothing was embedded


def test_a_model_that_is_not_there_is_told(engram: CommandLine, tmp_path: Path) -> None:
    memories, queries = small_set.write(tmp_path)
    answer = engram("eval", memories, queries, "--embedder", f"fastembed:{tmp_path}/none", "--json")
    assert answer.code == 1
    assert answer.error["code"] == "EvaluationError"
    assert "none" in answer.error["message"]


def test_two_files_are_needed(engram: CommandLine, tmp_path: Path) -> None:
    memories, _ = small_set.write(tmp_path)
    answer = engram("eval", memories)
    assert answer.code == 2
    assert "MEMORIES and QUERIES" in answer.err


def test_a_bad_line_is_named(engram: CommandLine, tmp_path: Path) -> None:
    memories, queries = small_set.write(tmp_path)
    queries.write_text(json.dumps({"query": "x"}))
    answer = engram("eval", memories, queries, "--json")
    assert answer.code == 1
    assert answer.error["code"] == "BadJudgement"
    assert answer.error["message"].startswith("queries.jsonl:1 ")


def test_a_space_of_the_data_folder_must_be_there(engram: CommandLine, tmp_path: Path) -> None:
    _, queries = small_set.write(tmp_path)
    answer = engram("eval", queries, "--space", "did:plc:nobody", "--embedder", "hashing-64", "--json")
    assert answer.code == 1
    assert "has no memories here" in answer.error["message"]
    both = engram("eval", queries, queries, "--space", "did:plc:nobody")
    assert both.code == 2
    assert engram("eval", queries, "--space", "nobody").code == 2
