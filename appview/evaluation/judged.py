"""Judged sets: memories, and questions with what is known to answer them. JSON lines.

`memories.jsonl`: `space`, `id`, `text`, `createdAt`, and, where there are any, `tags`, `source` and `author`.
`queries.jsonl`: `space`, `id`, `query`, `relevant` (ids), and, where there is one, `kind`. The order of the
lines is the order in which the memories were written.

For a space that is there already only questions are read, with URIs of records in `relevant`, or, as
`engram-appview queries export` writes them, with `candidates`, each with what was judged of it: `relevant`
true, false, or null where nobody has. Such questions bring the vector that they were asked with,
and their filters.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appview.evaluation.errors import BadJudgement
from appview.memory.values import Filters
from appview.query_log import Asked
from lexicons.datetimes import Datetime
from lexicons.errors import InvalidSyntax
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lexicons.models import ModelKey

NO_FILTERS: Final = Filters()
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
    """A question and the ids of what answers it, at least one. `judged` are the ids of all that somebody has
    looked at, empty where that is not known; `vector` is f16le, of `model`."""

    space: str
    id: str
    text: str
    relevant: tuple[str, ...]
    kind: str
    judged: frozenset[str] = frozenset()
    vector: bytes | None = None
    model: ModelKey | None = None
    filters: Filters = NO_FILTERS
    include_superseded: bool = False


@dataclass(frozen=True, slots=True)
class JudgedQuestions:
    """Questions to ask, and how many of a file cannot be: nobody has judged them, or found nothing right."""

    queries: list[JudgedQuery]
    unjudged: int = 0
    without_answer: int = 0


def read_memories(path: Path) -> list[JudgedMemory]:
    """Read memories; raise `BadJudgement` for the first line that is none."""
    found: dict[tuple[str, str], JudgedMemory] = {}
    for where, line in _lines(path):
        memory = JudgedMemory(
            _text(where, line, "space"),
            _text(where, line, "id"),
            _text(where, line, "text"),
            _instant(where, line, "createdAt"),
            _texts(where, line, "tags") if "tags" in line else (),
            _text(where, line, "source") if line.get("source") is not None else None,
            _text(where, line, "author") if "author" in line else "",
        )
        if (memory.space, memory.id) in found:
            raise BadJudgement(where, f"the memory {memory.id!r} of {memory.space!r} is there already")
        found[(memory.space, memory.id)] = memory
    return list(found.values())


def read_queries(path: Path, space: str | None = None) -> list[JudgedQuery]:
    """Read the questions of `read_judged`."""
    return read_judged(path, space).queries


def read_judged(path: Path, space: str | None = None) -> JudgedQuestions:
    """Read questions, all of them for `space` where one is given; raise `BadJudgement`."""
    found: list[JudgedQuery] = []
    unjudged = without_answer = 0
    for number, (where, line) in enumerate(_lines(path), start=1):
        verdicts = _verdicts(where, line) if "candidates" in line else None
        named = _texts(where, line, "relevant") if "relevant" in line or verdicts is None else ()
        right = [uri for uri, is_right in (verdicts or {}).items() if is_right]
        relevant = tuple(dict.fromkeys((*named, *right)))
        if not relevant and verdicts is None:
            raise BadJudgement(where, "relevant: names nothing, so no answer can be right")
        if not relevant:
            unjudged += not verdicts
            without_answer += bool(verdicts)
            continue
        asked = _asked(where, line) if verdicts is not None else None
        found.append(
            JudgedQuery(
                space if space is not None else _text(where, line, "space"),
                _text(where, line, "id") if "id" in line else f"line {number}",
                _text(where, line, "query"),
                relevant,
                _text(where, line, "kind") if line.get("kind") is not None else OTHER,
                frozenset(verdicts) | set(relevant) if verdicts else frozenset(),
                **({} if asked is None else _as_asked(asked)),
            )
        )
    return JudgedQuestions(found, unjudged, without_answer)


def _verdicts(where: str, line: dict[str, Any]) -> dict[str, bool]:
    """Read what was judged of candidates, without those that nobody has judged."""
    verdicts: dict[str, bool] = {}
    candidates = line["candidates"]
    if not isinstance(candidates, list) or not all(isinstance(each, dict) for each in candidates):
        raise BadJudgement(where, "candidates: must be a list of objects")
    for each in candidates:
        verdict = each.get("relevant")
        if verdict is not None and not isinstance(verdict, bool):
            raise BadJudgement(where, "candidates: relevant must be true, false or null")
        if verdict is not None:
            verdicts[_text(where, each, "uri")] = verdict
    return verdicts


def _asked(where: str, line: dict[str, Any]) -> Asked:
    try:
        return Asked.from_json(line)
    except ValueError as error:
        raise BadJudgement(where, f"is not what was exported: {error}") from None


def _as_asked(asked: Asked) -> dict[str, Any]:
    author = None if asked.author is None else Did(asked.author)
    return {
        "vector": asked.vector,
        "model": asked.model,
        "filters": Filters(author=author, tags=asked.tags, since=asked.since),
        "include_superseded": asked.include_superseded,
    }


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, data in enumerate(file, start=1):
            if not data.strip():
                continue
            where = f"{path.name}:{number}"
            try:
                value = json.loads(data.decode())
            except UnicodeDecodeError as error:
                raise BadJudgement(where, f"is not UTF-8, from byte {error.start + 1} of the line") from None
            except (ValueError, RecursionError) as error:
                raise BadJudgement(where, f"is not JSON: {error}") from None
            if not isinstance(value, dict):
                raise BadJudgement(where, "is not a JSON object")
            yield where, value


def _text(where: str, line: dict[str, Any], name: str) -> str:
    value = line.get(name)
    if not isinstance(value, str):
        raise BadJudgement(where, f"{name}: {'is missing' if value is None else 'must be a string'}")
    return _whole(where, name, value)


def _whole(where: str, name: str, text: str) -> str:
    r"""Refuse half characters, as `"\ud800"` writes them: no text can hold them."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadJudgement(where, f"{name}: half of a character at {error.start + 1}") from None
    return text


def _instant(where: str, line: dict[str, Any], name: str) -> str:
    text = _text(where, line, name)
    try:
        return Datetime(text)
    except InvalidSyntax as error:
        raise BadJudgement(where, f"{name}: {error}") from None


def _texts(where: str, line: dict[str, Any], name: str) -> tuple[str, ...]:
    value = line.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadJudgement(where, f"{name}: must be a list of strings")
    return tuple([_whole(where, name, item) for item in value])
