"""Values on the wire: thousandths that add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.memory.values import Fact
from appview.search.engine import Hit
from appview.search.fusion import Component
from appview.xrpc.views import match_view, share_out, thousandths
from lexicons.catalog import garden
from lexicons.syntax import AtUri, Did

FACT = Fact(
    1,
    AtUri("at://did:plc:x/garden.engram.memory/a"),
    "c",
    Did("did:plc:x"),
    "a",
    "/",
    "t",
    (),
    None,
    "",
    0,
    0,
)
unit = st.floats(0, 1)


@pytest.mark.parametrize(
    ("fraction", "shown"), [(0.0, 0), (1.0, 1000), (0.0004, 0), (0.0006, 1), (1.0000001, 1000), (-0.1, 0)]
)
def test_fractions_become_thousandths(fraction: float, shown: int) -> None:
    assert thousandths(fraction) == shown


@given(unit, unit, unit)
def test_the_contributions_of_both_arms_add_up(weight: float, keyword: float, vector: float) -> None:
    parts = (
        Component(17.3 * keyword, keyword, weight, weight * keyword),
        Component(vector, vector, 1 - weight, (1 - weight) * vector),
    )
    score = parts[0].contribution + parts[1].contribution
    match = match_view(Hit(FACT, score, 500, *parts, words=()))
    garden().validate("garden.engram.defs#match", match)
    shown = sum(match[arm]["contribution"] for arm in ("keyword", "vector") if arm in match)
    assert shown == match["score"] == thousandths(score)
    if "keyword" in match:
        assert abs(match["keyword"]["contribution"] - 1000 * parts[0].contribution) <= 1
    assert abs(match["vector"]["contribution"] - 1000 * parts[1].contribution) <= 2


@given(st.lists(unit, min_size=1, max_size=6), st.lists(unit, min_size=6, max_size=6))
def test_any_number_of_parts_add_up_and_none_is_off_by_more_than_rounding(
    values: list[float], weights: list[float]
) -> None:
    total = sum(weights[: len(values)])
    if total == 0.0:
        return
    fractions = [weight / total * value for weight, value in zip(weights, values, strict=False)]
    score = thousandths(sum(fractions))
    shares = share_out(score, fractions)
    assert sum(shares) == score
    assert all(
        abs(share - fraction * 1000) < 1.0 + 1e-6 for share, fraction in zip(shares, fractions, strict=True)
    )
    assert min(shares) >= 0


def test_no_parts_share_nothing_out() -> None:
    assert share_out(0, []) == []


@given(unit, unit, unit, unit)
def test_context_is_a_part_and_adds_up(share: float, keyword: float, vector: float, around: float) -> None:
    arm = (1 - share) / 2
    parts = (
        Component(2 * keyword, keyword, arm, arm * keyword),
        Component(vector, vector, arm, arm * vector),
    )
    context = Component(around, around, share, share * around)
    score = sum(part.contribution for part in (*parts, context))
    match = match_view(Hit(FACT, score, 500, *parts, words=(), context=context))
    garden().validate("garden.engram.defs#match", match)
    shown = [match[part]["contribution"] for part in ("keyword", "context", "vector") if part in match]
    assert sum(shown) == match["score"] == thousandths(score)
    assert abs(match["context"]["contribution"] - 1000 * context.contribution) <= 2


def test_an_arm_that_did_not_run_has_no_part() -> None:
    part = Component(0.7, 1.0, 1.0, 1.0)
    assert set(match_view(Hit(FACT, 1.0, 700, None, part, ()))) == {"score", "words", "vector"}
    assert set(match_view(Hit(FACT, 1.0, None, part, None, ("a",)))) == {"score", "words", "keyword"}


def test_a_memory_that_holds_no_word_of_the_question_has_no_keyword_part() -> None:
    match = match_view(Hit(FACT, 0.5, 700, Component(0.0, 0.0, 0.5, 0.0), Component(0.7, 1.0, 0.5, 0.5), ()))
    assert "keyword" not in match
    assert match["vector"]["contribution"] == match["score"] == 500
