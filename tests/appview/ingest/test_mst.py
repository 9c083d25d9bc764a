"""Trees: the official heights, nodes that break the rules, and the walk."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import cbrrr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appview.ingest.errors import Rejected
from appview.ingest.mst import (
    EMPTY_NODE,
    EMPTY_TREE,
    MAX_ENTRIES,
    MAX_KEY_BYTES,
    MAX_NODE_BYTES,
    decode_node,
    encode_node,
    key_height,
    walk,
)
from tests.network.synthetic import mst as trees
from tests.network.synthetic.blocks import CID, block_of, cid_of, encode
from tests.shared_data import read_json, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

VALUE = cid_of(b"record")


def keys_of_height(height: int, count: int, prefix: str = "c/") -> list[str]:
    found: list[str] = []
    number = 0
    while len(found) < count:
        key = f"{prefix}{number:06}"
        if trees.height(key) == height:
            found.append(key)
        number += 1
    return found


LOW = keys_of_height(0, 6)
HIGH = keys_of_height(1, 4)


def entry(key: bytes, shared: int = 0, *, value: Any = None, child: bytes | None = None) -> dict[str, Any]:
    return {
        "k": key,
        "p": shared,
        "t": None if child is None else CID(child),
        "v": CID(VALUE) if value is None else value,
    }


def node(entries: Any, left: Any = None) -> bytes:
    return encode({"e": entries, "l": left})


def rejected(root: bytes, blocks: dict[bytes, bytes]) -> str:
    with pytest.raises(Rejected) as caught:
        list(walk(root, blocks.get))
    return caught.value.reason


def put(blocks: dict[bytes, bytes], keys: Iterable[str], children: list[bytes | None] | None = None) -> bytes:
    names = list(keys)
    cid, block = trees.encode_node(names, [VALUE] * len(names), children or [None] * (len(names) + 1))
    blocks[cid] = block
    return cid


def test_heights_are_the_official_ones() -> None:
    for case in read_json("interop/atproto/mst/key_heights.json"):
        assert key_height(case["key"].encode()) == case["height"], case


def test_prefixes_are_the_official_ones() -> None:
    for case in read_json("interop/atproto/mst/common_prefix.json"):
        left, right = (("c/" + case[side]).encode() for side in ("left", "right"))
        if left < right and case["left"]:  # keys of a node ascend
            block = encode_node([left, right], [VALUE, VALUE], [None, None, None])
            decoded: Any = cbrrr.decode_dag_cbor(block)
            assert decoded["e"][1]["p"] == case["len"] + 2, case


def test_the_example_keys_make_a_tree_that_is_walked_in_order() -> None:
    keys = read_lines("interop/atproto/mst/example_keys.txt")
    root, blocks = trees.build(dict.fromkeys(keys, VALUE))
    assert [f"{leaf.collection}/{leaf.rkey}" for leaf in walk(root, blocks.get)] == sorted(keys)


@given(
    st.dictionaries(
        st.from_regex(r"[a-c]{1,2}/[a-z0-9]{1,3}", fullmatch=True), st.binary(max_size=2), max_size=60
    )
)
@settings(max_examples=60, deadline=None)
def test_every_honest_tree_is_read_back_and_each_node_has_one_form(records: dict[str, bytes]) -> None:
    items = {key: cid_of(value) for key, value in records.items()}
    root, blocks = trees.build(items)
    assert {f"{leaf.collection}/{leaf.rkey}": leaf.cid for leaf in walk(root, blocks.get)} == items
    for block in blocks.values():
        read = decode_node(block)
        assert encode_node(read.keys, read.values, read.children) == block


def test_the_empty_tree_has_no_records() -> None:
    assert trees.build({})[0] == EMPTY_TREE
    assert list(walk(EMPTY_TREE, {EMPTY_TREE: EMPTY_NODE}.get)) == []


@pytest.mark.parametrize(
    "block",
    [
        b"\xff",
        encode([]),
        encode({"e": []}),
        encode({"e": [], "l": None, "x": 1}),
        node(None),
        node([1]),
        node([], 1),
        node([], b"bytes"),
        node([], CID(b"\x01\x55\x12\x20" + bytes(32))),
        node([], CID(b"\x12\x20" + bytes(32))),
        node([{"k": b"c/a", "p": 0, "v": CID(VALUE)}]),
        node([{"k": b"c/a", "p": 0, "v": CID(VALUE), "x": None}]),
        node([entry(b"c/a") | {"x": None}]),
        node([entry(b"c/a") | {"t": 1}]),
        node([entry(b"c/a") | {"p": "0"}]),
        node([entry(b"c/a") | {"p": True}]),
        node([entry(b"c/a") | {"k": "c/a"}]),
        node([entry(b"c/a", value=VALUE)]),
        node([entry(b"c/a", value=CID(b"\x12\x20" + bytes(32)))]),
        node([entry(b"c/a", 1)]),
        node([entry(b"c/a", -1)]),
        node([entry(b"a")]),
        node([entry(b"/a")]),
        node([entry(b"c/")]),
        node([entry(b"c/a/b")]),
        node([entry("c/ä".encode())]),
        node([entry(b"c/a b")]),
        node([entry(b"c/" + b"a" * MAX_KEY_BYTES)]),
        node([entry(b"c/b"), entry(b"c/a")]),  # a prefix that is not the longest
        node([entry(b"c/b"), entry(b"a", 2)]),  # descends
        node([entry(b"c/b"), entry(b"", 3)]),  # twice
        node([entry(b"c/b"), entry(b"c", 4)]),  # more than the key before
        node([entry(b"c/b"), entry(b"", 2)]),  # shorter than the key before
    ],
    ids=str,
)
def test_a_node_that_breaks_a_rule_is_refused(block: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        decode_node(block)
    assert caught.value.reason == "bad-node"


def test_a_node_that_is_a_crowd_is_not_decoded() -> None:
    bomb = b"\xa2\x61e\x9a" + (500_000).to_bytes(4, "big") + b"\x80" * 500_000 + b"\x61l\xf6"
    tracemalloc.start()
    try:
        with pytest.raises(Rejected, match="bad-node"):
            decode_node(bomb)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000  # as values it takes 30 MB
    finally:
        tracemalloc.stop()


def test_a_node_that_is_as_full_as_can_be_is_no_crowd() -> None:
    keys = [f"c/{number:03}".encode() for number in range(500)]
    assert decode_node(encode_node(keys, [VALUE] * 500, [None] * 501)).keys == keys
    assert decode_node(encode_node(keys, [VALUE] * 500, [VALUE] * 501)).keys == keys


def test_a_key_may_have_1024_bytes() -> None:
    key = b"c/" + b"a" * (MAX_KEY_BYTES - 2)
    assert decode_node(node([entry(key)])).keys == [key]


def widest(count: int) -> bytes:
    """Make a node of the longest keys, with next to nothing in common, and children between them."""
    keys = [f"{97 + number % 26:c}{number:03}/".ljust(MAX_KEY_BYTES, "x") for number in range(count)]
    return encode_node(
        [key.encode() for key in sorted(keys)], [VALUE] * count, [cid_of(b"child")] * (count + 1)
    )


def test_a_node_has_500_entries_at_most() -> None:
    assert len(decode_node(widest(MAX_ENTRIES)).keys) == 500
    with pytest.raises(Rejected) as caught:
        decode_node(widest(MAX_ENTRIES + 1))
    assert caught.value.reason == "bad-node"


def test_a_node_of_more_bytes_than_its_entries_can_have_is_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MAX_NODE_BYTES * 0.95 < len(widest(MAX_ENTRIES)) <= MAX_NODE_BYTES
    monkeypatch.setattr(cbrrr, "decode_dag_cbor", None)
    with pytest.raises(Rejected, match="at most"):
        decode_node(bytes(MAX_NODE_BYTES + 1))


def test_keys_of_a_node_have_one_height() -> None:
    blocks: dict[bytes, bytes] = {}
    assert rejected(put(blocks, sorted([LOW[0], HIGH[0]])), blocks) == "bad-node"


def test_a_child_is_exactly_one_lower() -> None:
    blocks: dict[bytes, bytes] = {}
    high = keys_of_height(2, 1, "d/")
    child = put(blocks, LOW[:2])
    assert rejected(put(blocks, high, [child, None]), blocks) == "bad-node"
    between = put(blocks, [], [child])
    assert len(list(walk(put(blocks, high, [between, None]), blocks.get))) == 3


def test_nothing_lies_below_the_lowest_height() -> None:
    blocks: dict[bytes, bytes] = {}
    child = put(blocks, [LOW[0]])
    assert rejected(put(blocks, [LOW[1]], [child, None]), blocks) == "bad-node"


def test_keys_ascend_across_nodes() -> None:
    blocks: dict[bytes, bytes] = {}
    after = keys_of_height(0, 1, "z/")
    assert rejected(put(blocks, [HIGH[0]], [put(blocks, after), None]), blocks) == "bad-node"
    assert (
        rejected(put(blocks, [keys_of_height(1, 1, "z/")[0]], [None, put(blocks, [LOW[0]])]), blocks)
        == "bad-node"
    )


def test_a_subtree_that_comes_twice_is_refused() -> None:
    blocks: dict[bytes, bytes] = {}
    child = put(blocks, [keys_of_height(0, 1, "a/")[0]])
    assert rejected(put(blocks, [HIGH[0]], [child, child]), blocks) == "bad-node"


def test_an_empty_node_is_no_part_of_a_tree() -> None:
    blocks: dict[bytes, bytes] = {EMPTY_TREE: EMPTY_NODE}
    assert rejected(put(blocks, [HIGH[0]], [EMPTY_TREE, None]), blocks) == "bad-node"
    assert rejected(put(blocks, [], [put(blocks, [LOW[0]])]), blocks) == "bad-node"


def test_a_node_that_is_not_there_is_named() -> None:
    blocks: dict[bytes, bytes] = {}
    assert rejected(cid_of(b"nowhere"), blocks) == "missing-block"
    assert rejected(put(blocks, [HIGH[0]], [cid_of(b"nowhere"), None]), blocks) == "missing-block"


def test_a_bomb_of_depth_ends_at_the_height_of_the_root() -> None:
    blocks: dict[bytes, bytes] = {}
    child = put(blocks, [LOW[0]])
    for _ in range(5_000):
        child = put(blocks, [], [child])
    assert rejected(put(blocks, keys_of_height(3, 1, "z/"), [child, None]), blocks) == "bad-node"


def test_a_cycle_ends_even_where_hashes_are_not_checked() -> None:
    cid = cid_of(b"cycle")
    low, block = block_of({"e": [], "l": CID(cid)})
    blocks = {cid: block, low: block}
    assert rejected(put(blocks, keys_of_height(3, 1, "z/"), [cid, None]), blocks) == "bad-node"
