"""The AT Protocol data model in its two forms: strict DAG-CBOR bytes and JSON.

In Python, bytes are `bytes`, links are `Link`, everything else is the JSON type. Source:
atproto.com/specs/data-model. Decoding refuses what the model has no place for: floats, integers beyond
64 bits, maps with the key `$bytes` or `$link`, bytes that are not canonical, anything deeper than
`MAX_DEPTH`.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b32decode, b32encode, b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import cbrrr

from lexicons.errors import InvalidData

MAX_RECORD_BYTES: Final = 1_000_000  # sync spec, a record block
MAX_DEPTH: Final = 64  # ours: no record of a known lexicon is deeper than 10
MAX_SAFE_INTEGER: Final = 2**53 - 1  # data-model spec, JSON interoperability
CID_BYTES: Final = 36  # version 1, codec, sha2-256, 32 bytes of digest
DAG_CBOR_PREFIX: Final = b"\x01\x71\x12\x20"
RAW_PREFIX: Final = b"\x01\x55\x12\x20"
_BASE64 = re.compile(r"[A-Za-z0-9+/]*", re.ASCII)


class Link(cbrrr.CID):
    """A CID link of a decoded value."""

    __slots__ = ()

    def __str__(self) -> str:
        return cid_text(self.cid_bytes)


def cid_of(block: bytes) -> bytes:
    """Compute the CID (36 bytes) of a DAG-CBOR block."""
    return DAG_CBOR_PREFIX + hashlib.sha256(block).digest()


def cid_text(cid: bytes) -> str:
    """Write a CID in its usual text form, base32 lower-case with the prefix `b`."""
    return "b" + b32encode(cid).decode().rstrip("=").lower()


def cid_from_text(text: str) -> bytes:
    """Read the text form of a blessed CID (version 1, dag-cbor or raw, sha2-256); raise `InvalidData`."""
    bare = text[1:].upper()
    try:
        cid = b32decode(bare + "=" * (-len(bare) % 8)) if text.startswith("b") else b""
    except binascii.Error:
        cid = b""
    if len(cid) != CID_BYTES or cid[:4] not in (DAG_CBOR_PREFIX, RAW_PREFIX) or cid_text(cid) != text:
        raise InvalidData(f"not a CID of the AT Protocol: {text[:80]!r}")
    return cid


def decode(block: bytes) -> Any:
    """Decode one strict DAG-CBOR value; raise `InvalidData`."""
    try:
        value = cbrrr.decode_dag_cbor(block, cid_ctor=Link)
    except (cbrrr.CbrrrDecodeError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidData(f"not DAG-CBOR: {error}") from None
    check(value)
    return value


def decode_record(block: bytes) -> dict[str, Any]:
    """Decode a record block of at most 1 MB, a map; raise `InvalidData`."""
    if len(block) > MAX_RECORD_BYTES:
        raise InvalidData(f"a record of {len(block)} bytes, at most {MAX_RECORD_BYTES}")
    value = decode(block)
    if not isinstance(value, dict):
        raise InvalidData("a record must be a map")
    return value


def encode(value: Any) -> bytes:
    """Encode a value of the data model as canonical DAG-CBOR; raise `InvalidData`."""
    check(value)
    try:
        return bytes(cbrrr.encode_dag_cbor(value, cid_type=Link))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidData(f"not a value of the data model: {error}") from None


def check(value: Any) -> None:
    """Refuse what the data model has no place for; raise `InvalidData`."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        kind = type(item)
        if kind is str or kind is bytes or kind is bool or item is None or kind is Link:
            continue
        if kind is int:
            if not -(2**63) <= item < 2**63:
                raise InvalidData("an integer beyond 64 bits")
            continue
        if depth >= MAX_DEPTH:
            raise InvalidData(f"nested deeper than {MAX_DEPTH}")
        if kind is dict:
            for key, inner in item.items():
                if type(key) is not str:
                    raise InvalidData("a map key that is not a string")
                if key in ("$bytes", "$link"):
                    raise InvalidData(f"a map with the reserved key {key}")
                stack.append((inner, depth + 1))
        elif kind is list:
            stack.extend((inner, depth + 1) for inner in item)
        elif kind is float:
            raise InvalidData("a float")
        else:
            raise InvalidData(f"a {kind.__name__} has no place in the data model")


def to_json(value: Any) -> Any:
    """Turn a value into what `json.dumps` takes: bytes as `{"$bytes": ...}` without padding."""
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode().rstrip("=")}
    if isinstance(value, Link):
        return {"$link": cid_text(value.cid_bytes)}
    if isinstance(value, Mapping):
        return {key: to_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(inner) for inner in value]
    return value


def from_json(value: Any, depth: int = 0) -> Any:
    """Turn what `json.loads` gave into a value; raise `InvalidData` for what the data model refuses."""
    if depth > MAX_DEPTH:
        raise InvalidData(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        if "$bytes" in value:
            return _bytes_from_json(value)
        if "$link" in value:
            if len(value) != 1 or not isinstance(value["$link"], str):
                raise InvalidData("a $link must hold one string")
            return Link(cid_from_text(value["$link"]))
        return {key: from_json(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [from_json(inner, depth + 1) for inner in value]
    if isinstance(value, float):
        raise InvalidData("a float")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidData("an integer beyond 64 bits")
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidData("a lone surrogate")
    return value


def _bytes_from_json(value: dict[str, Any]) -> bytes:
    text = value["$bytes"]
    if len(value) != 1 or not isinstance(text, str):
        raise InvalidData("a $bytes must hold one string")
    bare = text.rstrip("=")
    if not _BASE64.fullmatch(bare) or len(text) - len(bare) > 2 or len(bare) % 4 == 1:
        raise InvalidData("a $bytes that is not base64")
    return b64decode(bare + "=" * (-len(bare) % 4))
