"""MST inversion: from a commit's partial tree and its operations back to the tree before it.

A commit carries the nodes on the paths of what it changed. Undoing the operations there, last first, must
give exactly the root that the repo had before. Then the operations are all that changed, and the tree before
is the one we hold, so that nothing was left out and nothing put in.

`PartialTree` holds nodes that are read when they are needed; a subtree that is not there is its CID alone,
and whatever would need to look inside is refused. Every node read is checked as `mst` has it: form, order,
bounds, heights.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from appview.ingest.errors import Rejected
from appview.ingest.mst import EMPTY_TREE, check_heights, decode_node, encode_node, key_height
from lexicons.data import Link, cid_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appview.ingest.frames import RepoOp


class _Node:
    """A node that was read or made; `cid` is None once it or what is below it has changed. `read` is what it
    was read from, its bytes and its children's CIDs, None once its own keys or values have changed."""

    __slots__ = ("children", "cid", "height", "keys", "read", "values")

    def __init__(
        self,
        height: int,
        keys: list[bytes],
        values: list[bytes],
        children: list[_Node | bytes | None],
        cid: bytes | None = None,
        read: tuple[bytes, list[bytes | None]] | None = None,
    ) -> None:
        self.height = height
        self.keys = keys
        self.values = values
        self.children = children
        self.cid = cid
        self.read = read


_Child = _Node | bytes | None


class PartialTree:
    """A tree of which some nodes are at hand. Its errors are `Rejected`."""

    def __init__(self, root: bytes, blocks: Mapping[bytes, bytes]) -> None:
        self._blocks = blocks
        self._root: _Node | bytes | None = None if root == EMPTY_TREE else root

    def undo(self, op: RepoOp) -> None:
        """Undo one operation."""
        key = op.path.encode()
        if op.action == "create":
            self._remove(key, op.cid)
        elif op.action == "update":
            if op.prev is None:
                raise Rejected("no-prev", f"an update of {op.path[:100]} without the CID before")
            self._replace(key, op.cid, op.prev)
        elif op.action == "delete":
            if op.prev is None:
                raise Rejected("no-prev", f"a delete of {op.path[:100]} without the CID before")
            self._insert(key, op.prev)
        else:
            raise Rejected("bad-op", f"the unknown action {op.action[:40]!r}")

    def root(self) -> bytes:
        """Compute the root's CID."""
        return EMPTY_TREE if self._root is None else _seal(self._root)

    def find(self, key: bytes) -> bytes | None:
        """Find the CID of a key's record, None where the tree has no such key."""
        node, low, high = self._top(), b"", b""
        while node is not None:
            at = bisect_left(node.keys, key)
            if at < len(node.keys) and node.keys[at] == key:
                return node.values[at]
            node, low, high = self._child(node, at, low, high)
        return None

    def _read(self, cid: bytes, height: int | None, low: bytes, high: bytes) -> _Node:
        """Read a node of this height (None: the root), keys between `low` and `high` (empty: open)."""
        block = self._blocks.get(cid)
        if block is None:
            raise Rejected("missing-block", f"no node {Link(cid)}")
        entries = decode_node(block)
        keys = entries.keys
        if not keys and entries.children[0] is None:
            raise Rejected("bad-node", "an empty node inside a tree")
        if height is None:
            if not keys:
                raise Rejected("bad-node", "a root without keys")
            height = key_height(keys[0])
        if height < 0 or (height == 0 and entries.children.count(None) < len(entries.children)):
            raise Rejected("bad-node", "a child below the lowest height")
        check_heights(keys, height)
        if keys and (keys[0] <= low or (high and keys[-1] >= high)):
            raise Rejected("bad-node", "keys that do not ascend across the tree")
        return _Node(
            height, keys, entries.values, list(entries.children), cid, read=(block, entries.children)
        )

    def _child(self, node: _Node, at: int, low: bytes, high: bytes) -> tuple[_Node | None, bytes, bytes]:
        """Load the child at a place, if there is one. Returns (child, its lower bound, its upper bound)."""
        return (None, low, high) if node.children[at] is None else self._below(node, at, low, high)

    def _below(self, node: _Node, at: int, low: bytes, high: bytes) -> tuple[_Node, bytes, bytes]:
        """Load the child that is there."""
        low = node.keys[at - 1] if at else low
        high = node.keys[at] if at < len(node.keys) else high
        child = node.children[at]
        if not isinstance(child, _Node):
            child = node.children[at] = self._read(child or b"", node.height - 1, low, high)
        return child, low, high

    def _top(self) -> _Node | None:
        """Load the root, once something asks for more than its CID."""
        if isinstance(self._root, bytes):
            self._root = self._read(self._root, None, b"", b"")
        return self._root

    def _path(self, key: bytes) -> tuple[list[tuple[_Node, int]], tuple[bytes, bytes]]:
        """Descend to the node that holds `key`. Returns (nodes and places, the last one's bounds)."""
        path: list[tuple[_Node, int]] = []
        low, high = b"", b""
        node = self._top()
        while node is not None:
            at = bisect_left(node.keys, key)
            path.append((node, at))
            if at < len(node.keys) and node.keys[at] == key:
                return path, (low, high)
            node, low, high = self._child(node, at, low, high)
        raise Rejected("op-mismatch", f"{key[:100]!r} is not in the tree")

    def _replace(self, key: bytes, cid: bytes | None, prev: bytes) -> None:
        path, _ = self._path(key)
        node, at = path[-1]
        if node.values[at] != cid:
            raise Rejected("op-mismatch", f"{key[:100]!r} has another CID in the tree")
        node.values[at] = prev
        node.read = None
        for each, _ in path:
            each.cid = None

    def _remove(self, key: bytes, cid: bytes | None) -> None:
        path, (low, high) = self._path(key)
        node, at = path[-1]
        if node.values[at] != cid:
            raise Rejected("op-mismatch", f"{key[:100]!r} has another CID in the tree")
        before, after = node.children[at], node.children[at + 1]
        joined: _Child
        if before is None or after is None:
            joined = before if after is None else after
        else:
            left, _, _ = self._below(node, at, low, high)
            right, _, _ = self._below(node, at + 1, low, high)
            lower = node.keys[at - 1] if at else low
            upper = node.keys[at + 1] if at + 1 < len(node.keys) else high
            joined = self._merge(left, right, lower, key, upper)
        del node.keys[at], node.values[at]
        node.read = None
        node.children[at : at + 2] = [joined]
        self._prune(path)
        self._trim()

    def _prune(self, path: list[tuple[_Node, int]]) -> None:
        """Mark a path as changed, and take away the nodes at its end that hold nothing any more."""
        for index in range(len(path) - 1, -1, -1):
            node, _ = path[index]
            node.cid = None
            if not node.keys and node.children[0] is None:
                if index:
                    parent, place = path[index - 1]
                    parent.children[place] = None
                else:
                    self._root = None

    def _trim(self) -> None:
        """Take away nodes without keys from the top."""
        while isinstance(self._root, _Node) and not self._root.keys:
            child = self._root.children[0]
            if isinstance(child, bytes) and child in self._blocks:
                child = self._read(child, self._root.height - 1, b"", b"")
            self._root = child

    def _merge(self, left: _Node, right: _Node, low: bytes, middle: bytes, high: bytes) -> _Node:
        """Join two nodes of one height, between which `middle` stood."""
        inner_left, inner_right = left.children[-1], right.children[0]
        joined: _Child
        if inner_left is None or inner_right is None:
            joined = inner_left if inner_right is None else inner_right
        else:
            left_child, low, _ = self._below(left, len(left.keys), low, middle)
            right_child, _, high = self._below(right, 0, middle, high)
            joined = self._merge(left_child, right_child, low, middle, high)
        return _Node(
            left.height,
            left.keys + right.keys,
            left.values + right.values,
            [*left.children[:-1], joined, *right.children[1:]],
        )

    def _insert(self, key: bytes, value: bytes) -> None:
        height = key_height(key)
        root = self._top()
        if root is None:
            self._root = _Node(height, [key], [value], [None, None])
            return
        if height > root.height:
            left, right = self._split(root, key, b"", b"")
            self._root = _Node(height, [key], [value], [_lift(left, height - 1), _lift(right, height - 1)])
            return
        node, low, high = root, b"", b""
        while True:
            node.cid = None
            at = bisect_left(node.keys, key)
            if at < len(node.keys) and node.keys[at] == key:
                raise Rejected("op-mismatch", f"{key[:100]!r} is in the tree, yet said to be deleted")
            child, below, above = self._child(node, at, low, high)
            if node.height == height:
                left, right = (None, None) if child is None else self._split(child, key, below, above)
                node.read = None
                node.keys.insert(at, key)
                node.values.insert(at, value)
                node.children[at : at + 1] = [left, right]
                return
            if child is None:
                node.children[at] = _lift(_Node(height, [key], [value], [None, None]), node.height - 1)
                return
            node, low, high = child, below, above

    def _split(self, node: _Node, key: bytes, low: bytes, high: bytes) -> tuple[_Node | None, _Node | None]:
        at = bisect_left(node.keys, key)
        if at < len(node.keys) and node.keys[at] == key:
            raise Rejected("op-mismatch", f"{key[:100]!r} is in the tree, yet said to be deleted")
        left: _Node | None = None
        right: _Node | None = None
        child, low, high = self._child(node, at, low, high)
        if child is not None:
            left, right = self._split(child, key, low, high)
        before = _Node(node.height, node.keys[:at], node.values[:at], [*node.children[:at], left])
        after = _Node(node.height, node.keys[at:], node.values[at:], [right, *node.children[at + 1 :]])
        return _unless_bare(before), _unless_bare(after)


