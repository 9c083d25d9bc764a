"""Where a memory holds the words of a question, for marking them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from appview.memory.values import Fact
    from appview.search.analysis import Finder

MAX_WORDS: Final = 64  # ours, matched words named in a hit
MAX_PLACES: Final = 256  # ours, of one hit

Field = Literal["text", "tags", "source"]


@dataclass(frozen=True, slots=True)
class Place:
    """A range of UTF-8 bytes of a field, from `start` up to and without `end`, as facets count; of the tags,
    `index` tells which."""

    field: Field
    start: int
    end: int
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Highlights:
    """The distinct words of a memory that matched, as they stand in it, and where; both in order."""

    words: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()


NOTHING: Final = Highlights()


def highlights(finder: Finder, fact: Fact) -> Highlights:
    """Find the words of a fact that hold what is looked for."""
    words: dict[str, str] = {}
    places: list[Place] = []
    fields: list[tuple[Field, int | None, str]] = [("text", None, fact.text)]
    fields += [("tags", index, tag) for index, tag in enumerate(fact.tags)]
    fields += [("source", None, fact.source)] if fact.source else []
    for field, index, text in fields:
        position = length = 0
        for start, end in finder.spans(text):
            word = text[start:end]
            words.setdefault(word.casefold(), word)
            length += len(text[position:start].encode())
            places.append(Place(field, length, length + len(word.encode()), index))
            length, position = places[-1].end, end
    return Highlights(tuple(words.values())[:MAX_WORDS], tuple(places[:MAX_PLACES]))
