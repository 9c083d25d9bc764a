"""Undoing operations on a partial tree, against the official proofs and against whole trees."""

from __future__ import annotations

from base64 import b32decode
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appview.ingest.errors import Rejected
from appview.ingest.frames import RepoOp
from appview.ingest.inversion import PartialTree, invert
from appview.ingest.mst import EMPTY_NODE, EMPTY_TREE, decode_node, encode_node
from tests.network.synthetic import mst as trees
from tests.network.synthetic.blocks import cid_of
from tests.shared_data import cases, read_json

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER = cid_of(b"another record")


def cid(text: str) -> bytes:
    return b32decode(text[1:].upper() + "=" * (-len(text[1:]) % 8))


def _proofs() -> list[Any]:
    proofs = read_json("interop/atproto/firehose/commit-proof-fixtures.json")
    return [pytest.param(case, id=case["comment"]) for case in proofs]


@pytest.mark.parametrize("case", cases(_proofs))
def test_the_official_proofs_invert(case: dict[str, Any]) -> None:
    value = cid(case["leafValue"])
    after = (set(case["keys"]) | set(case["adds"])) - set(case["dels"])
    root, blocks = trees.build(dict.fromkeys(after, value))
    assert root == cid(case["rootAfterCommit"])
    proof = {cid(text): blocks[cid(text)] for text in case["blocksInProof"]}
    ops = [RepoOp("create", key, value, None) for key in case["adds"]]
    ops += [RepoOp("delete", key, None, value) for key in case["dels"]]
    for order in (ops, ops[::-1]):
        assert invert(root, proof, order) == cid(case["rootBeforeCommit"])


def commit(
    before: dict[str, bytes], changes: list[tuple[str, bytes | None]]
) -> tuple[trees.Tree, dict[str, bytes], list[RepoOp]]:
    """Apply changes to a tree, as a host would. Returns (sealed tree, records, operations)."""
    tree, after, ops = trees.Tree(), dict(before), []
    for key, value in before.items():
        tree.put(key, value)
    tree.seal()
    for key, value in changes:
        prev = after.get(key)
        if value is not None:
            tree.put(key, value)
            after[key] = value
            ops.append(RepoOp("create" if prev is None else "update", key, value, prev))
        elif prev is not None:
            tree.delete(key)
            del after[key]
            ops.append(RepoOp("delete", key, None, prev))
    tree.seal()
    return tree, after, ops


paths = st.integers(0, 150).map(lambda number: f"c/{number}")
values = st.binary(min_size=1, max_size=2).map(cid_of)


@given(
    st.dictionaries(paths, values, max_size=60), st.lists(st.tuples(paths, values | st.none()), max_size=12)
)
@settings(max_examples=200, deadline=None)
def test_undoing_a_commit_gives_the_tree_before(
    before: dict[str, bytes], changes: list[tuple[str, bytes | None]]
) -> None:
    tree, after, ops = commit(before, changes)
    root, _ = tree.seal()
    assert root == trees.build(after)[0]
    proof: dict[bytes, bytes] = {}
    for op in ops:
        proof |= tree.proof(op.path)
    if root != EMPTY_TREE:
        assert tree.root is not None
        assert tree.root.cid is not None
        proof[tree.root.cid] = tree.root.block
    assert invert(root, proof, ops) == trees.build(before)[0]


def undone(after: dict[str, bytes], ops: list[RepoOp]) -> dict[str, bytes] | None:
    """Undo operations on a plain mapping: the slow, obvious way. None where they contradict it."""
    items = dict(after)
    for op in reversed(ops):
        if op.action == "delete":
            if op.path in items or op.prev is None:
                return None
        elif op.path not in items or items[op.path] != op.cid:
            return None
        items.pop(op.path, None)
        if op.action != "create":
            if op.prev is None:
                return None
            items[op.path] = op.prev
    return items


operations = st.builds(
    RepoOp, st.sampled_from(["create", "update", "delete"]), paths, values | st.none(), values | st.none()
)


@given(
    st.dictionaries(paths, values, max_size=40),
    st.lists(st.tuples(paths, values | st.none()), max_size=6),
    st.lists(st.tuples(st.integers(0, 5), operations), max_size=2),
    st.sets(st.integers(0, 5), max_size=1),
)
@settings(max_examples=300, deadline=None)
def test_whatever_operations_claim_the_answer_is_that_of_a_plain_mapping(
    before: dict[str, bytes],
    changes: list[tuple[str, bytes | None]],
    inserted: list[tuple[int, RepoOp]],
    left_out: set[int],
) -> None:
    _, after, ops = commit(before, changes)
    claimed = [op for index, op in enumerate(ops) if index not in left_out]
    for index, op in inserted:
        claimed.insert(index, op)
    root, blocks = trees.build(after)
    expected = undone(after, claimed)
    if expected is None:
        with pytest.raises(Rejected) as caught:
            invert(root, blocks, claimed)
        assert caught.value.reason in ("op-mismatch", "no-prev")
    else:
        assert invert(root, blocks, claimed) == trees.build(expected)[0]


