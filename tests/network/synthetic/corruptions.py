"""What a hostile or broken host does to a commit, each by name.

`CORRUPTIONS[name](draft)` changes a draft in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.network.synthetic.blocks import CID, block_of, car, cid_of, encode, varint
from tests.network.synthetic.keys import K256, P256
from tests.network.synthetic.mst import height
from tests.network.synthetic.repos import Draft, tid

if TYPE_CHECKING:
    from collections.abc import Callable


def _resign(draft: Draft, **fields: Any) -> None:
    for name, value in fields.items():
        draft.unsigned[name] = value
    draft.signature = draft.account.key.sign(encode(draft.unsigned))


def wrong_key(draft: Draft) -> None:
    """Sign with a key that is not the account's."""
    other = K256() if draft.account.key.curve == "k256" else P256()
    draft.signature = other.sign(encode(draft.unsigned))


def flipped_signature(draft: Draft) -> None:
    """Flip one bit of the signature."""
    assert draft.signature is not None
    draft.signature = draft.signature[:-1] + bytes([draft.signature[-1] ^ 1])


def high_s(draft: Draft) -> None:
    """Sign with the high S."""
    draft.signature = draft.account.key.sign_high_s(encode(draft.unsigned))


def short_signature(draft: Draft) -> None:
    """Cut the signature."""
    assert draft.signature is not None
    draft.signature = draft.signature[:63]


def der_signature(draft: Draft) -> None:
    """Make the signature as long as a DER one."""
    assert draft.signature is not None
    draft.signature = b"\x30\x44\x02\x20" + draft.signature[:32] + b"\x02\x20" + draft.signature[32:]


def zero_signature(draft: Draft) -> None:
    """Sign with zeros."""
    draft.signature = bytes(64)


def bad_record_hash(draft: Draft) -> None:
    """Ship other bytes under the record's CID."""
    cid = next(iter(draft.record_blocks))
    draft.replace[cid] = draft.record_blocks[cid][:-1] + b"\x00"


def bad_node_hash(draft: Draft) -> None:
    """Ship other bytes under the root's CID."""
    draft.replace[draft.unsigned["data"].cid_bytes] = encode({"e": [], "l": None})


def bad_commit_hash(draft: Draft) -> None:
    """Ship another commit object under the commit's CID."""
    cid, _ = draft.commit_block()
    draft.replace[cid] = encode(draft.unsigned | {"sig": bytes(64)})


def missing_record(draft: Draft) -> None:
    """Leave the record's block out."""
    draft.drop.update(draft.record_blocks)


def missing_root(draft: Draft) -> None:
    """Leave the root of the tree out."""
    draft.drop.add(draft.unsigned["data"].cid_bytes)


def missing_commit(draft: Draft) -> None:
    """Leave the commit object out."""
    draft.drop.add(draft.commit_block()[0])


def other_did(draft: Draft) -> None:
    """Sign a commit that names another account."""
    _resign(draft, did="did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")


def other_repo(draft: Draft) -> None:
    """Name another account in the frame."""
    draft.body["repo"] = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"


def other_rev(draft: Draft) -> None:
    """Name another rev in the frame."""
    draft.body["rev"] = draft.account.next_rev()


def future_rev(draft: Draft) -> None:
    """Sign a rev a year ahead, which would freeze the repo."""
    rev = tid(draft.account._micros + 365 * 86_400_000_000)
    _resign(draft, rev=rev)
    draft.body["rev"] = rev


def malformed_rev(draft: Draft) -> None:
    """Sign a rev that is not a TID."""
    _resign(draft, rev="9999999999999")
    draft.body["rev"] = "9999999999999"


def too_big(draft: Draft) -> None:
    """Say that the commit was too big to be sent."""
    draft.body["tooBig"] = True


def rebase(draft: Draft) -> None:
    """Say that history was rewritten."""
    draft.body["rebase"] = True


def old_version(draft: Draft) -> None:
    """Sign a commit of version 1."""
    _resign(draft, version=1)


def wrong_root(draft: Draft) -> None:
    """Name a block as the CAR's root that is not the commit."""
    draft.roots = [draft.unsigned["data"].cid_bytes]


def no_root(draft: Draft) -> None:
    """Name no root in the CAR."""
    draft.roots = []


def op_with_other_cid(draft: Draft) -> None:
    """Say in the op that the record is another block, which is shipped too."""
    cid, block = block_of({"$type": "garden.engram.memory", "text": "not what was signed"})
    draft.ops[0]["cid"] = CID(cid)
    draft.extra_blocks.append((cid, block))


def op_for_other_path(draft: Draft) -> None:
    """Say in the op that another record changed."""
    draft.ops[0]["path"] = draft.ops[0]["path"] + "x"


def delete_of_present(draft: Draft) -> None:
    """Say that a record was deleted which is still in the tree."""
    draft.ops[0] = {
        "action": "delete",
        "path": draft.ops[0]["path"],
        "cid": None,
        "prev": draft.ops[0]["cid"],
    }


