"""The `hashing-<dims>` model, against its worked examples."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexicons.embeddings import Embedding, encode_f16le, encode_query_vector
from lexicons.errors import InvalidRecord
from lexicons.hashing import embed, model_key, parse_name, words
from lexicons.memories import text_to_embed
from lexicons.models import ModelKey
from tests.shared_data import cases, read_json


@pytest.mark.parametrize("case", cases(lambda: read_json("interop/engram/hashing-derived.json")), ids=str)
def test_the_worked_examples(case: dict[str, Any]) -> None:
    text = text_to_embed(case["prefix"], case["text"], case["tags"])
    assert words(text) == case["words"]
    assert encode_query_vector(encode_f16le(embed(text, case["dims"]))) == case["queryVector"]


def test_a_word_is_a_run_of_letters_and_numbers() -> None:
    """The expression that splits must agree with the Unicode categories on every code point."""
    wrong = [
        hex(code)
        for code in range(0x110000)
        if (unicodedata.category(chr(code))[0] in "LN") != (words(f"_{chr(code)}_") != [])
    ]
    assert wrong == []


@given(st.text(max_size=60), st.integers(1, 40))
def test_any_text_has_a_vector_of_length_1(text: str, dims: int) -> None:
    vector = embed(text, dims)
    assert len(vector) == dims
    assert math.isclose(math.hypot(*vector), 1)
    assert Embedding.of(model_key(dims), vector).unit_vector() == pytest.approx(vector, abs=1e-3)


def test_a_text_without_words_points_along_the_first_axis() -> None:
    assert embed("?! _", 3) == (1.0, 0.0, 0.0)


def test_a_model_is_named_by_its_dims() -> None:
    assert model_key(384) == ModelKey("hashing-384", "sha256:hashing", 384) == parse_name("hashing-384")
    assert model_key(1).dims == 1
    assert model_key(16_000).dims == 16_000


@pytest.mark.parametrize("dims", [0, -1, 16_001])
def test_dims_are_limited(dims: int) -> None:
    with pytest.raises(InvalidRecord, match="from 1 to 16000"):
        model_key(dims)


@pytest.mark.parametrize(
    "name", ["nomic-embed-text", "hashing", "hashing-", "hashing-1x", "hashing-01", "hashing-٣"]
)
def test_another_name_is_another_model(name: str) -> None:
    assert parse_name(name) is None


@pytest.mark.parametrize("name", ["hashing-0", "hashing-16001", "hashing-9999999999"])
def test_a_name_with_impossible_dims_is_refused(name: str) -> None:
    with pytest.raises(InvalidRecord, match="from 1 to 16000"):
        parse_name(name)
