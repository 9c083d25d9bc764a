"""Commits: from a claim to what is proven.

`prove_commit` accepts a `#commit` only if every one of these holds, and names the first that does not:
1. the host left nothing out (`too-big`, `rebase`), and the rev is not ahead of the clock (`future-rev`);
2. every block hashes to its CID, and the CAR's root is the commit (`malformed-car`, `bad-block-hash`, `bad-
commit`); 3. the signed commit names the message's account and rev (`did-mismatch`, `rev-mismatch`); 4. the
account's key signed it, in the low-S form (`bad-signature`, `high-s`); 5. undoing the operations on the
commit's tree gives `prevData` (`op-mismatch`, `bad-node`, `missing-block`, `no-prev`), or the empty tree for
a repo's first commit; 6. the record of every create and update that still stands is there (`missing-block`).

Records are left as bytes: a record that is not in order does not make its commit false.
Source: atproto.com/specs/repository and /sync (Sync 1.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import cbrrr

from appview.identity.errors import SignatureRefused
from appview.ingest.car import read_car
from appview.ingest.errors import Rejected
from appview.ingest.inversion import PartialTree, invert
from appview.ingest.mst import EMPTY_TREE
from lexicons.data import CID_BYTES, DAG_CBOR_PREFIX, Link, decode
from lexicons.errors import InvalidData, InvalidSyntax
from lexicons.syntax import Did, Nsid, RecordKey, Tid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appview.identity.keys import PublicKey
    from appview.ingest.frames import CommitEvent, RepoOp, SyncEvent

Action = Literal["create", "update", "delete"]

COMMIT_VERSION: Final = 3  # repository spec
MAX_COMMIT_BYTES: Final = 4_096  # ours: a commit object takes about 250
MAX_FUTURE: Final = 5 * 60 * 1_000_000  # microseconds, sync spec, a rev ahead of the clock


@dataclass(frozen=True, slots=True)
class SignedCommit:
    """A commit object whose signature holds. `data` is the root of the tree."""

    did: Did
    rev: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ProvenOp:
    """What a commit did to one record. `record` is the block's bytes, which hash to `cid`; None where it is
    gone. `prev` is its CID before the commit, None where it was not there; `action` the last of several."""

    action: Action
    collection: Nsid
    rkey: RecordKey
    cid: bytes | None
    record: bytes | None
    prev: bytes | None


@dataclass(frozen=True, slots=True)
class ProvenCommit:
    """What one commit did, proven. At most one operation a record: the last."""

    did: Did
    rev: str
    since: str | None
    data: bytes
    prev_data: bytes
    ops: tuple[ProvenOp, ...]


@dataclass(frozen=True, slots=True)
class ProvenRecord:
    """A record, or its absence (`cid` None), proven as of a rev."""

    did: Did
    rev: str
    cid: bytes | None
    record: bytes | None


def prove_commit(event: CommitEvent, key: PublicKey, now: int) -> ProvenCommit:
    """Prove a `#commit`; `now` in microseconds since 1970. Raises `Rejected`."""
    if event.too_big:
        raise Rejected("too-big", "the host left the commit's data out")
    if event.rebase:
        raise Rejected("rebase", "history was rewritten")
    check_rev(event.rev, now)
    paths = _paths(event.ops)
    car = read_car(event.blocks)
    if car.roots[0] != event.commit:
        raise Rejected("bad-commit", "the root of the blocks is not the commit")
    signed = prove_signed(car.blocks, event.commit, event.repo, key)
    if signed.rev != event.rev:
        raise Rejected("rev-mismatch", f"the commit has rev {signed.rev}, the message {event.rev}")
    prev_data = event.prev_data
    if prev_data is None:
        if event.since is not None:
            raise Rejected("no-prev", "no prevData, from a host before Sync 1.1")
        prev_data = EMPTY_TREE
    if invert(signed.data, car.blocks, event.ops) != prev_data:
        raise Rejected("op-mismatch", "undoing the operations does not give prevData")
    ops = tuple(
        _proven(op, before, *paths[index], car.blocks) for index, op, before in _each_record(event.ops)
    )
    return ProvenCommit(event.repo, event.rev, event.since, signed.data, prev_data, ops)


def prove_sync(event: SyncEvent, key: PublicKey, now: int) -> SignedCommit:
    """Prove a `#sync`: the present commit, of which only the signature can be seen. Raises `Rejected`."""
    check_rev(event.rev, now)
    car = read_car(event.blocks)
    signed = prove_signed(car.blocks, car.roots[0], event.did, key)
    if signed.rev != event.rev:
        raise Rejected("rev-mismatch", f"the commit has rev {signed.rev}, the message {event.rev}")
    return signed


def prove_record(data: bytes, did: Did, collection: str, rkey: str, key: PublicKey, now: int) -> ProvenRecord:
    """Prove the answer of `sync.getRecord`: the record is in the repo, or is not. Raises `Rejected`."""
    car = read_car(data)
    signed = prove_signed(car.blocks, car.roots[0], did, key)
    check_rev(signed.rev, now)
    cid = PartialTree(signed.data, car.blocks).find(f"{collection}/{rkey}".encode())
    record = None if cid is None else car.blocks.get(cid)
    if cid is not None and record is None:
        raise Rejected("missing-block", f"no record {Link(cid)}")
    return ProvenRecord(did, signed.rev, cid, record)


def prove_signed(blocks: Mapping[bytes, bytes], cid: bytes, did: Did, key: PublicKey) -> SignedCommit:
    """Read the commit object under `cid` and prove that `did` signed it. Raises `Rejected`."""
    block = blocks.get(cid)
    if block is None:
        raise Rejected("missing-block", "the commit object is not there")
    return read_signed(block, did, key)


def read_signed(block: bytes, did: Did, key: PublicKey) -> SignedCommit:
    """Read a commit object and prove that `did` signed it. Raises `Rejected`."""
    fields = _commit_fields(block)
    if fields["did"] != did:
        raise Rejected("did-mismatch", f"a commit of {str(fields['did'])[:100]!r}, in the name of {did}")
    signature = fields.pop("sig")
    try:
        key.verify(cbrrr.encode_dag_cbor(fields, cid_type=Link), signature)
    except SignatureRefused as error:
        raise Rejected(error.reason, error.detail) from None
    return SignedCommit(did, fields["rev"], fields["data"].cid_bytes)


def check_rev(rev: str, now: int) -> None:
    """Refuse a rev that is ahead of the clock, for it would freeze the repo. Raises `Rejected`."""
    ahead = Tid(rev).micros - now
    if ahead > MAX_FUTURE:
        raise Rejected("future-rev", f"the rev {rev} is {ahead // 1_000_000} seconds ahead")


def _commit_fields(block: bytes) -> dict[str, Any]:
    if len(block) > MAX_COMMIT_BYTES:
        raise Rejected("bad-commit", f"a commit object of {len(block)} bytes, at most {MAX_COMMIT_BYTES}")
    try:
        fields = decode(block)
    except InvalidData as error:
        raise Rejected("bad-commit", str(error)[:200]) from None
    if type(fields) is not dict:
        raise Rejected("bad-commit", "not a map")
    if type(fields.get("version")) is not int or fields["version"] != COMMIT_VERSION:
        raise Rejected("bad-commit", f"not a commit of version {COMMIT_VERSION}")
    data, rev = fields.get("data"), fields.get("rev")
    if type(data) is not Link or len(data.cid_bytes) != CID_BYTES or data.cid_bytes[:4] != DAG_CBOR_PREFIX:
        raise Rejected("bad-commit", "data is not a link to a tree")
    if type(rev) is not str or not Tid.is_valid(rev):
        raise Rejected("bad-commit", "rev is not a TID")
    if type(fields.get("sig")) is not bytes or type(fields.get("did")) is not str:
        raise Rejected("bad-commit", "did or sig is missing")
    return fields


def _paths(ops: Sequence[RepoOp]) -> list[tuple[Nsid, RecordKey]]:
    paths = []
    for op in ops:
        collection, _, rkey = op.path.partition("/")
        try:
            paths.append((Nsid(collection), RecordKey(rkey)))
        except InvalidSyntax as error:
            raise Rejected("bad-op", str(error)) from None
        if op.action not in ("create", "update", "delete"):
            raise Rejected("bad-op", f"the unknown action {op.action[:40]!r}")
        if op.action == "delete":
            if op.cid is not None:
                raise Rejected("bad-op", "a delete with a CID")
        elif op.cid is None or op.cid[:4] != DAG_CBOR_PREFIX:
            raise Rejected("bad-op", f"a {op.action} without the CID of a record")
    return paths


def _each_record(ops: Sequence[RepoOp]) -> list[tuple[int, RepoOp, bytes | None]]:
    """Sum up what was done to each record: (place of the last operation, that one, the CID before them)."""
    if len(ops) == 1:
        return [(0, ops[0], _before(ops[0]))]
    last = {op.path: index for index, op in enumerate(ops)}
    first = {op.path: op for op in reversed(ops)}
    return [(index, ops[index], _before(first[path])) for path, index in sorted(last.items(), key=_place)]


def _place(item: tuple[str, int]) -> int:
    return item[1]


def _before(op: RepoOp) -> bytes | None:
    """Give the CID before an operation; that of a create is nobody's word, for nothing shows it."""
    return None if op.action == "create" else op.prev


def _proven(
    op: RepoOp,
    before: bytes | None,
    collection: Nsid,
    rkey: RecordKey,
    blocks: Mapping[bytes, bytes],
) -> ProvenOp:
    record = None
    if op.cid is not None:
        record = blocks.get(op.cid)
        if record is None:
            raise Rejected("missing-block", f"no record {Link(op.cid)}")
    return ProvenOp(op.action, collection, rkey, op.cid, record, before)  # type: ignore[arg-type]
