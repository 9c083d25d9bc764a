"""Blocks that would keep the decoder busy are refused before it sees them."""

from __future__ import annotations

import contextlib
import time

import cbrrr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexicons.bombs import HARMLESS_BYTES, MAX_UNCHECKED_ITEMS, refuse_bombs, refuse_crowds
from lexicons.data import MAX_RECORD_ITEMS, decode, decode_record
from lexicons.errors import InvalidData


def nested(levels: int, size: int) -> bytes:
    """Arrays in arrays, each claiming all the bytes that follow it."""
    out = bytearray()
    for _ in range(levels):
        out += b"\x9a" + (size - len(out) - 5).to_bytes(4, "big")
    return bytes(out) + bytes(size - len(out))


def test_arrays_that_claim_the_same_bytes_again_and_again_are_refused() -> None:
    with pytest.raises(InvalidData, match="claim more items"):
        decode(nested(150_000, 1_000_000))


def test_few_such_arrays_are_left_to_the_decoder() -> None:
    size = 1_000_000
    wide = b"\x9a\x00\x0f\x00\x00"
    few = MAX_UNCHECKED_ITEMS // size
    refuse_bombs((wide * few).ljust(size, b"\x00"))
    with pytest.raises(InvalidData, match="claim more items"):
        refuse_bombs((wide * (few + 1)).ljust(size, b"\x00"))


def test_a_small_block_cannot_be_a_bomb() -> None:
    assert (HARMLESS_BYTES // 3) * HARMLESS_BYTES <= MAX_UNCHECKED_ITEMS
    with pytest.raises(InvalidData, match="not DAG-CBOR"):
        decode(nested(900, HARMLESS_BYTES))


def test_a_vector_full_of_array_heads_is_no_bomb() -> None:
    value = {"vector": b"\x9a" * 32_000, "text": "x", "many": [[0] * 300 for _ in range(80)]}
    assert decode(cbrrr.encode_dag_cbor(value)) == value


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(), inner, max_size=5),
        max_leaves=200,
    )
)
def test_no_honest_value_is_refused(value: object) -> None:
    refuse_bombs(cbrrr.encode_dag_cbor([b"\x99" * 20_000, value]))


# Crowds


def crowd(unit: bytes, count: int) -> bytes:
    """A list of `count` times the same bytes."""
    return b"\x9a" + count.to_bytes(4, "big") + unit * count


@pytest.mark.parametrize(
    ("unit", "items"), [(b"\x80", 1), (b"\xa0", 1), (b"\x81\x80", 2), (b"\xa1\x61a\x00", 3)]
)
def test_a_crowd_is_counted_to_the_last_item(unit: bytes, items: int) -> None:
    count = 1_000
    block = crowd(unit, count)
    refuse_crowds(block, 1 + items * count)
    with pytest.raises(InvalidData, match="more than"):
        refuse_crowds(block, items * count)


def test_a_megabyte_of_nothing_is_refused_within_a_few_steps() -> None:
    for unit in (b"\x80", b"\x81\x80", b"\xa1\x61a\x00", b"\x82\x80\x80"):
        block = crowd(unit, 990_000 // len(unit))
        started = time.process_time()
        with pytest.raises(InvalidData, match="more than 500 items"):
            decode_record(block)
        assert time.process_time() - started < 0.05
    nested = b"\x81" * 400_000 + b"\x80"
    with pytest.raises(InvalidData, match="more than 500 items"):
        decode_record(nested)


def test_a_record_may_have_500_items() -> None:
    fullest = {"tags": [f"tag {number}" * 20 for number in range(MAX_RECORD_ITEMS - 3)]}
    assert decode_record(cbrrr.encode_dag_cbor(fullest)) == fullest
    fullest["tags"].append("one more")
    with pytest.raises(InvalidData, match="more than 500 items"):
        decode_record(cbrrr.encode_dag_cbor(fullest))


def test_long_texts_and_bytes_are_one_item_each() -> None:
    value = {"text": "\x99" * 100_000, "bytes": b"\x80" * 700_000}
    assert decode_record(cbrrr.encode_dag_cbor(value)) == value


def count(value: object) -> int:
    """Count the items of a value, one by one."""
    if isinstance(value, dict):
        return 1 + sum(1 + count(inner) for inner in value.values())
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(max_size=300),
        lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(), inner, max_size=5),
        max_leaves=200,
    )
)
def test_the_count_is_that_of_the_value(value: object) -> None:
    block = cbrrr.encode_dag_cbor([bytes(20_000), value])
    most = count([b"", value])
    refuse_crowds(block, most)
    with pytest.raises(InvalidData):
        refuse_crowds(block, most - 1)
    refuse_crowds(block + block, 2 * most, values=2)
    with pytest.raises(InvalidData):
        refuse_crowds(block + block, 2 * most - 1, values=2)


@given(st.binary(max_size=200), st.integers(0, 60))
def test_bytes_that_are_no_cbor_are_left_to_the_decoder_or_refused(block: bytes, most: int) -> None:
    with contextlib.suppress(InvalidData):
        refuse_crowds(block, most)