def records(count: int) -> dict[str, bytes]:
    return {f"c/{number:04}": cid_of(str(number).encode()) for number in range(count)}


def test_a_key_that_is_created_and_deleted_in_one_commit_leaves_no_trace() -> None:
    before = records(30)
    _, after, ops = commit(before, [("c/new", OTHER), ("c/new", None)])
    assert after == before
    root, blocks = trees.build(before)
    assert invert(root, blocks, ops) == root


def test_what_a_proof_leaves_out_is_named() -> None:
    _, after, ops = commit(records(100), [("c/0050", None), ("c/new", OTHER)])
    root, blocks = trees.build(after)
    needed = 0
    for left_out in blocks:
        rest = {key: block for key, block in blocks.items() if key != left_out}
        try:
            assert invert(root, rest, ops) == trees.build(records(100))[0]
        except Rejected as error:
            assert error.reason == "missing-block"
            needed += 1
    assert 0 < needed < len(blocks)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (RepoOp("create", "c/0001", OTHER, None), "op-mismatch"),
        (RepoOp("create", "c/0001", None, None), "op-mismatch"),
        (RepoOp("create", "c/absent", OTHER, None), "op-mismatch"),
        (RepoOp("update", "c/0001", OTHER, OTHER), "op-mismatch"),
        (RepoOp("update", "c/0001", cid_of(b"1"), None), "no-prev"),
        (RepoOp("delete", "c/0001", None, OTHER), "op-mismatch"),
        (RepoOp("delete", "c/absent", None, None), "no-prev"),
        (RepoOp("transmute", "c/0001", OTHER, None), "bad-op"),
    ],
    ids=str,
)
def test_an_operation_that_the_tree_contradicts_is_refused(op: RepoOp, reason: str) -> None:
    root, blocks = trees.build(records(20))
    with pytest.raises(Rejected) as caught:
        invert(root, blocks, [op])
    assert caught.value.reason == reason


def test_every_key_is_found_and_no_other() -> None:
    items = records(80)
    root, blocks = trees.build(items)
    tree = PartialTree(root, blocks)
    for key, value in items.items():
        assert tree.find(key.encode()) == value
        assert tree.find(key.encode() + b"x") is None
    assert PartialTree(EMPTY_TREE, {}).find(b"c/1") is None


def test_a_tree_of_wrong_heights_is_refused() -> None:
    blocks: dict[bytes, bytes] = {}
    names = sorted(
        [
            next(k for k in records(900) if trees.height(k) == 0),
            next(k for k in records(900) if trees.height(k) == 1),
        ]
    )
    root, block = trees.encode_node(names, [OTHER, OTHER], [None, None, None])
    blocks[root] = block
    with pytest.raises(Rejected, match="height"):
        invert(root, blocks, [RepoOp("create", names[0], OTHER, None)])


def key_of_height(height: int, collection: str = "c") -> str:
    return next(key for n in range(9_000) if trees.height(key := f"{collection}/{n:04}") == height)


def put(blocks: dict[bytes, bytes], keys: list[str], children: list[bytes | None]) -> bytes:
    cid, block = trees.encode_node(keys, [OTHER] * len(keys), children)
    blocks[cid] = block
    return cid


@pytest.mark.parametrize(
    ("stray", "before", "sought"), [("z", True, b"c/0000"), ("a", False, b"d/0000")], ids=["above", "below"]
)
def test_keys_outside_their_parents_bounds_are_refused(stray: str, before: bool, sought: bytes) -> None:
    blocks: dict[bytes, bytes] = {}
    child = put(blocks, [key_of_height(0, stray)], [None, None])
    root = put(blocks, [key_of_height(1)], [child, None] if before else [None, child])
    with pytest.raises(Rejected, match="ascend"):
        PartialTree(root, blocks).find(sought)


LOWEST = key_of_height(0)


