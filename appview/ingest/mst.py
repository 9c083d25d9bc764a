"""Merkle search trees as they are read: nodes, checked strictly, and the walk over a whole tree.

Rules (atproto.com/specs/repository, fanout 4): a key is `<collection>/<record key>`; keys ascend, in a node
and across the tree; a key's height is the number of leading pairs of zero bits of its SHA-256, and every key
of a node has the node's height; a child is exactly one lower; a node without keys only leads to a lower one,
and is never the root (except of the empty tree). Keys are written without the longest prefix that they share
with the key before.

A tree that breaks a rule is refused, so that one set of records has one tree and one root.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cbrrr

from appview.ingest.errors import Rejected
from lexicons.bombs import refuse_crowds
from lexicons.data import CID_BYTES, DAG_CBOR_PREFIX, RAW_PREFIX, Link, cid_of
from lexicons.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_KEY_BYTES: Final = 1_024  # repository spec, a path
# Ours; the repository spec asks for "a statistically unlikely maximum length". Three keys of four have height
# 0: so many in a row come once in 10^62 times, unless somebody looks for such keys.
MAX_ENTRIES: Final = 500
MAX_NODE_BYTES: Final = MAX_ENTRIES * (
    MAX_KEY_BYTES + 128
)  # an entry has 110 bytes beside the key, and a link
# An entry has 11 values, keys and a link's tag among them, in 54 bytes and more; links to children come with
# 40 bytes and one value more.
BYTES_AN_ITEM: Final = 4
MIN_ITEMS: Final = 1_000  # nodes of fewer bytes are not worth counting
EMPTY_NODE: Final = b"\xa2\x61e\x80\x61l\xf6"
EMPTY_TREE: Final = cid_of(EMPTY_NODE)

_KEY = re.compile(rb"[A-Za-z0-9_~.:-]+/[A-Za-z0-9_~.:-]+")
_ZERO_PAIRS: Final = bytes((8 - number.bit_length()) // 2 for number in range(256))
_LINK_HEAD: Final = b"\xd8\x2a\x58\x25\x00"  # tag 42, 37 bytes, the identity multibase
_NULL: Final = b"\xf6"
_CIDS: Final = (DAG_CBOR_PREFIX, RAW_PREFIX)
_sha256 = hashlib.sha256


class _Cid(bytes):
    """A link inside a node; a type of its own, to be told from bytes, and quicker to make than `Link`."""

    __slots__ = ()


def _head(kind: int, number: int) -> bytes:
    if number < 24:
        return bytes((kind | number,))
    if number < 0x100:
        return bytes((kind | 24, number))
    if number < 0x10000:
        return bytes((kind | 25, number >> 8, number & 0xFF))
    return bytes((kind | 26,)) + number.to_bytes(4, "big")


# The fields of an entry up to its variable parts, by the length of the key's rest and by the shared length.
_REST_HEAD: Final = [b"\xa4\x61k" + _head(0x40, length) for length in range(MAX_KEY_BYTES + 1)]
_SHARED: Final = [b"\x61p" + _head(0x00, length) + b"\x61t" for length in range(MAX_KEY_BYTES + 1)]
_VALUE_HEAD: Final = b"\x61v" + _LINK_HEAD


@dataclass(slots=True)
class Entries:
    """The content of one node: `children` has one place more than `keys` (before, between and after them)."""

    keys: list[bytes]
    values: list[bytes]
    children: list[bytes | None]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One record of a tree."""

    collection: str
    rkey: str
    cid: bytes


def key_height(key: bytes) -> int:
    """Count the leading pairs of zero bits of the key's SHA-256."""
    height = 0
    for byte in hashlib.sha256(key).digest():
        height += _ZERO_PAIRS[byte]
        if byte:
            break
    return height


