"""Reading judged sets, and dividing them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from appview.evaluation.errors import BadJudgement
from appview.evaluation.judged import JudgedMemory, JudgedQuery, read_memories, read_queries
from appview.evaluation.parts import part_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MEMORY = {"space": "s", "id": "1", "text": "moon", "createdAt": "2026-01-01T00:00:00Z"}
QUERY = {"space": "s", "id": "q1", "query": "what shines", "relevant": ["1", "2"], "kind": "plain"}


def file(folder: Path, *lines: Any) -> Path:
    path = folder / "lines.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_memories_are_read_in_order_with_what_they_have(tmp_path: Path) -> None:
    extra = MEMORY | {"id": "2", "tags": ["/p", "x"], "source": "https://s", "author": "ann"}
    found = read_memories(file(tmp_path, MEMORY, "", extra))
    assert found == [
        JudgedMemory("s", "1", "moon", "2026-01-01T00:00:00Z"),
        JudgedMemory("s", "2", "moon", "2026-01-01T00:00:00Z", ("/p", "x"), "https://s", "ann"),
    ]


def test_questions_are_read_and_a_kind_is_no_duty(tmp_path: Path) -> None:
    bare = {"space": "s", "query": "who", "relevant": ["1", "1"]}
    assert read_queries(file(tmp_path, QUERY, bare)) == [
        JudgedQuery("s", "q1", "what shines", ("1", "2"), "plain"),
        JudgedQuery("s", "line 2", "who", ("1",), "other"),
    ]


def test_questions_of_one_space_need_not_name_it(tmp_path: Path) -> None:
    (query,) = read_queries(file(tmp_path, {"query": "who", "relevant": ["at://x"]}), "at://space")
    assert query.space == "at://space"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        (MEMORY | {"text": 1}, "text: must be a string"),
        ({"space": "s", "id": "1", "text": "x"}, "createdAt: is missing"),
        (MEMORY | {"tags": ["a", 1]}, "tags: must be a list of strings"),
        (MEMORY, "is there already"),
        (MEMORY | {"createdAt": "yesterday"}, "createdAt: "),
        (MEMORY | {"text": "a\ud800"}, "text: half of a character at 2"),
        (MEMORY | {"tags": ["a", "\udfff"]}, "tags: half of a character at 1"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_bad_memory_is_named_by_its_line(tmp_path: Path, line: Any, reason: str) -> None:
    with pytest.raises(BadJudgement, match=reason) as raised:
        read_memories(file(tmp_path, MEMORY, "", line))
    assert str(raised.value).startswith("lines.jsonl:3 ")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (QUERY | {"relevant": []}, "relevant: names nothing"),
        (QUERY | {"relevant": "1"}, "relevant: must be a list"),
        (QUERY | {"query": None}, "query: is missing"),
        (QUERY | {"kind": 3}, "kind: must be a string"),
    ],
)
def test_a_bad_question_is_named_by_its_line(tmp_path: Path, line: Any, reason: str) -> None:
    with pytest.raises(BadJudgement, match=reason):
        read_queries(file(tmp_path, QUERY, line))


def queries(*spaces: str) -> list[JudgedQuery]:
    return [JudgedQuery(space, f"q{n}", f"question {n}", ("1",), "k") for n, space in enumerate(spaces)]


def test_several_spaces_are_divided_by_space() -> None:
    asked = queries("c", "a", "b", "a", "d")
    assert {query.space for query in part_of(asked, "tune")} == {"a", "c"}
    assert {query.space for query in part_of(asked, "rest")} == {"b", "d"}
    assert part_of(asked, "all") == asked


def test_one_space_is_divided_by_question_and_always_alike() -> None:
    asked = queries(*["a"] * 200)
    tune, rest = part_of(asked, "tune"), part_of(asked, "rest")
    assert sorted(tune + rest, key=asked.index) == asked
    assert 70 < len(tune) < 130
    assert part_of(asked[:50], "tune") == [query for query in tune if query in asked[:50]]


@pytest.mark.parametrize("read", [read_memories, read_queries])
def test_a_line_that_is_not_utf8_is_named(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'\n{"a": \xff}\n')
    with pytest.raises(BadJudgement, match=r"^lines.jsonl:2 is not UTF-8, from byte 7 of the line"):
        read(path)


def test_half_a_character_in_a_question_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadJudgement, match=r"^lines.jsonl:2 query: half of a character at 4"):
        read_queries(file(tmp_path, QUERY, QUERY | {"query": "tom\ud800"}))
    assert read_queries(file(tmp_path, QUERY | {"query": "tom\ud83c\udf31"}))[0].text == "tom🌱"
