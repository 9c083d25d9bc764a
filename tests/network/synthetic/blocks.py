"""Blocks, CIDs and CAR files, written plainly; nothing here checks what it is given: tests must lie."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import cbrrr
from cbrrr import CID

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CID", "block_of", "car", "cid_of", "cid_text", "encode", "integer_64", "varint"]


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


def integer_64(number: int) -> bytes:
    """Write an unsigned CBOR integer of 8 bytes, for values that an honest encoder refuses."""
    return b"\x1b" + number.to_bytes(8, "big")
