"""Blocks that would keep the decoder busy are refused before it sees them."""

from __future__ import annotations

import cbrrr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexicons.bombs import HARMLESS_BYTES, MAX_UNCHECKED_ITEMS, refuse_bombs
from lexicons.data import decode
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
