"""The data model in its two forms, against the official fixtures and against each other."""

from __future__ import annotations

import json
from base64 import b32encode, b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexicons import data
from lexicons.data import Link
from lexicons.errors import InvalidData
from lexicons.syntax import Did
from tests.shared_data import cases, read_json

FOLDER = "interop/atproto/data-model"
LINK = Link(data.cid_of(b"\xa0"))
BLOB = {"$type": "blob", "ref": LINK, "mimeType": "image/png", "size": 1}

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda key: key not in ("$bytes", "$link", "$type")
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.binary(max_size=12)
    | st.binary(max_size=4).map(lambda block: Link(data.cid_of(block))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


def _named(file: str) -> list[Any]:
    return [pytest.param(case["json"], id=case["note"]) for case in read_json(f"{FOLDER}/{file}.json")]


@pytest.mark.parametrize("case", cases(lambda: read_json(f"{FOLDER}/data-model-fixtures.json")), ids=str)
def test_bytes_json_and_cid_of_the_official_fixtures_agree(case: dict[str, Any]) -> None:
    block = b64decode(case["cbor_base64"] + "==")
    value = data.from_json(case["json"])
    assert data.encode(value) == block
    assert data.decode_record(block) == value
    assert data.cid_text(data.cid_of(block)) == case["cid"]
    assert data.to_json(value) == case["json"]


@given(st.binary(min_size=36, max_size=36) | st.binary(max_size=40))
def test_a_cid_is_written_as_base32(cid: bytes) -> None:
    assert data.cid_text(cid) == "b" + b32encode(cid).decode().rstrip("=").lower()


@pytest.mark.parametrize("value", cases(lambda: _named("data-model-valid")))
def test_accepts_what_is_valid(value: Any) -> None:
    data.encode(data.record_from_json(value))


@pytest.mark.parametrize("value", cases(lambda: _named("data-model-invalid")))
def test_refuses_what_is_invalid(value: Any) -> None:
    with pytest.raises(InvalidData):
        data.record_from_json(value)


@given(values)
def test_a_value_survives_both_forms(value: Any) -> None:
    block = data.encode(value)
    assert data.decode(block) == value
    assert data.encode(data.decode(block)) == block
    assert data.from_json(json.loads(json.dumps(data.to_json(value)))) == value


@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_refused(block: bytes) -> None:
    try:
        value = data.decode(block)
    except InvalidData:
        return
    assert data.encode(value) == block


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["$type", "$bytes", "$link", "a"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_any_json_is_read_or_refused(value: Any) -> None:
    try:
        decoded = data.from_json(value)
    except InvalidData:
        return
    assert data.decode(data.encode(decoded)) == decoded


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"\xa1\x61a\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00", "a float"),
        (b"\xa1\x66$bytes\x64!!!!", r"reserved key \$bytes"),
        (b"\xa1\x65$link\x61x", r"reserved key \$link"),
        (b"\xa1\x65$type\xf6", r"a \$type"),
        (b"\xd8\x2a\x42\x00\x01", "not a CID"),
        (b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", "beyond 64 bits"),
        (b"\x18\x01", "not DAG-CBOR"),  # not minimal
        (b"\xa2\x61b\x01\x61a\x01", "not DAG-CBOR"),  # keys out of order
        (b"\xa2\x61a\x01\x61a\x01", "not DAG-CBOR"),  # a key twice
        (b"\x61\xff", "not DAG-CBOR"),  # not UTF-8
        (b"\xed\xa0\x80", "not DAG-CBOR"),
        (b"\x63\xed\xa0\x80", "not DAG-CBOR"),  # a surrogate
        (b"\xa0\xa0", "not DAG-CBOR"),  # more behind it
        (b"", "not DAG-CBOR"),
        (b"\x9f\xff", "not DAG-CBOR"),  # indefinite length
        (b"\x81" * 100_000 + b"\x80", "nested deeper than 64"),
    ],
)
def test_refuses_bytes_outside_the_model(block: bytes, why: str) -> None:
    with pytest.raises(InvalidData, match=why):
        data.decode(block)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (1.5, "a float"),
        (float("nan"), "a float"),
        (float("inf"), "a float"),
        (float(2**53), "a float"),
        (2**63, "beyond 64 bits"),
        (-(2**63) - 1, "beyond 64 bits"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({"$bytes": "!!!!"}, "not base64"),
        ({"$bytes": "AAAAA"}, "not base64"),
        ({"$bytes": "AA==="}, "not base64"),
        ({"$bytes": "AA_-"}, "not base64"),
        ({"$link": "é"}, "not a CID"),
        ({"$link": "bafyreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabw"}, "not a CID"),
        ({"$link": "BAFYREICLP443LAVOGVHJ3D2OB2CXBFUSCNI2K5JK7BEBJZG7KHL3ESABWQ"}, "not a CID"),
        ({"$link": "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR"}, "not a CID"),
        (b"", "a bytes has no place in JSON"),
    ],
)
def test_refuses_json_outside_the_model(value: Any, why: str) -> None:
    with pytest.raises(InvalidData, match=why):
        data.from_json(value)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**60])