def decode_node(block: bytes) -> Entries:
    """Read one node, checking all that one node can show; raise `Rejected` (`bad-node`)."""
    if len(block) > MAX_NODE_BYTES:
        raise Rejected("bad-node", f"a node of {len(block):,} bytes, at most {MAX_NODE_BYTES:,}")
    try:
        refuse_crowds(block, MIN_ITEMS + len(block) // BYTES_AN_ITEM)
        node = cbrrr.decode_dag_cbor(block, cid_ctor=_Cid)
    except (InvalidData, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise Rejected("bad-node", f"not DAG-CBOR: {str(error)[:200]}") from None
    if type(node) is not dict or len(node) != 2 or "e" not in node or "l" not in node:
        raise Rejected("bad-node", "not a map of e and l")
    entries = node["e"]
    if type(entries) is not list:
        raise Rejected("bad-node", "the entries are not a list")
    if len(entries) > MAX_ENTRIES:
        raise Rejected("bad-node", f"a node of {len(entries):,} entries, at most {MAX_ENTRIES:,}")
    keys: list[bytes] = []
    values: list[bytes] = []
    children: list[bytes | None] = [_child(node["l"])]
    previous = b""
    for entry in entries:
        if type(entry) is not dict or len(entry) != 4:
            raise Rejected("bad-node", "an entry that is not a map of four")
        try:
            rest, shared, value, child = entry["k"], entry["p"], entry["v"], entry["t"]
        except KeyError:
            raise Rejected("bad-node", "an entry without k, p, v or t") from None
        if type(rest) is not bytes or type(shared) is not int or type(value) is not _Cid:
            raise Rejected("bad-node", "an entry with a field of the wrong type")
        if not 0 <= shared <= len(previous):
            raise Rejected("bad-node", "a prefix longer than the key before")
        if keys and (not rest or (shared < len(previous) and rest[0] <= previous[shared])):
            raise Rejected("bad-node", "keys that do not ascend, or a prefix that is not the longest")
        key = previous[:shared] + rest
        if len(key) > MAX_KEY_BYTES or not _KEY.fullmatch(key):
            raise Rejected("bad-node", "a key that is not a path of a record")
        if len(value) != CID_BYTES or value[:4] not in _CIDS:
            raise Rejected("bad-node", "a value that is not a CID of the data model")
        keys.append(key)
        values.append(value)
        children.append(None if child is None else _child(child))
        previous = key
    return Entries(keys, values, children)


def encode_node(keys: list[bytes], values: list[bytes], children: list[bytes | None]) -> bytes:
    """Write one node in its only form."""
    parts = [b"\xa2\x61e", _head(0x80, len(keys))]
    previous = b""
    for key, value, child in zip(keys, values, children[1:], strict=True):
        shared = _shared(previous, key)
        rest = key[shared:]
        parts += (
            _REST_HEAD[len(rest)],
            rest,
            _SHARED[shared],
            _NULL if child is None else _LINK_HEAD + child,
            _VALUE_HEAD,
            value,
        )
        previous = key
    first = children[0]
    parts += (b"\x61l", _NULL if first is None else _LINK_HEAD + first)
    return b"".join(parts)


def check_heights(keys: list[bytes], height: int) -> None:
    """Raise `Rejected` (`bad-node`) unless every key has this height."""
    for key in keys:
        first = _sha256(key).digest()[0]
        if (_ZERO_PAIRS[first] if first else key_height(key)) != height:
            raise Rejected("bad-node", "a key that is not of its node's height")


def walk(root: bytes, block_of: Callable[[bytes], bytes | None]) -> Iterator[Leaf]:
    """Walk a whole tree in order of keys, checking every rule.

    `block_of` gives the bytes of a node that hash to the CID it is asked for, so that a cycle cannot be;
    depth is bounded by the heights, which fall with every step. Raises `Rejected` (`bad-node`, `missing-
    block`).
    """
    top = _node(root, block_of)
    if not top.keys:
        if top.children[0] is not None:
            raise Rejected("bad-node", "a root without keys")
        return
    last = b""
    stack: list[tuple[Entries, int, int]] = []  # node, its height, the next place in it
    node, height, place = top, key_height(top.keys[0]), 0
    check_heights(top.keys, height)
    while True:
        child = node.children[place]
        if child is not None:
            if height == 0:
                raise Rejected("bad-node", "a child below the lowest height")
            stack.append((node, height, place))
            node, height, place = _node(child, block_of), height - 1, 0
            check_heights(node.keys, height)
            if not node.keys and node.children[0] is None:
                raise Rejected("bad-node", "an empty node inside a tree")
            continue
        while place == len(node.keys):
            if not stack:
                return
            node, height, place = stack.pop()
        key = node.keys[place]
        if key <= last:
            raise Rejected("bad-node", "keys that do not ascend across the tree")
        last = key
        collection, _, rkey = key.decode("ascii").partition("/")
        yield Leaf(collection, rkey, node.values[place])
        place += 1


def _node(cid: bytes, block_of: Callable[[bytes], bytes | None]) -> Entries:
    block = block_of(cid)
    if block is None:
        raise Rejected("missing-block", f"no node {Link(cid)}")
    return decode_node(block)


def _child(link: object) -> bytes | None:
    if link is None:
        return None
    if type(link) is not _Cid or len(link) != CID_BYTES or link[:4] != DAG_CBOR_PREFIX:
        raise Rejected("bad-node", "a child that is not a link to a node")
    return link


def _shared(left: bytes, right: bytes) -> int:
    end = min(len(left), len(right))
    unlike = int.from_bytes(left[:end], "big") ^ int.from_bytes(right[:end], "big")
    return end - (unlike.bit_length() + 7) // 8
