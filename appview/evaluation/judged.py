"""Judged sets: memories, and questions with what is known to answer them. JSON lines.

`memories.jsonl`: `space`, `id`, `text`, `createdAt`, and, where there are any, `tags`, `source` and `author`.
`queries.jsonl`: `space`, `id`, `query`, `relevant` (ids), and, where there is one, `kind`. The order of the
lines is the order in which the memories were written.

For a space that is there already only questions are read, with URIs of records in `relevant`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appview.evaluation.errors import BadJudgement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHER: Final = "other"  # the kind of a question that names none


@dataclass(frozen=True, slots=True)
class JudgedMemory:
    """A memory of a judged set."""

    space: str
    id: str
    text: str
    created_at: str
    tags: tuple[str, ...] = ()
    source: str | None = None
    author: str = ""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A question and the ids of what answers it, at least one."""

    space: str
    id: str
    text: str
    relevant: tuple[str, ...]
    kind: str


def read_memories(path: Path) -> list[JudgedMemory]:
    """Read memories; raise `BadJudgement` for the first line that is none."""
    found: dict[tuple[str, str], JudgedMemory] = {}
    for where, line in _lines(path):
        memory = JudgedMemory(
            _text(where, line, "space"),
            _text(where, line, "id"),
            _text(where, line, "text"),
            _text(where, line, "createdAt"),
            _texts(where, line, "tags") if "tags" in line else (),
            _text(where, line, "source") if line.get("source") is not None else None,
            _text(where, line, "author") if "author" in line else "",
        )
        if (memory.space, memory.id) in found:
            raise BadJudgement(where, f"the memory {memory.id!r} of {memory.space!r} is there already")
        found[(memory.space, memory.id)] = memory
    return list(found.values())


def read_queries(path: Path, space: str | None = None) -> list[JudgedQuery]:
    """Read questions, all of them for `space` where one is given; raise `BadJudgement`."""
    found = []
    for number, (where, line) in enumerate(_lines(path), start=1):
        relevant = tuple(dict.fromkeys(_texts(where, line, "relevant")))
        if not relevant:
            raise BadJudgement(where, "relevant: names nothing, so no answer can be right")
        found.append(
            JudgedQuery(
                space if space is not None else _text(where, line, "space"),
                _text(where, line, "id") if "id" in line else f"line {number}",
                _text(where, line, "query"),
                relevant,
                _text(where, line, "kind") if line.get("kind") is not None else OTHER,
            )
        )
    return found


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path.name}:{number}"
            try:
                value = json.loads(line)
            except ValueError as error:
                raise BadJudgement(where, f"is not JSON: {error}") from None
            if not isinstance(value, dict):
                raise BadJudgement(where, "is not a JSON object")
            yield where, value


def _text(where: str, line: dict[str, Any], name: str) -> str:
    value = line.get(name)
    if not isinstance(value, str):
        raise BadJudgement(where, f"{name}: {'is missing' if value is None else 'must be a string'}")
    return value


def _texts(where: str, line: dict[str, Any], name: str) -> tuple[str, ...]:
    value = line.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadJudgement(where, f"{name}: must be a list of strings")
    return tuple(value)
