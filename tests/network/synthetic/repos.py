"""Accounts whose repos are real: keys, trees, signed commits, and the frames that announce them.

`Account.draft` computes a commit without publishing it; a test may change any part of the `Draft` (or apply a
corruption by name, see `corruptions`) before `frame` encodes it.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
from base64 import b32encode
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.network.synthetic.blocks import CID, block_of, car, cid_of, encode
from tests.network.synthetic.keys import K256, SigningKey
from tests.network.synthetic.mst import Tree

_TID_ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
_names = itertools.count(1)


def tid(micros: int, clock_id: int = 0) -> str:
    """Make a TID."""
    number = micros << 10 | clock_id
    return "".join(_TID_ALPHABET[number >> shift & 31] for shift in range(60, -1, -5))


def now_text() -> str:
    """Give the time as frames carry it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Write:
    """One change of a record: `record` is a value, or the raw bytes of a block."""

    action: str  # create, update, delete
    collection: str
    rkey: str
    record: dict[str, Any] | bytes | None = None

    @property
    def path(self) -> str:
        """The record's key in the tree."""
        return f"{self.collection}/{self.rkey}"

    def block(self) -> bytes:
        """The record's block."""
        return self.record if isinstance(self.record, bytes) else encode(self.record)


@dataclass(slots=True)
class Draft:
    """A commit before it is encoded; every part may be changed."""

    account: Account
    unsigned: dict[str, Any]  # the commit object, without sig
    ops: list[dict[str, Any]]
    tree_blocks: dict[bytes, bytes]
    record_blocks: dict[bytes, bytes]
    body: dict[str, Any]  # of the frame; blocks and commit are filled in by `frame`
    signature: bytes | None = None  # None: sign honestly when encoding
    roots: list[bytes] | None = None  # None: the commit
    extra_blocks: list[tuple[bytes, bytes]] = field(default_factory=list)
    drop: set[bytes] = field(default_factory=set)  # CIDs to leave out of the CAR
    replace: dict[bytes, bytes] = field(default_factory=dict)  # CID -> bytes to ship under it
    blocks: bytes | None = None  # None: a CAR of the above

    def commit_block(self) -> tuple[bytes, bytes]:
        """Sign and encode the commit object. Returns (CID, block)."""
        signature = self.signature
        if signature is None:
            signature = self.account.key.sign(encode(self.unsigned))
        return block_of(self.unsigned | {"sig": signature})

    def frame(self, seq: int) -> bytes:
        """Encode the whole `#commit` frame."""
        cid, block = self.commit_block()
        blocks = self.blocks
        if blocks is None:
            everything = [(cid, block), *self.tree_blocks.items(), *self.record_blocks.items()]
            blocks = car(
                [cid] if self.roots is None else self.roots,
                [
                    (key, self.replace.get(key, value))
                    for key, value in everything + self.extra_blocks
                    if key not in self.drop
                ],
            )
        body = {"seq": seq, "commit": CID(cid), "ops": self.ops, "blocks": blocks} | self.body
        return frame("#commit", body)


def frame(kind: str, body: dict[str, Any]) -> bytes:
    """Encode a message of the firehose."""
    return encode({"op": 1, "t": kind}) + encode(body)


def error_frame(error: str, message: str = "") -> bytes:
    """Encode an error message of the firehose."""
    return encode({"op": -1}) + encode({"error": error, "message": message})


def info_frame(name: str, message: str = "") -> bytes:
    """Encode an `#info` message."""
    return frame("#info", {"name": name, "message": message})


