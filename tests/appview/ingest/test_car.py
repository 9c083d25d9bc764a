"""CAR files: whole and in pieces, honest and not."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appview.ingest.car import MAX_BLOCK_BYTES, MAX_HEADER_BYTES, CarReader, read_car
from appview.ingest.errors import Rejected
from tests.network.synthetic.blocks import CID, block_of, car, cid_of, encode, varint

BLOCKS = [block_of({"n": number, "pad": bytes(number)}) for number in (1, 100, 5_000)]
ROOT = BLOCKS[0][0]


def reason(data: bytes, **limits: int) -> str:
    reader = CarReader(**limits)
    with pytest.raises(Rejected) as caught:
        reader.feed(data)
        reader.finish()
    return caught.value.reason


def test_a_car_is_read_whole() -> None:
    read = read_car(car([ROOT], BLOCKS))
    assert read.roots == (ROOT,)
    assert read.blocks == dict(BLOCKS)


@given(st.lists(st.integers(1, 4_000), max_size=30))
@settings(max_examples=50, deadline=None)
def test_pieces_of_any_size_give_the_same_blocks(sizes: list[int]) -> None:
    data, at, blocks = car([ROOT], BLOCKS), 0, []
    reader = CarReader()
    for size in [*sizes, len(data)]:
        blocks += reader.feed(data[at : at + size])
        at += size
    reader.finish()
    assert blocks == BLOCKS


def test_one_byte_at_a_time_gives_the_same_blocks() -> None:
    data = car([ROOT], BLOCKS)
    reader = CarReader()
    blocks = [block for index in range(len(data)) for block in reader.feed(data[index : index + 1])]
    reader.finish()
    assert blocks == BLOCKS


def test_a_block_that_comes_twice_counts_once() -> None:
    assert read_car(car([ROOT], BLOCKS + BLOCKS)).blocks == dict(BLOCKS)


def test_a_raw_block_is_read() -> None:
    cid = b"\x01\x55\x12\x20" + hashlib.sha256(b"raw").digest()
    assert read_car(car([ROOT], [(cid, b"raw")])).blocks == {cid: b"raw"}


def test_a_block_must_hash_to_its_cid() -> None:
    assert reason(car([ROOT], [(ROOT, b"other bytes")])) == "bad-block-hash"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        car([ROOT], BLOCKS)[:-1],
        car([ROOT], BLOCKS)[:30],
        car([ROOT], []) + b"\x00",
        car([ROOT], []) + varint(3) + b"abc",
        car([ROOT], []) + varint(37) + b"\x12\x20" + bytes(35),
        car([ROOT], []) + b"\x80\x00",
        car([], BLOCKS),
        varint(1) + b"\xa0",
        varint(1) + b"\xff",
        varint(len(encode({"version": 2, "roots": []}))) + encode({"version": 2, "roots": []}),
        varint(len(encode({"version": 1, "roots": ["x"]}))) + encode({"version": 1, "roots": ["x"]}),
    ],
)
def test_what_is_no_car_is_refused(data: bytes) -> None:
    assert reason(data) == "malformed-car"


def test_a_claimed_length_is_not_believed() -> None:
    assert reason(car([ROOT], []) + varint(10_000_000_000)) == "too-big"
    assert reason(car([ROOT], []) + varint(MAX_BLOCK_BYTES + 37)) == "too-big"
    assert reason(car([ROOT], []) + varint(MAX_BLOCK_BYTES + 36)) == "malformed-car"  # truncated, not too big
    assert reason(varint(MAX_HEADER_BYTES + 1)) == "malformed-car"
    assert reason(b"\xff" * 20) == "too-big"


def test_a_header_may_have_4_kb() -> None:
    def header(size: int) -> bytes:
        block = encode({"version": 1, "roots": [CID(ROOT)], "pad": bytes(size)})
        return varint(len(block)) + block

    room = MAX_HEADER_BYTES - (len(header(1_000)) - 1_000 - 2)  # two bytes say how long it is
    assert read_car(header(room)).roots == (ROOT,)
    assert reason(header(room + 1)) == "malformed-car"


def test_a_length_is_written_in_its_shortest_form_alone() -> None:
    cid, block = BLOCKS[1]
    section = cid + block
    short = varint(len(section))
    assert len(read_car(car([ROOT], []) + short + section).blocks) == 1
    padded = short[:-1] + bytes([short[-1] | 0x80, 0])
    assert reason(car([ROOT], []) + padded + section) == "malformed-car"


def test_a_block_may_have_2_mb() -> None:
    block = bytes(MAX_BLOCK_BYTES)
    assert len(read_car(car([ROOT], [(cid_of(block), block)])).blocks) == 1
    assert reason(car([ROOT], [(cid_of(block + b"x"), block + b"x")])) == "too-big"


def test_the_whole_is_limited_by_bytes_and_blocks() -> None:
    data = car([ROOT], BLOCKS)
    reader = CarReader(max_bytes=len(data), max_blocks=3)
    assert reader.feed(data) == BLOCKS
    assert reason(data, max_bytes=len(data) - 1) == "too-big"
    assert reason(data, max_blocks=2) == "too-big"