def test_integers_reach_to_64_bits(value: int) -> None:
    assert data.decode(data.encode(data.from_json(value))) == value


def test_a_float_without_a_fraction_is_an_integer_up_to_53_bits() -> None:
    assert type(data.from_json(float(data.MAX_SAFE_INTEGER))) is int
    assert data.from_json(-3.0) == -3


@pytest.mark.parametrize("text", ["AAE", "AAE="])
def test_bytes_are_read_with_and_without_padding(text: str) -> None:
    assert data.from_json({"$bytes": text}) == b"\x00\x01"
    assert data.to_json(b"\x00\x01") == {"$bytes": "AAE"}


def _nested(depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_is_limited_alike_in_both_forms() -> None:
    deepest = _nested(data.MAX_DEPTH)
    assert data.decode(data.encode(deepest)) == data.from_json(deepest) == deepest
    for refuse in (data.encode, data.from_json):
        with pytest.raises(InvalidData, match="nested deeper than 64"):
            refuse(_nested(data.MAX_DEPTH + 1))


def test_a_record_is_a_map_of_at_most_a_megabyte() -> None:
    empty = len(data.encode({"a": "x" * 70_000})) - 70_000
    largest = data.encode({"a": "x" * (data.MAX_RECORD_BYTES - empty)})
    assert len(largest) == data.MAX_RECORD_BYTES
    data.decode_record(largest)
    with pytest.raises(InvalidData, match="1000001 bytes, at most 1000000"):
        data.decode_record(largest + b"\x00")
    with pytest.raises(InvalidData, match="must be a map"):
        data.decode_record(b"\x80")


@pytest.mark.parametrize(
    "wrong",
    [{"size": -1}, {"size": True}, {"size": "1"}, {"mimeType": ""}, {"mimeType": None}, {"ref": "bafy"}],
)
def test_a_blob_has_a_link_a_mime_type_and_a_size(wrong: dict[str, Any]) -> None:
    assert data.decode(data.encode({"a": BLOB})) == {"a": BLOB}
    with pytest.raises(InvalidData, match="a blob without"):
        data.encode({"a": {**BLOB, **wrong}})


def test_checked_strings_are_written_as_strings() -> None:
    assert data.decode(data.encode({"did": Did("did:plc:abc")})) == {"did": "did:plc:abc"}


@pytest.mark.parametrize("value", [{1: 2}, (1, 2), object(), {"a": bytearray(b"x")}, 1.5, "\ud800"])
def test_does_not_write_what_has_no_place(value: Any) -> None:
    with pytest.raises(InvalidData):
        data.encode(value)


def test_a_link_is_written_as_text_and_not_taken_for_bytes() -> None:
    assert str(LINK) == data.cid_text(LINK.cid_bytes)
    assert data.cid_from_text(str(LINK)) == LINK.cid_bytes
    assert LINK.cid_bytes != LINK
    assert data.to_json([LINK]) == [{"$link": str(LINK)}]
