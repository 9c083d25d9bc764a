"""What a store needs from text analysis: the words of a fact, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class AnalysedDocument:
    """The columns of `facts_fts`: analysed words joined by single spaces, no quotes, no control characters.

    `text`, `tags` and `source` are bags of searchable words; `exact` holds the words of all three as they
    stand, in order, which is what phrases and prefixes look at.
    """

    text: str
    tags: str
    source: str
    exact: str

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """The values of a row of `facts_fts`, in order."""
        return self.text, self.tags, self.source, self.exact


class Analyser(Protocol):
    """One analysis for indexing and asking. Safe to call from several threads."""

    @property
    def version(self) -> str:
        """Name the analysis: an index is good for questions of the same version only."""
        ...

    def of_version(self, version: str) -> Analyser | None:
        """Give the analysis of another version, None where this program does not have it (any more)."""
        ...

    def document(self, text: str, tags: Sequence[str], source: str | None) -> AnalysedDocument:
        """Analyse a fact. Any text is accepted."""
        ...