def invert(data: bytes, blocks: Mapping[bytes, bytes], ops: Sequence[RepoOp]) -> bytes:
    """Undo `ops`, last first, on the tree `data`; return the root before them.

    Raises `Rejected` (`bad-node`, `missing-block`, `op-mismatch`, `bad-op`, `no-prev`).
    """
    tree = PartialTree(data, blocks)
    for op in reversed(ops):
        tree.undo(op)
    return tree.root()


def _unless_bare(node: _Node) -> _Node | None:
    return node if node.keys or node.children[0] is not None else None


def _lift(node: _Node | None, height: int) -> _Node | None:
    while node is not None and node.height < height:
        node = _Node(node.height + 1, [], [], [node])
    return node


def _seal(node: _Node | bytes) -> bytes:
    if not isinstance(node, _Node):
        return node
    if node.cid is None:
        node.cid = cid_of(_respelled(node) or _spelled(node))
    return node.cid


def _spelled(node: _Node) -> bytes:
    children = [None if child is None else _seal(child) for child in node.children]
    return encode_node(node.keys, node.values, children)


def _respelled(node: _Node) -> bytes | None:
    """Write a node by putting one child's CID in place of another's in what was read, as it mostly is; None
    where that does not do. A node is read in its only form, so this is what `_spelled` gives."""
    if node.read is None:
        return None
    block, before = node.read
    exchanged: tuple[bytes, bytes] | None = None
    for old, child in zip(before, node.children, strict=True):
        if child is old:
            continue
        if old is None or child is None or exchanged is not None:
            return None
        exchanged = (old, _seal(child))
    if exchanged is None:
        return block
    return block.replace(*exchanged) if block.count(exchanged[0]) == 1 else None
