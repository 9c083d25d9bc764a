"""What goes into a search and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from appview.memory.strength import SPACE
from appview.memory.superseding import STANDING
from appview.memory.values import Filters
from appview.search.signals import RELEVANCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.memory.superseding import Succession
    from appview.memory.values import Fact
    from appview.search.fusion import Component
    from appview.search.highlights import Place
    from appview.search.signals import Mix
    from appview.search.trace import Reason, Trace
    from lexicons.models import ModelKey
    from lexicons.syntax import AtUri

Mode = Literal["hybrid", "vector", "keyword"]
Ran = Literal["hybrid", "vector", "keyword", "strength"]
NO_FILTERS: Final = Filters()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A question. `vector` is f16le of any length above 0, made with `model` (not checked where None), or is
    that of the memory `similar_to`; `mode` is what is wished, `limit` at least 1.

    `subject` is whose strengths count, `succession` how superseded facts are met, `mix` what counts how much.
    """

    text: str | None = None
    vector: bytes | None = None
    mode: Mode = "hybrid"
    limit: int = 10
    filters: Filters = NO_FILTERS
    model: ModelKey | None = None
    similar_to: AtUri | None = None
    mix: Mix = RELEVANCE
    subject: str = SPACE
    succession: Succession = STANDING
    collapse: bool = False
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A fact with its score and the parts that sum to it. A part is None where that arm did not run;
    `words` are the fact's own that matched, as they stand in it, at `places`; `similarity` is in thousandths.

    `context` is the part of what stands around the fact. `missing` tells of each part without a share why;
    `found_by` are the arms that brought the fact up, the others have measured it; `alike` are facts that say
    the same and are no hits of their own.
    """

    fact: Fact
    score: float
    similarity: int | None
    keyword: Component | None
    vector: Component | None
    words: tuple[str, ...]
    signals: Mapping[str, Component] = field(default_factory=dict)
    places: tuple[Place, ...] = ()
    missing: Mapping[str, Reason] = field(default_factory=dict)
    found_by: tuple[str, ...] = ()
    alike: tuple[Fact, ...] = ()
    context: Component | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """An answer, best first. `mode` is what ran; `approximate` tells that a budget or the deadline cut
    something; `trace` is there on request."""

    hits: tuple[Hit, ...]
    mode: Ran
    approximate: bool
    trace: Trace | None = None