@pytest.mark.parametrize(
    "op",
    [
        RepoOp("create", LOWEST, OTHER, None),  # joins what lies on both sides
        RepoOp("delete", key_of_height(0, "a"), None, OTHER),  # goes in between
        RepoOp("delete", key_of_height(2, "a"), None, OTHER),  # goes on top, and parts what is there
        RepoOp("update", key_of_height(0, "a"), OTHER, OTHER),
    ],
    ids=["create", "delete", "delete-above", "update"],
)
def test_a_bomb_of_depth_in_a_proof_ends_at_the_lowest_height(op: RepoOp) -> None:
    blocks: dict[bytes, bytes] = {}
    chain = cid_of(b"nowhere")  # following it as far as it goes gives another error
    for _ in range(5_000):
        chain = put(blocks, [], [chain])
    root = put(blocks, [LOWEST], [chain, chain])
    with pytest.raises(Rejected, match="bad-node: a child below the lowest height"):
        invert(root, blocks, [op])


def test_a_proof_has_no_empty_node_inside_and_no_root_without_keys() -> None:
    blocks = {EMPTY_TREE: EMPTY_NODE}
    sought = key_of_height(0, "a").encode()
    hollow = put(blocks, [key_of_height(1)], [EMPTY_TREE, None])
    with pytest.raises(Rejected, match="bad-node: an empty node inside a tree"):
        PartialTree(hollow, blocks).find(sought)
    bare = put(blocks, [], [put(blocks, [LOWEST], [None, None])])
    with pytest.raises(Rejected, match="bad-node: a root without keys"):
        PartialTree(bare, blocks).find(sought)


LOW, HIGH = sorted(key for key in records(900) if trees.height(key) == 0)[::400][:2]
TOP = next(key for key in records(900) if trees.height(key) == 1 and LOW < key < HIGH)
Blocks = dict[bytes, bytes]


def node(blocks: Blocks, keys: list[str], *children: bytes | None) -> bytes:
    """Make a node with whatever is asked for."""
    root, block = trees.encode_node(keys, [OTHER] * len(keys), list(children))
    blocks[root] = block
    return root


def bomb(blocks: Blocks) -> bytes:
    child = node(blocks, [LOW], None, None)
    for _ in range(5_000):
        child = node(blocks, [], child)
    return node(blocks, [LOW], None, child)


HOSTILE: dict[str, tuple[Callable[[Blocks], bytes], str]] = {
    "a bomb of depth": (bomb, "below the lowest height"),
    "a child below a leaf": (
        lambda blocks: node(blocks, [LOW], None, node(blocks, [HIGH], None, None)),
        "below the lowest height",
    ),
    "an empty node": (lambda blocks: node(blocks, [TOP], None, node(blocks, [], None)), "empty node"),
    "keys below their place": (
        lambda blocks: node(blocks, [TOP], None, node(blocks, [LOW, HIGH], None, None, None)),
        "ascend",
    ),
    "a root without keys": (
        lambda blocks: node(blocks, [], node(blocks, [HIGH], None, None)),
        "root without keys",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tree_in_a_proof_is_refused_where_its_fault_is(name: str) -> None:
    make, told = HOSTILE[name]
    blocks: Blocks = {}
    root = make(blocks)
    for work in (
        lambda: PartialTree(root, blocks).find(HIGH.encode()),
        lambda: invert(root, blocks, [RepoOp("create", HIGH, OTHER, None)]),
        lambda: invert(root, blocks, [RepoOp("delete", HIGH + "x", None, OTHER)]),
    ):
        with pytest.raises(Rejected, match=told) as caught:
            work()
        assert caught.value.reason == "bad-node"


def test_a_record_with_the_cid_of_a_node_is_no_node() -> None:
    """Some bytes can be both. Only the place of the child is exchanged, not that of the record."""
    items = records(60)
    root, blocks = trees.build(items)
    top = decode_node(blocks[root])
    at, child = next((at, child) for at, child in enumerate(top.children) if child is not None)
    key = top.keys[at if at < len(top.keys) else at - 1].decode()
    changed = decode_node(blocks[child]).keys[0].decode()
    after = items | {key: child}
    root, blocks = trees.build(after)
    assert blocks[root].count(child) == 2
    assert (
        invert(root, blocks, [RepoOp("update", changed, items[changed], OTHER)])
        == (trees.build(after | {changed: OTHER})[0])
    )


@given(st.dictionaries(paths, values, min_size=1, max_size=40), st.data())
@settings(max_examples=200, deadline=None)
def test_a_node_is_read_in_its_only_form_alone(items: dict[str, bytes], draw: st.DataObject) -> None:
    _, blocks = trees.build(items)
    block = bytearray(draw.draw(st.sampled_from(sorted(blocks.values()))))
    for _ in range(draw.draw(st.integers(1, 3))):
        block[draw.draw(st.integers(0, len(block) - 1))] ^= draw.draw(st.integers(1, 255))
    try:
        node = decode_node(bytes(block))
    except Rejected:
        return
    assert encode_node(node.keys, node.values, node.children) == block
