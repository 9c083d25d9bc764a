"""What can be tuned, and how it is written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from appview.memory.scope import EVERYTHING
from appview.search.engine import Searcher, SearchRequest
from appview.search.fusion import Weights
from appview.search.keyword import KeywordSettings
from appview.search.tuning import COUNTING, MEANING, NAMES, Tuning, describe, read_tuning, weights_for
from appview.search.vector import too_far
from lexicons.hashing import model_key
from lexicons.models import ModelKey
from tests.appview.search.support import MODEL, Doc, halves

if TYPE_CHECKING:
    from tests.appview.search.support import Filler

EAST = halves(1, 0, 0, 0)


def test_nothing_written_is_the_default() -> None:
    assert read_tuning("") == read_tuning(" , ") == Tuning()


def test_settings_are_read_by_name() -> None:
    tuning = read_tuning("keyword=3, vector=1,k1=0.9,fusion=rank,context=0,reach=3,gap=60,cut=0.25")
    assert tuning.weights == Weights(3, 1)
    assert tuning.method == "rank"
    assert (tuning.keyword.k1, tuning.keyword.b) == (0.9, KeywordSettings().b)
    assert (tuning.context.weight, tuning.context.reach, tuning.context.gap) == (0.0, 3, 60_000_000)
    assert (tuning.floor, tuning.cut) == (Tuning().floor, 0.25)


def test_what_is_described_can_be_read_again() -> None:
    for text in ("", "keyword=0.7,vector=0.3", "fusion=rank,pivot=50,common_facts=10,gap=0.5"):
        tuning = read_tuning(text)
        written = ",".join(f"{name}={value}" for name, value in describe(tuning, MODEL).items())
        again = read_tuning(written)
        assert describe(again) == describe(tuning)
    assert set(describe(Tuning())) == set(NAMES)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("k2=1", "unknown setting 'k2'; there are keyword, "),
        ("k1", "name=value"),
        ("k1=1,k1=2", "each once"),
        ("k1=x", "k1 is a number, not 'x'"),
        ("b=nan", "b is a number"),
        ("b=1.5", "b from 0 to 1"),
        ("k1=-1", "k1 is from 0 up"),
        ("fusion=magic", "convex or rank"),
        ("keyword=0", "weights"),
        ("floor=2", "floor"),
        ("context=-1", "context"),
        ("context=1001", "context is from 0 to 1,000"),
        ("k1=1000001", "k1 is from 0 up to 1,000,000"),
        ("pivot=0.009", "pivot is from 0.01"),
        ("pivot=1000001", "to 1,000,000"),
        ("common_facts=-1", "common_facts is from 0 up"),
        ("reach=0", "reach is from 1 to 100"),
        ("reach=101", "reach is from 1 to 100"),
        ("reach=1e9", "reach is from 1 to 100"),
        ("gap=-1", "gap is from 0 to 10,000 years"),
        ("gap=315360000001", "gap is from 0 to 10,000 years"),
        ("gap=1e308", "gap is from 0 to 10,000 years"),
    ],
)
def test_what_cannot_be_is_told(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_tuning(text)


def test_each_setting_may_be_as_large_as_its_limit() -> None:
    most = read_tuning("context=1000,reach=100,gap=315360000000,k1=1000000,b=1,pivot=1000000")
    assert (most.context.weight, most.context.reach) == (1_000.0, 100)
    least = read_tuning("context=0,reach=1,gap=0,k1=0,b=0,pivot=0.01,common_facts=0")
    assert (least.context.gap, least.keyword.pivot) == (0, 0.01)


def test_a_model_that_counts_words_counts_less() -> None:
    assert weights_for(model_key(256)) == COUNTING
    assert weights_for(MODEL) == MEANING
    assert weights_for(ModelKey("hashing-99999999", "d", 4)) == MEANING
    assert Tuning(weights=Weights(1, 1)).weights_for(model_key(256)) == Weights(1, 1)


@pytest.mark.parametrize(
    ("cosines", "words", "far"),
    [
        ([0.9, 0.5, 0.44], [0.0, 0.0, 0.0], [2]),  # less than half as near as the nearest
        ([0.9, 0.5, 0.44], None, [2]),
        ([0.9, 0.44], [0.0, 1.5], []),  # but a word matches
        ([0.1499], None, [0]),
        ([0.15], None, []),
        ([-0.9, -0.2], [0.0, 0.0], [0, 1]),
        ([0.9, math.nan, 0.44], None, [2]),  # what is unknown is not far, nor the nearest
        ([math.nan], None, []),
        ([], None, []),
    ],
)
def test_what_is_not_near_is_no_hit_by_meaning(
    cosines: list[float], words: list[float] | None, far: list[int]
) -> None:
    marked = too_far(np.array(cosines, np.float64), None if words is None else np.array(words), 0.15, 0.49)
    assert np.flatnonzero(marked).tolist() == far


def test_without_a_floor_nothing_is_too_far() -> None:
    assert not too_far(np.array([-1.0, -0.5, 0.9]), None, -1.0, 0.0).any()


async def test_where_nothing_is_near_meaning_finds_nothing(space: Filler) -> None:
    await space.add(Doc("moon", vector=(0, 1, 0, 0)), Doc("soil", ("/other",), vector=(-1, 0, 0, 0)))
    searcher = Searcher()
    assert not (await searcher.search(space.store, SearchRequest(None, EAST), EVERYTHING)).hits
    assert not (await searcher.search(space.store, SearchRequest("blight", EAST), EVERYTHING)).hits
    (hit,) = (await searcher.search(space.store, SearchRequest("moon", EAST), EVERYTHING)).hits
    assert hit.fact.text == "moon"


async def test_ranks_can_decide_instead_of_scores(space: Filler) -> None:
    await space.add(
        Doc("moon " * 9, vector=(1, 0.9, 0, 0)),
        Doc("moon", vector=(1, 0.8, 0, 0)),
        Doc("tides", vector=(1, 0, 0, 0)),
    )
    request = SearchRequest("moon", EAST)
    tuning = read_tuning("fusion=rank,context=0")
    result = await Searcher(tuning=tuning).search(space.store, request, EVERYTHING)
    found = {hit.fact.text.split()[0]: hit for hit in result.hits}
    assert found["tides"].keyword is not None
    assert found["tides"].keyword.normalised == 0.0
    second = [hit.vector.normalised for hit in result.hits if hit.vector is not None]
    assert sorted(second) == pytest.approx([11 / 13, 11 / 12, 1.0])
    for hit in result.hits:
        assert hit.keyword is not None
        assert hit.vector is not None
        assert hit.score == hit.keyword.contribution + hit.vector.contribution


async def test_settings_change_what_is_found(space: Filler) -> None:
    """A long memory with the word twice against a short one: with b = 0 length does not count."""
    long, short = await space.add("moon moon " + "soil " * 200, "moon")
    request = SearchRequest("moon", mode="keyword")
    for text, first in (("", short), ("b=0", long)):
        result = await Searcher(tuning=read_tuning(text)).search(space.store, request, EVERYTHING)
        assert result.hits[0].fact.rkey == first
