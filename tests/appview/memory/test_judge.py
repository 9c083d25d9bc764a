"""Which vector counts, and which vectors can be used."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.memory.judge import Fits, Unfit, judge
from appview.memory.vectors import unit_vectors
from lexicons.embeddings import Embedding
from lexicons.errors import UnusableVector
from tests.appview.memory.support import NEW, OLD, OTHER, embedding, memory


def floats(vector: bytes | None) -> tuple[float, ...]:
    assert vector is not None
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def test_without_a_config_nothing_fits() -> None:
    assert judge([memory(), memory()], None) == [Unfit("no-config", "the space has no config")] * 2


def test_the_embedding_of_the_configs_model_counts() -> None:
    (verdict,) = judge([memory(key=OLD, next_key=NEW)], OLD)
    assert isinstance(verdict, Fits)
    assert floats(verdict.vector) == pytest.approx(embedding(OLD).unit_vector(), abs=1e-6)
    assert verdict.next_vector is None


def test_the_next_embedding_counts_where_it_is_the_models() -> None:
    (verdict,) = judge([memory(key=OLD, next_key=NEW)], NEW)
    assert isinstance(verdict, Fits)
    assert floats(verdict.vector) == pytest.approx(embedding(NEW).unit_vector(), abs=1e-6)


def test_the_first_of_two_embeddings_of_the_model_counts() -> None:
    both = replace(memory(key=OLD, seed=1), next_embedding=embedding(OLD, 2))
    (verdict,) = judge([both], OLD)
    assert isinstance(verdict, Fits)
    assert floats(verdict.vector) == pytest.approx(embedding(OLD, 1).unit_vector(), abs=1e-6)


def test_the_next_models_vector_is_taken_along_and_does_not_decide() -> None:
    unusable = Embedding(NEW, bytes(2 * NEW.dims))
    verdicts = judge([memory(next_key=NEW), memory(), replace(memory(), next_embedding=unusable)], OLD, NEW)
    assert [isinstance(verdict, Fits) and verdict.next_vector is not None for verdict in verdicts] == [
        True,
        False,
        False,
    ]
    assert all(isinstance(verdict, Fits) for verdict in verdicts)


@pytest.mark.parametrize(
    "key", [OTHER, replace(OLD, model="o"), replace(OLD, digest="sha256:p"), replace(OLD, dims=5)]
)
def test_another_model_digest_or_number_of_dimensions_does_not_fit(key) -> None:  # type: ignore[no-untyped-def]
    (verdict,) = judge([memory(key=key)], OLD)
    assert verdict == Unfit("model", f"made with {key}", "embedding.model: not the space's")


HALF = struct.Struct("<e")


@pytest.mark.parametrize(
    ("vector", "encoding"),
    [
        (b"", "f16le"),
        (HALF.pack(1.0) * 3, "f16le"),
        (HALF.pack(1.0) * 5, "f16le"),
        (HALF.pack(1.0) * 4 + b"x", "f16le"),
        (HALF.pack(0.0) * 4, "f16le"),
        (HALF.pack(-0.0) * 4, "f16le"),
        (HALF.pack(1.0) * 3 + HALF.pack(float("nan")), "f16le"),
        (HALF.pack(1.0) * 3 + HALF.pack(float("inf")), "f16le"),
        (HALF.pack(1.0) * 3 + HALF.pack(float("-inf")), "f16le"),
        (HALF.pack(1.0) * 4, "f32le"),
        (HALF.pack(1.0) * 4, ""),
    ],
)
def test_a_vector_that_cannot_be_used_does_not_fit(vector: bytes, encoding: str) -> None:
    (verdict,) = judge([replace(memory(), embedding=Embedding(OLD, vector, encoding))], OLD)
    assert isinstance(verdict, Unfit)
    assert verdict.reason == "vector"


@given(st.lists(st.lists(st.integers(0, 0xFFFF), min_size=3, max_size=5), max_size=6))
def test_many_vectors_at_once_are_read_as_one_by_one(vectors: list[list[int]]) -> None:
    key = replace(OLD, dims=4)
    embeddings = [Embedding(key, struct.pack(f"<{len(bits)}H", *bits)) for bits in vectors]
    for one, found in zip(embeddings, unit_vectors(embeddings, 4), strict=True):
        try:
            expected = one.unit_vector()
        except UnusableVector:
            assert found is None
        else:
            assert floats(found) == pytest.approx(expected, abs=1e-6)
