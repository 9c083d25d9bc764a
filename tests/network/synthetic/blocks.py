"""Blocks, CIDs and CAR files, written plainly; nothing here checks what it is given: tests must lie."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import cbrrr
from cbrrr import CID

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CID",
    "block_of",
    "car",
    "cid_of",
    "cid_text",
    "encode",
    "integer_64",
    "read_car",
    "read_frame",
    "to_json",
    "varint",
]


def encode(value: Any) -> bytes:
    """Encode DAG-CBOR; floats and integers up to 64 bits pass."""
    return bytes(cbrrr.encode_dag_cbor(value))


def cid_of(block: bytes) -> bytes:
    """Compute the CID of a DAG-CBOR block."""
    return b"\x01\x71\x12\x20" + hashlib.sha256(block).digest()


def cid_text(cid: bytes) -> str:
    """Write a CID as text."""
    return CID(cid).encode()


def block_of(value: Any) -> tuple[bytes, bytes]:
    """Encode a value. Returns (CID, block)."""
    block = encode(value)
    return cid_of(block), block


def varint(number: int) -> bytes:
    """Write an unsigned LEB128 integer."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def car(roots: Iterable[bytes], blocks: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write a CAR file, version 1."""
    header = encode({"version": 1, "roots": [CID(root) for root in roots]})
    parts = [varint(len(header)), header]
    for cid, block in blocks:
        parts += (varint(len(cid) + len(block)), cid, block)
    return b"".join(parts)


def read_car(data: bytes) -> dict[bytes, bytes]:
    """Read the blocks of a CAR file, by CID."""
    blocks: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        section = data[at : at + size]
        if section[:4] == b"\x01\x71\x12\x20":
            blocks[section[:36]] = section[36:]
        at += size
    return blocks


def read_frame(frame: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a message of the firehose: header and body."""
    header, body = cbrrr.decode_multi_dag_cbor_in_violation_of_the_spec(frame)
    return header, body


def to_json(value: Any) -> Any:
    """Write a value of the data model as JSON has it."""
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode().rstrip("=")}
    if isinstance(value, CID):
        return {"$link": value.encode()}
    if isinstance(value, dict):
        return {key: to_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_json(inner) for inner in value]
    return value


def integer_64(number: int) -> bytes:
    """Write an unsigned CBOR integer of 8 bytes, for values that an honest encoder refuses."""
    return b"\x1b" + number.to_bytes(8, "big")
