"""What a memory points to, read from its text and tags. Pure.

- `[[/path]]` in the text points to a topic.
- The URI of a memory in the text, `at://did:.../garden.engram.memory/rkey`, points to that memory.
- A tag `relation=[did/]rkey`, for one of `RELATIONS`, says how the memory stands to another; without a DID it
  is one of the same author. Each such tag counts, also several of one relation.

What does not read as one of these is text or a plain attribute; nothing is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from lexicons.ids import MEMORY
from lexicons.memories import MAX_TAG_BYTES, normalise_path
from lexicons.syntax import Did, RecordKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINKS_VERSION: Final = "1"  # grows when the same record would give other links
MAX_LINKS: Final = 64  # ours, of one memory: tags first, then text in order

Relation = Literal["supersedes", "derived-from", "contradicts", "caused-by", "similar-to"]
RELATIONS: Final[frozenset[str]] = frozenset(get_args(Relation))
PATH: Final = "path"
MENTION: Final = "mention"
KINDS: Final = (PATH, MENTION, *get_args(Relation))

_IN_TEXT: Final = re.compile(
    rf"\[\[(?P<path>/[^\[\]\r\n]{{0,{MAX_TAG_BYTES}}})\]\]"
    rf"|at://(?P<did>did:[a-z]+:[A-Za-z0-9._:%-]+)/{re.escape(MEMORY)}/(?P<rkey>[A-Za-z0-9._:~-]+)"
)
_SENTENCE_MARKS: Final = ".:"  # end a sentence more often than a record key


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """A pointer of a memory. `author` is empty and `target` a path for `PATH`; else they name a record."""

    kind: str
    author: str
    target: str


def read_links(author: str, rkey: str, text: str, tags: Sequence[str]) -> tuple[Link, ...]:
    """List what a memory points to, each once; itself never."""
    found: dict[Link, None] = {}
    for link in (*_relations(author, tags), *_in_text(text)):
        if (link.author, link.target) != (author, rkey):
            found.setdefault(link)
        if len(found) == MAX_LINKS:
            break
    return tuple(found)


def _relations(author: str, tags: Sequence[str]) -> Iterator[Link]:
    for tag in tags:
        kind, equals, target = tag.partition("=")
        if not equals or kind not in RELATIONS:
            continue
        whose, slash, key = target.rpartition("/")
        if RecordKey.is_valid(key) and (not slash or Did.is_valid(whose)):
            yield Link(kind, whose or author, key)


def _in_text(text: str) -> Iterator[Link]:
    for match in _IN_TEXT.finditer(text):
        if (path := match["path"]) is not None:
            normal = normalise_path(path)
            if len(normal.encode()) <= MAX_TAG_BYTES:
                yield Link(PATH, "", normal)
            continue
        did, key = match["did"], match["rkey"].rstrip(_SENTENCE_MARKS)
        if Did.is_valid(did) and RecordKey.is_valid(key):
            yield Link(MENTION, did, key)
