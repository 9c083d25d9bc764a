"""The page about search says what search does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from appview.memory import forgetting, links
from appview.memory.scope import EVERYTHING
from appview.search import (
    clusters,
    collapse,
    context,
    derived,
    fusion,
    keyword,
    own_words,
    query,
    signals,
    tuning,
)
from appview.search.engine import SearchRequest

if TYPE_CHECKING:
    from appview.search.engine import Searcher
    from tests.appview.search.support import Filler

PAGE = (Path(__file__).parents[3] / "docs" / "search.md").read_text(encoding="utf-8")
FLOWING = " ".join(PAGE.split())
EXAMPLES = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("question", "finds", "passes_over"), EXAMPLES, ids=lambda text: ascii(text))
async def test_the_examples_find_what_they_say(
    space: Filler, searcher: Searcher, question: str, finds: str, passes_over: str
) -> None:
    await space.add(finds, passes_over)
    result = await searcher.search(space.store, SearchRequest(question), EVERYTHING)
    assert [hit.fact.text for hit in result.hits] == [finds]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize(
    "figure",
    [
        f"k1 = {keyword.K1}, b = {keyword.B}, {keyword.PIVOT_WORDS:.0f} words",
        f"{query.MAX_TERMS} distinct words",
        f"{query.MAX_PHRASES} phrases",
        f"{query.MAX_PREFIXES} beginnings",
        f"{keyword.MAX_POSTINGS:,}, a memory once for each of its words",
        f"from {keyword.MAX_OCCURRENCES:,} places at most",
        f"Up to {derived.MAX_INLINE:,} memories",
        f"up to {own_words.MAX_KEPT_WORDS:,} words of text are read once",
        f"up to {clusters.MIN_CLUSTERED:,} of them",
        f"at least {100 * clusters.MIN_RECALL:.0f} % of the ten nearest",
        f"more than {keyword.COMMON_FACTS:,} memories",
    ],
)
def test_the_figures_are_those_of_the_code(figure: str) -> None:
    assert figure in FLOWING


@pytest.mark.parametrize(
    "figure",
    [
        f"halves every {signals.HALF_LIFE_DAYS:g} days",
        f"{signals.HALF_LINKED} give a half",
        f"a cosine of {collapse.SAME_COSINE}",
        f"1 + {forgetting.GAIN} * (1 - strength)",
        f"stability is {forgetting.FIRST_STABILITY_DAYS:g} day",
        f"at most {forgetting.MAX_STABILITY_DAYS:,.0f} days",
        f"first {links.MAX_LINKS} links",
        *[f"| `{kind}` |" for kind in links.KINDS],
        *[
            f"{mix.relevance:g} | {mix.recency:g} | {mix.strength:g} | {mix.importance:g} | {mix.links:g} |"
            for mix in signals.PROFILES.values()
        ],
    ],
)
def test_the_figures_of_signals_and_links_are_those_of_the_code(figure: str) -> None:
    assert figure in " ".join(PAGE.split())


def test_the_shares_are_those_of_the_code() -> None:
    assert clusters.PROBED_NEIGHBOURS == 10
    weight = context.CONTEXT_WEIGHT
    shares = [share / (1 + weight) for share in (*fusion.Weights().scaled(), weight)]
    assert (
        "context {} beside the two: {:.2f}, {:.2f} and {:.2f} of the score".format(weight, *shares) in FLOWING
    )
    assert f"more than {context.GAP_MICROS // 60_000_000} minutes away" in FLOWING
    assert context.REACH == 2
    assert f"cosine is below {tuning.COSINE_FLOOR}" in FLOWING
    assert tuning.RELATIVE_CUT == 0.25
    assert tuning.COUNTING.scaled() == pytest.approx((0.85, 0.15))
    assert "keyword counts 0.85 and vector 0.15" in FLOWING
    assert "keyword counts {} and vector {}, and".format(*fusion.Weights().scaled()) in FLOWING
    assert keyword.COMMON_SHARE == 0.5
    assert keyword.FIELD_WEIGHTS.tolist()[:3] == [1.0, 1.0, 0.5]
