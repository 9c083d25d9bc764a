"""Whole repos: honest, cut, lying, and larger than memory should be."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from appview.identity.keys import PublicKey
from appview.ingest.block_files import BlockFile
from appview.ingest.errors import Rejected
from appview.ingest.scratch import MEMORY_BYTES
from appview.ingest.snapshots import RepoReader, prove_repo
from lexicons.syntax import Did
from tests.network.synthetic import Account, Write, tid
from tests.network.synthetic import mst as trees
from tests.network.synthetic.blocks import CID, block_of, car, cid_of, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

MEMORY = "garden.engram.memory"
POST = "app.bsky.feed.post"
NOW = time.time_ns() // 1000 + 3_600_000_000  # later than any rev that is made here, however late that is


def planted(count: int = 60) -> Account:
    account = Account()
    account.draft(
        *(Write("create", MEMORY, f"m{number}", {"text": f"memory {number}"}) for number in range(count)),
        *(Write("create", POST, f"p{number}", {"text": f"post {number}"}) for number in range(count)),
    )
    return account


def key_of(account: Account) -> PublicKey:
    return PublicKey.from_did_key(account.key.did_key)


def reason(account: Account, data: bytes | Iterable[bytes], key: PublicKey | None = None) -> str:
    chunks = [data] if isinstance(data, bytes) else data
    with pytest.raises(Rejected) as caught:
        prove_repo(Did(account.did), key or key_of(account), chunks, NOW)
    return caught.value.reason


def signed_tree(account: Account, root: bytes, blocks: list[tuple[bytes, bytes]]) -> bytes:
    unsigned = {"did": account.did, "version": 3, "data": CID(root), "rev": account.rev, "prev": None}
    commit = block_of(unsigned | {"sig": account.key.sign(encode(unsigned))})
    return car([commit[0]], [commit, *blocks])


def test_a_repo_yields_its_records_in_order() -> None:
    account = planted()
    rev, data, records = prove_repo(Did(account.did), key_of(account), [account.export()], NOW)
    assert (rev, data) == (account.rev, account.data)
    assert [f"{each.collection}/{each.rkey}" for each in records] == sorted(account.records)
    assert all(each.record == account.record_blocks[each.cid] for each in records)


def test_only_the_wanted_collections_are_given_and_needed() -> None:
    account = planted()
    memories = {cid for path, cid in account.records.items() if path.startswith(MEMORY)}
    blocks = [
        (cid, block)
        for cid, block in account.export_blocks()
        if cid not in account.record_blocks or cid in memories
    ]
    data = car([blocks[0][0]], blocks)
    _, _, records = prove_repo(Did(account.did), key_of(account), [data], NOW, lambda name: name == MEMORY)
    assert {each.cid for each in records} == memories
    assert reason(account, data) == "missing-block"


def test_the_order_of_blocks_does_not_matter() -> None:
    account = planted()
    blocks = account.export_blocks()
    random.Random(5).shuffle(blocks)
    assert account.head is not None
    data = car([account.head[0]], blocks + blocks[:10])
    assert len(prove_repo(Did(account.did), key_of(account), [data], NOW)[2]) == len(account.records)


def test_an_empty_repo_has_no_records() -> None:
    account = Account()
    account.draft()
    assert prove_repo(Did(account.did), key_of(account), [account.export()], NOW)[2] == []


def test_a_trickle_gives_the_same_repo() -> None:
    account = planted(10)
    data = account.export()
    chunks = [data[index : index + 1] for index in range(len(data))]
    assert len(prove_repo(Did(account.did), key_of(account), chunks, NOW)[2]) == 20


def test_a_repo_that_is_cut_anywhere_is_refused() -> None:
    account = planted(3)
    data = account.export()
    reasons = {reason(account, data[:end]) for end in range(len(data))}
    assert reasons == {"malformed-car", "missing-block"}


def test_a_repo_of_someone_else_or_by_another_key_is_refused() -> None:
    account, other = planted(3), planted(3)
    assert reason(account, other.export()) == "did-mismatch"
    assert reason(account, account.export(), key_of(other)) == "bad-signature"


def test_a_rev_in_the_future_is_refused() -> None:
    account = Account()
    account.draft(Write("create", MEMORY, "one", {"text": "x"}), rev=tid(NOW + 3_600_000_000))
    assert reason(account, account.export()) == "future-rev"


def test_a_wrong_root_is_refused() -> None:
    account = planted(3)
    blocks = account.export_blocks()
    assert reason(account, car([blocks[1][0]], blocks)) == "bad-commit"
    assert reason(account, car([cid_of(b"nowhere")], blocks)) == "missing-block"


def test_blocks_that_nobody_names_are_ignored() -> None:
    account = planted(3)
    blocks = [*account.export_blocks(), *(block_of({"stray": number}) for number in range(100))]
    assert len(prove_repo(Did(account.did), key_of(account), [car([blocks[0][0]], blocks)], NOW)[2]) == 6


def test_a_false_tree_is_refused_though_it_is_signed() -> None:
    account = planted(1)
    value, record = block_of({"text": "x"})
    low = sorted(key for number in range(40) if trees.height(key := f"c/{number}") == 0)[:2]
    high = next(key for number in range(900) if trees.height(key := f"c/{number}") == 1)

    def tree(keys: list[str], children: list[bytes | None], *more: tuple[bytes, bytes]) -> bytes:
        node = trees.encode_node(keys, [value] * len(keys), children)
        return signed_tree(account, node[0], [node, (value, record), *more])

    child = trees.encode_node(low, [value] * 2, [None] * 3)
    assert reason(account, tree(low[::-1], [None] * 3)) == "bad-node"
    assert reason(account, tree([low[0], low[0]], [None] * 3)) == "bad-node"
    assert reason(account, tree(sorted([low[0], high]), [None] * 3)) == "bad-node"
    assert reason(account, tree([high], [child[0], child[0]], child)) == "bad-node"
    assert reason(account, tree([], [child[0]], child)) == "bad-node"
    assert reason(account, signed_tree(account, child[0], [])) == "missing-block"


def test_limits_hold_whatever_the_car_claims() -> None:
    account = planted(3)
    data = account.export()
    for limits in ({"max_bytes": len(data) - 1}, {"max_blocks": 3}):
        with RepoReader(Did(account.did), key_of(account), **limits) as reader:
            with pytest.raises(Rejected) as caught:
                reader.feed(data)
            assert caught.value.reason == "too-big"
    with RepoReader(Did(account.did), key_of(account), max_bytes=len(data)) as reader:
        reader.feed(data)
        assert reader.bytes_read == len(data)
        assert reader.finish(NOW).rev == account.rev


def test_blocks_beyond_memory_go_to_a_file_and_come_back() -> None:
    with BlockFile() as blocks:
        laid = [block_of({"n": number, "pad": bytes(100_000)}) for number in range(100)]
        assert sum(len(block) for _, block in laid) > MEMORY_BYTES
        blocks.add(laid)
        blocks.seal()
        assert len(blocks) == 100
        assert all(blocks.get(cid) == block for cid, block in laid)
        assert blocks.get(cid_of(b"absent")) is None


def test_blocks_that_share_the_indexed_prefix_are_told_apart() -> None:
    left, right = (b"\x01\x71\x12\x20" + b"same----" + bytes([end]) * 24 for end in (1, 2))
    with BlockFile() as blocks:
        blocks.add([(left, b"left"), (right, b"right")])
        blocks.seal()
        assert (blocks.get(left), blocks.get(right)) == (b"left", b"right")
        assert blocks.get(left[:12] + bytes(24)) is None
