"""Vectors on the wire, against the vectors of other implementations.

The `sigs` parts of these files belong to permissioned spaces, which are not part of the contract yet.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lexicons.data import from_json, to_json
from lexicons.embeddings import (
    Embedding,
    decode_f16le,
    decode_query_vector,
    decode_unit_vector,
    encode_f16le,
    encode_query_vector,
    normalise,
)
from lexicons.errors import InvalidRecord, UnusableVector
from lexicons.models import ModelKey
from tests.shared_data import cases, read_json

KEY = ModelKey("m", "sha256:d", 3)
half_floats = st.floats(width=16, allow_nan=False, allow_infinity=False)


def _vectors() -> list[Any]:
    return [
        pytest.param(vector, id=f"{name}-{number}")
        for name in ("go", "python")
        for number, vector in enumerate(read_json(f"interop/engram/{name}.json")["vectors"])
    ]


@pytest.mark.parametrize("vector", cases(_vectors))
def test_encodes_and_reads_the_vectors_of_other_implementations(vector: dict[str, Any]) -> None:
    values = [struct.unpack("<f", struct.pack("<I", bits))[0] for bits in vector["bits"]]
    encoded = encode_f16le(values)
    assert encoded.hex() == vector["f16Hex"]
    assert encode_query_vector(encoded) == vector["queryVector"]
    assert decode_query_vector(vector["queryVector"]) == encoded
    embedding = Embedding.from_record(from_json(vector["record"]))
    assert embedding.vector == encoded
    assert to_json(embedding.to_record()) == vector["record"]


@given(st.lists(half_floats, max_size=40))
def test_f16le_survives_both_ways(values: list[float]) -> None:
    encoded = encode_f16le(values)
    assert len(encoded) == 2 * len(values)
    assert decode_f16le(encoded) == tuple(values)
    assert decode_query_vector(encode_query_vector(encoded)) == encoded


@given(st.lists(st.floats(-65_000, 65_000), min_size=1, max_size=40))
@example([5e-324, 5e-324])
def test_a_unit_vector_has_length_1(values: list[float]) -> None:
    try:
        unit = normalise(values)
    except UnusableVector:
        assert math.hypot(*values) == 0
        return
    assert math.isclose(math.hypot(*unit), 1, rel_tol=1e-9)
    again = decode_unit_vector(encode_f16le(unit), len(unit))
    assert all(abs(a - b) < 1e-3 for a, b in zip(unit, again, strict=True))


@given(st.binary(max_size=64))
def test_any_bytes_give_a_unit_vector_or_none(data: bytes) -> None:
    try:
        unit = decode_unit_vector(data, 8)
    except UnusableVector:
        return
    assert math.isclose(math.hypot(*unit), 1, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1 + 2**-11], "003c"),  # halfway: to even, down
        ([1 + 3 * 2**-11], "023c"),  # halfway: to even, up
        ([2**-24], "0100"),  # the smallest
        ([2**-25], "0000"),  # halfway to the smallest: to even
        ([65_504.0], "ff7b"),  # the largest
        ([-0.0], "0080"),
    ],
)
def test_rounds_to_nearest_even(values: list[float], expected: str) -> None:
    assert encode_f16le(values).hex() == expected


def test_what_does_not_fit_is_not_encoded() -> None:
    with pytest.raises(UnusableVector, match="does not fit binary16"):
        encode_f16le([65_520.0])


INFINITY, NAN = b"\x00\x7c", b"\x00\x7e"


@pytest.mark.parametrize(
    ("embedding", "reason"),
    [
        (Embedding(KEY, b"\x00\x3c" * 2), "4 bytes, 3 dimensions take 6"),
        (Embedding(KEY, b"\x00\x3c" * 4), "8 bytes, 3 dimensions take 6"),
        (Embedding(KEY, b"\x00\x3c" * 2 + b"\x00"), "5 bytes"),
        (Embedding(KEY, b""), "0 bytes"),
        (Embedding(KEY, b"\x00\x3c" * 2 + NAN), "NaN or infinity"),
        (Embedding(KEY, b"\x00\x3c" * 2 + INFINITY), "NaN or infinity"),
        (Embedding(KEY, b"\x00" * 6), "is zero"),
        (Embedding(KEY, b"\x00\x80" * 3), "is zero"),  # minus zero
        (Embedding(KEY, b"\x00\x3c" * 3, "f32le"), "unknown encoding: 'f32le'"),
        (Embedding(KEY, b"\x00\x3c" * 3, "x" * 900), "unknown encoding: 'x+'$"),
    ],
)
def test_a_vector_that_cannot_be_used_says_why(embedding: Embedding, reason: str) -> None:
    with pytest.raises(UnusableVector, match=reason) as caught:
        embedding.unit_vector()
    assert len(str(caught.value)) < 100


def test_the_smallest_and_the_largest_values_are_usable() -> None:
    assert Embedding(KEY, b"\x01\x00\x00\x00\x00\x00").unit_vector() == (1.0, 0.0, 0.0)
    length = math.hypot(*Embedding(KEY, b"\xff\x7b" * 3).unit_vector())
    assert math.isclose(length, 1)


def test_a_writer_normalises() -> None:
    embedding = Embedding.of(KEY, (3, 0, 4))
    assert decode_f16le(embedding.vector) == pytest.approx((0.6, 0.0, 0.8), abs=1e-3)
    with pytest.raises(UnusableVector, match="2 dimensions, the model has 3"):
        Embedding.of(KEY, (1, 2))
    with pytest.raises(UnusableVector, match="is zero"):
        Embedding.of(KEY, (0, 0, 0))
    with pytest.raises(UnusableVector, match="NaN or infinity"):
        Embedding.of(KEY, (1, math.nan, 0))


@pytest.mark.parametrize("text", ["AA+/", "AA A", "é", "AAAAA", "AA===", "=", "A"])
def test_a_query_vector_is_base64url(text: str) -> None:
    if text == "=":
        assert decode_query_vector(text) == b""
        return
    with pytest.raises(UnusableVector, match="not base64url"):
        decode_query_vector(text)


@pytest.mark.parametrize("text", ["AAE", "AAE="])
def test_padding_of_a_query_vector_is_optional(text: str) -> None:
    assert decode_query_vector(text) == b"\x00\x01"


def test_an_odd_number_of_bytes_is_no_vector() -> None:
    with pytest.raises(UnusableVector, match="3 bytes is not a whole number"):
        decode_f16le(b"abc")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"vector": "AA"}, "vector"),
        ({"vector": None}, "vector"),
        ({"encoding": None}, "encoding"),
        ({"dims": 0}, "dims"),
        ({"dims": 16_001}, "dims"),
        ({"dims": True}, "dims"),
        ({"model": ""}, "model"),
        ({"model": "m" * 257}, "model"),
        ({"modelDigest": "é" * 129}, "modelDigest"),
        ({"modelDigest": None}, "modelDigest"),
    ],
)
def test_an_embedding_object_is_read_or_refused(changes: dict[str, Any], path: str) -> None:
    record = Embedding(KEY, b"\x00\x3c" * 3).to_record()
    assert Embedding.from_record(record).to_record() == record
    with pytest.raises(InvalidRecord) as caught:
        Embedding.from_record({**record, **changes})
    assert caught.value.path == path


def test_a_model_is_equal_only_as_a_whole() -> None:
    assert ModelKey("m", "d", 1) == ModelKey.from_record(
        {"model": "m", "modelDigest": "d", "dims": 1, "x": 0}
    )
    assert (
        len({ModelKey("m", "d", 1), ModelKey("n", "d", 1), ModelKey("m", "e", 1), ModelKey("m", "d", 2)}) == 4
    )
    assert str(ModelKey("m", "d", 1)) == "m (d, 1 dims)"
    ModelKey("m" * 256, "é" * 128, 16_000)
