"""Merkle search trees, twice: built whole from a mapping (slow and obvious), and changed in place.

Source: the repository page of atproto.com/specs. A key's height is the number of leading pairs of zero bits
of its SHA-256 (fanout 4). Nothing of the product is imported: these trees are what its verification is
measured against.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from tests.network.synthetic.blocks import CID, block_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def height(key: str) -> int:
    """Count the leading pairs of zero bits of the key's SHA-256."""
    number = int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")
    return (256 - number.bit_length()) // 2


def encode_node(keys: list[str], values: list[bytes], children: list[bytes | None]) -> tuple[bytes, bytes]:
    """Encode one node; `children` has one place more than `keys`. Returns (CID, block)."""
    entries: list[dict[str, Any]] = []
    previous = b""
    for key, value, child in zip(keys, values, children[1:], strict=True):
        name = key.encode()
        shared = 0
        for left, right in zip(previous, name, strict=False):
            if left != right:
                break
            shared += 1
        entries.append(
            {"k": name[shared:], "p": shared, "t": None if child is None else CID(child), "v": CID(value)}
        )
        previous = name
    return block_of({"e": entries, "l": None if children[0] is None else CID(children[0])})


def build(items: Mapping[str, bytes]) -> tuple[bytes, dict[bytes, bytes]]:
    """Build the whole tree of a mapping from path to CID. Returns (root CID, blocks)."""
    blocks: dict[bytes, bytes] = {}

    def subtree(keys: list[str], level: int) -> bytes | None:
        if not keys or level < 0:
            return None
        here = [key for key in keys if height(key) == level]
        children, start = [], 0
        for key in here:
            at = keys.index(key)
            children.append(subtree(keys[start:at], level - 1))
            start = at + 1
        children.append(subtree(keys[start:], level - 1))
        cid, block = encode_node(here, [items[key] for key in here], children)
        blocks[cid] = block
        return cid

    ordered = sorted(items, key=str.encode)
    root = subtree(ordered, max(map(height, ordered))) if ordered else None
    if root is None:
        root, block = encode_node([], [], [None])
        blocks[root] = block
    return root, blocks


class Node:
    """One node; `cid` and `block` are None from a change until the tree is sealed."""

    __slots__ = ("block", "children", "cid", "height", "keys", "values")

    def __init__(self, level: int, keys: list[str], values: list[bytes], children: list[Node | None]) -> None:
        self.height = level
        self.keys = keys
        self.values = values
        self.children = children
        self.cid: bytes | None = None
        self.block: bytes = b""


class Tree:
    """A tree changed in place: each change costs the nodes on one path."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self._heights: dict[str, int] = {}

    def put(self, key: str, value: bytes) -> None:
        """Set a key's value."""
        level = height(key)
        root = self.root
        if root is None:
            self.root = Node(level, [key], [value], [None, None])
        elif level > root.height:
            left, right = _split(root, key)
            top = level - 1
            self.root = Node(level, [key], [value], [_lift(left, top), _lift(right, top)])
        else:
            _put(root, key, value, level)

    def delete(self, key: str) -> None:
        """Remove a key that is there."""
        assert self.root is not None
        _delete(self.root, key)
        while self.root is not None and not self.root.keys:
            self.root = self.root.children[0]

    def seal(self) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """Encode what changed. Returns (root CID, new blocks)."""
        fresh: list[tuple[bytes, bytes]] = []
        if self.root is None:
            cid, block = encode_node([], [], [None])
            return cid, [(cid, block)]
        return _seal(self.root, fresh), fresh

    def proof(self, key: str) -> dict[bytes, bytes]:
        """Collect the blocks that let a reader undo a change of `key`: its path, and both flanks if present.

        The tree must be sealed.
        """
        found: dict[bytes, bytes] = {}
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node is None:
                continue
            assert node.cid is not None
            found[node.cid] = node.block
            at = bisect_left(node.keys, key)
            stack.append(node.children[at])
            if at < len(node.keys) and node.keys[at] == key:
                stack.append(node.children[at + 1])
        return found

    def blocks(self) -> Iterator[tuple[bytes, bytes]]:
        """Walk the blocks of a sealed tree, parents first."""
        if self.root is None:
            yield encode_node([], [], [None])
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node is not None:
                assert node.cid is not None
                yield node.cid, node.block
                stack.extend(reversed(node.children))


def _lift(node: Node | None, level: int) -> Node | None:
    while node is not None and node.height < level:
        node = Node(node.height + 1, [], [], [node])
    return node


def _put(node: Node, key: str, value: bytes, level: int) -> None:
    while True:
        node.cid = None
        at = bisect_left(node.keys, key)
        if node.height == level:
            if at < len(node.keys) and node.keys[at] == key:
                node.values[at] = value
                return
            left, right = _split(node.children[at], key)
            node.keys.insert(at, key)
            node.values.insert(at, value)
            node.children[at : at + 1] = [left, right]
            return
        child = node.children[at]
        if child is None:
            node.children[at] = _lift(Node(level, [key], [value], [None, None]), node.height - 1)
            return
        node = child


def _split(node: Node | None, key: str) -> tuple[Node | None, Node | None]:
    if node is None:
        return None, None
    at = bisect_left(node.keys, key)
    left, right = _split(node.children[at], key)
    before = Node(node.height, node.keys[:at], node.values[:at], [*node.children[:at], left])
    after = Node(node.height, node.keys[at:], node.values[at:], [right, *node.children[at + 1 :]])
    return _unless_bare(before), _unless_bare(after)


def _unless_bare(node: Node) -> Node | None:
    return node if node.keys or node.children[0] is not None else None


def _delete(node: Node, key: str) -> None:
    node.cid = None
    at = bisect_left(node.keys, key)
    if at < len(node.keys) and node.keys[at] == key:
        joined = _merge(node.children[at], node.children[at + 1])
        del node.keys[at], node.values[at]
        node.children[at : at + 2] = [joined]
        return
    child = node.children[at]
    assert child is not None, f"{key} is not in the tree"
    _delete(child, key)
    node.children[at] = _unless_bare(child)


def _merge(left: Node | None, right: Node | None) -> Node | None:
    if left is None or right is None:
        return left if right is None else right
    joined = _merge(left.children[-1], right.children[0])
    return Node(
        left.height,
        left.keys + right.keys,
        left.values + right.values,
        [*left.children[:-1], joined, *right.children[1:]],
    )


def _seal(node: Node, fresh: list[tuple[bytes, bytes]]) -> bytes:
    if node.cid is None:
        children = [None if child is None else _seal(child, fresh) for child in node.children]
        node.cid, node.block = encode_node(node.keys, node.values, children)
        fresh.append((node.cid, node.block))
    return node.cid
