"""Memories as JSON Lines: an object a line with `text` and, if wanted, `tags`, `source`, `createdAt`, `rkey`.

A line that cannot be used becomes an error in its place; the lines around it are not touched.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from publisher.drafts import Draft
from publisher.errors import PublisherError, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

MAX_LINE_BYTES: Final = 400_000  # ours: every field at its limit, each byte escaped as \\u00xx, is 240 kB
FIELDS: Final = ("text", "tags", "source", "createdAt", "rkey")


def read_lines(stream: BinaryIO) -> Iterator[tuple[int, Draft | PublisherError]]:
    """Read memories with their line numbers, from 1; blank lines are skipped."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            while not line.endswith(b"\n") and line:
                line = stream.readline(MAX_LINE_BYTES)
            yield number, Refused(f"a line of more than {MAX_LINE_BYTES} bytes")
        elif line.strip():
            yield number, read_line(line)


def read_line(line: bytes) -> Draft | PublisherError:
    """Read one line; give the error where it cannot be used."""
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Refused("not UTF-8")
    except (ValueError, RecursionError) as error:
        return Refused(f"not JSON: {error}")
    if not isinstance(value, dict):
        return Refused("not a JSON object")
    unknown = [name for name in value if name not in FIELDS]
    if unknown:
        return Refused(f"unknown field {unknown[0][:80]!r}", f"known: {', '.join(FIELDS)}")
    return _draft(value)


def _draft(value: dict[str, Any]) -> Draft | PublisherError:
    for name in ("text", "source", "createdAt", "rkey"):
        present = value.get(name)
        if not isinstance(present, str) and (name == "text" or present is not None):
            return Refused(f"{name} must be a string")
    tags = value.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return Refused("tags must be a list of strings")
    return Draft(value["text"], tuple(tags), value.get("source"), value.get("createdAt"), value.get("rkey"))