class Account:
    """One account: a DID, a key, a repo. Writes are applied at once; whether their frame is sent is free."""

    def __init__(
        self,
        handle: str | None = None,
        *,
        did: str | None = None,
        key: SigningKey | None = None,
        pds: str = "",
        keep_blocks: bool = True,
    ) -> None:
        number = next(_names)
        self.handle = handle or f"account-{number}.test"
        name = hashlib.sha256(f"{number}{secrets.token_hex(8)}".encode()).digest()
        self.did = did or "did:plc:" + b32encode(name)[:24].decode().lower()
        self.key: SigningKey = key or K256()
        self.pds = pds
        self.active = True
        self.status: str | None = None
        self.legacy_document = False
        self.tree = Tree()
        self.records: dict[str, bytes] = {}  # path -> CID
        self.record_blocks: dict[bytes, bytes] = {}  # CID -> block
        self.keep_blocks = keep_blocks
        self.rev: str | None = None
        self.data: bytes | None = None
        self.head: tuple[bytes, bytes] | None = None  # CID and block of the last commit
        self._micros = 0

    def next_rev(self) -> str:
        """Give a rev above the last one, at or near the present."""
        self._micros = max(self._micros + 1, time.time_ns() // 1000)
        return tid(self._micros)

    def draft(self, *writes: Write, rev: str | None = None) -> Draft:
        """Apply writes and compute their commit. The repo has moved even if the draft is thrown away."""
        before = self.data
        ops: list[dict[str, Any]] = []
        record_blocks: dict[bytes, bytes] = {}
        for write in writes:
            previous = self.records.get(write.path)
            op: dict[str, Any] = {"action": write.action, "path": write.path, "cid": None}
            if write.action == "delete":
                self.tree.delete(write.path)
                del self.records[write.path]
            else:
                block = write.block()
                cid = cid_of(block)
                record_blocks[cid] = block
                if self.keep_blocks:
                    self.record_blocks[cid] = block
                self.tree.put(write.path, cid)
                self.records[write.path] = cid
                op["cid"] = CID(cid)
            if previous is not None:
                op["prev"] = CID(previous)
            ops.append(op)
        data, fresh = self.tree.seal()
        tree_blocks = dict(fresh)
        for write in writes:
            tree_blocks.update(self.tree.proof(write.path))
        since, self.rev = self.rev, rev or self.next_rev()
        self.data = data
        unsigned = {"did": self.did, "version": 3, "data": CID(data), "rev": self.rev, "prev": None}
        body: dict[str, Any] = {
            "repo": self.did,
            "rev": self.rev,
            "since": since,
            "time": now_text(),
            "tooBig": False,
            "rebase": False,
            "blobs": [],
        }
        if before is not None:
            body["prevData"] = CID(before)
        draft = Draft(self, unsigned, ops, tree_blocks, record_blocks, body)
        draft.signature = self.key.sign(encode(unsigned))
        self.head = draft.commit_block()
        return draft

    def create(self, collection: str, rkey: str, record: dict[str, Any] | bytes) -> Draft:
        """Write a new record."""
        return self.draft(Write("create", collection, rkey, record))

    def update(self, collection: str, rkey: str, record: dict[str, Any] | bytes) -> Draft:
        """Replace a record."""
        return self.draft(Write("update", collection, rkey, record))

    def delete(self, collection: str, rkey: str) -> Draft:
        """Remove a record."""
        return self.draft(Write("delete", collection, rkey))

    def resign(self, key: SigningKey | None = None) -> Draft:
        """Commit the same tree again, as after a key rotation (`key`) or a migration."""
        if key is not None:
            self.key = key
        return self.draft()

    def sync_frame(self, seq: int) -> bytes:
        """Announce the present state without its history."""
        assert self.head is not None
        blocks = car([self.head[0]], [self.head])
        return frame(
            "#sync",
            {"seq": seq, "did": self.did, "rev": self.rev, "blocks": blocks, "time": now_text()},
        )

    def identity_frame(self, seq: int) -> bytes:
        """Announce that the DID document may have changed."""
        return frame("#identity", {"seq": seq, "did": self.did, "handle": self.handle, "time": now_text()})

    def account_frame(self, seq: int) -> bytes:
        """Announce the account's status."""
        body: dict[str, Any] = {"seq": seq, "did": self.did, "active": self.active, "time": now_text()}
        if self.status is not None:
            body["status"] = self.status
        return frame("#account", body)

    def export(self) -> bytes:
        """Give the whole repo as a CAR: commit, tree, records."""
        return car([self.head[0]] if self.head else [], self.export_blocks())

    def export_blocks(self) -> list[tuple[bytes, bytes]]:
        """Give the blocks of the whole repo, commit first, then the tree, then the records."""
        if self.head is None:
            self.draft()
        assert self.head is not None
        records = {cid: self.record_blocks[cid] for cid in self.records.values()}
        return [self.head, *self.tree.blocks(), *records.items()]

    def record_proof(self, path: str) -> bytes:
        """Give the CAR of `sync.getRecord`: commit, path in the tree, the record if it is there."""
        assert self.head is not None
        blocks = [self.head, *self.tree.proof(path).items()]
        if path in self.records:
            cid = self.records[path]
            blocks.append((cid, self.record_blocks[cid]))
        return car([self.head[0]], blocks)

    def document(self) -> dict[str, Any]:
        """Give the DID document, in the shape that the account is set to."""
        if self.legacy_document:
            method = {
                "id": "#atproto",
                "type": self.key.legacy_type,
                "controller": self.did,
                "publicKeyMultibase": self.key.legacy_multibase,
            }
        else:
            method = {
                "id": f"{self.did}#atproto",
                "type": "Multikey",
                "controller": self.did,
                "publicKeyMultibase": self.key.multibase,
            }
        return {
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
            "id": self.did,
            "alsoKnownAs": [f"at://{self.handle}"],
            "verificationMethod": [method],
            "service": [
                {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": self.pds}
            ],
        }
