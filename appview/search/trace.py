"""What happened to a question, for whoever asks why an answer is as it is.

Every number is of what the one who asks may read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

# Why a part has no share in a score. not-asked: the mode leaves the arm out. no-words: the question has no
# words to look for. no-vector: there was none to ask with. no-match: none of the words are in the memory.
# switched-off: its weight is 0. unknown: nothing is known of it for this memory.
Reason = Literal["not-asked", "no-words", "no-vector", "no-match", "switched-off", "unknown"]


@dataclass(frozen=True, slots=True)
class TermTrace:
    """A word that was looked for (exact words start with `=`, beginnings end with `*`), how many memories
    hold it, and whether it counted: the most common ones do not where rarer ones are there."""

    term: str
    memories: int
    counted: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """`corpus` are the memories that may be read, `searched` those that filters, phrases and successors
    leave, `superseded` those that others took the place of; an arm's number is that of the candidates it
    brought, None where it did not run. `weights` are those of the parts that took part, before what is
    unknown of a memory is left out."""

    corpus: int
    searched: int
    superseded: int
    keyword: int | None
    vector: int | None
    candidates: int
    weights: Mapping[str, float]
    terms: tuple[TermTrace, ...] = ()
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