def hidden_op(draft: Draft) -> None:
    """Keep quiet about the change."""
    draft.ops.clear()


def other_prev_data(draft: Draft) -> None:
    """Claim to start from another tree."""
    draft.body["prevData"] = CID(cid_of(b"elsewhere"))


def no_prev_data(draft: Draft) -> None:
    """Leave prevData out, as hosts before Sync 1.1 do."""
    draft.body.pop("prevData", None)


def truncated_car(draft: Draft) -> None:
    """Cut the CAR in the middle of its last block."""
    _car_of(draft, lambda data: data[:-5])


def garbage_car(draft: Draft) -> None:
    """Ship something that is no CAR."""
    draft.blocks = b"\xff" * 100


def empty_car(draft: Draft) -> None:
    """Ship nothing, as tooBig commits do."""
    draft.blocks = b""


def lying_length(draft: Draft) -> None:
    """Claim a block of 10 GB."""
    _car_of(draft, lambda data: data + varint(10_000_000_000) + b"x")


def other_codec(draft: Draft) -> None:
    """Add a block under a CID of version 0."""
    _car_of(draft, lambda data: data + varint(34 + 3) + b"\x12\x20" + bytes(32) + b"abc")


def bad_record_path(draft: Draft) -> None:
    """Name a path that is not a collection and a record key."""
    draft.ops[0]["path"] = "garden.engram.memory/../../etc"


def unknown_action(draft: Draft) -> None:
    """Do something to a record that the protocol does not know."""
    draft.ops[0]["action"] = "transmute"


def too_many_ops(draft: Draft) -> None:
    """Repeat an op beyond 200."""
    draft.ops[:] = draft.ops * 201


def unsorted_node(draft: Draft) -> None:
    """Sign a tree whose root has its entries out of order."""
    _sign_tree(draft, [("x/b", 0), ("x/a", 0)])


def duplicate_keys(draft: Draft) -> None:
    """Sign a tree whose root has one key twice."""
    _sign_tree(draft, [("x/a", 0), ("x/a", 0)])


def wrong_prefix(draft: Draft) -> None:
    """Sign a tree with a prefix longer than the key before."""
    _sign_tree(draft, [("x/a", 0), ("x/b", 200)])


def wrong_height(draft: Draft) -> None:
    """Sign a tree whose root holds keys of different heights."""
    _sign_tree(
        draft, [(draft.ops[0]["path"], 0), (draft.ops[0]["path"] + "y", 0)], honest_prefix=True, odd=True
    )


def cyclic_link(draft: Draft) -> None:
    """Ship a node under a CID that it links to itself; no such node can hash right."""
    cid = cid_of(b"cycle")
    block = encode({"e": [], "l": CID(cid)})
    draft.extra_blocks.append((cid, block))
    _resign(draft, data=CID(cid))


def _car_of(draft: Draft, change: Callable[[bytes], bytes]) -> None:
    cid, block = draft.commit_block()
    data = car([cid], [(cid, block), *draft.tree_blocks.items(), *draft.record_blocks.items()])
    draft.blocks = change(data)


def _sign_tree(
    draft: Draft, entries: list[tuple[str, int]], *, honest_prefix: bool = False, odd: bool = False
) -> None:
    value = next(iter(draft.record_blocks), cid_of(b"record"))
    if odd:  # look for a second key of another height, above the first
        first = entries[0][0]
        second = next(k for n in range(10_000) if height(k := f"{first}{n:04}") != height(first))
        entries = [(first, 0), (second, len(first) if honest_prefix else 0)]
    node = {
        "e": [
            {
                "k": key.encode()[shared if shared <= len(key) else 0 :],
                "p": shared,
                "t": None,
                "v": CID(value),
            }
            for key, shared in entries
        ],
        "l": None,
    }
    cid, block = block_of(node)
    draft.tree_blocks[cid] = block
    _resign(draft, data=CID(cid))


CORRUPTIONS: dict[str, Callable[[Draft], None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        wrong_key,
        flipped_signature,
        high_s,
        short_signature,
        der_signature,
        zero_signature,
        bad_record_hash,
        bad_node_hash,
        bad_commit_hash,
        missing_record,
        missing_root,
        missing_commit,
        other_did,
        other_repo,
        other_rev,
        future_rev,
        malformed_rev,
        too_big,
        rebase,
        old_version,
        wrong_root,
        no_root,
        op_with_other_cid,
        op_for_other_path,
        delete_of_present,
        hidden_op,
        other_prev_data,
        no_prev_data,
        truncated_car,
        garbage_car,
        empty_car,
        lying_length,
        other_codec,
        bad_record_path,
        unknown_action,
        too_many_ops,
        unsorted_node,
        duplicate_keys,
        wrong_prefix,
        wrong_height,
        cyclic_link,
    )
}
