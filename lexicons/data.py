"""The AT Protocol data model in its two forms: strict DAG-CBOR bytes and JSON.

In Python, bytes are `bytes`, links are `Link`, everything else is the JSON type. Source:
atproto.com/specs/data-model. Both forms refuse what the model has no place for: floats, integers beyond
64 bits, maps with the key `$bytes` or `$link`, links that are not CIDs of the protocol, a `$type` that is not
a name, a blob that is not one, lone surrogates, bytes that are not canonical, anything deeper than
`MAX_DEPTH`. What one form accepts the other can carry: a value survives the way from bytes to JSON and back.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32decode, b32encode, b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import cbrrr

from lexicons.bombs import refuse_bombs, refuse_crowds
from lexicons.errors import InvalidData

MAX_RECORD_BYTES: Final = 1_000_000  # sync spec, a record block
# Values in a record, keys among them; ours: the fullest memory has 51, and the rest is room for fields that
# are not of its lexicon. A list of nothing would take a second to read where a megabyte of it is allowed.
MAX_RECORD_ITEMS: Final = 500
MAX_DEPTH: Final = 64  # containers inside one another; ours: no record of a known lexicon is deeper than 10
MAX_SAFE_INTEGER: Final = 2**53 - 1  # data-model spec; beyond, a JSON float is no longer one integer
CID_BYTES: Final = 36  # version 1, codec, sha2-256, 32 bytes of digest
DAG_CBOR_PREFIX: Final = b"\x01\x71\x12\x20"
RAW_PREFIX: Final = b"\x01\x55\x12\x20"
_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_BASE32_PAIRS: Final = [left + right for left in _BASE32 for right in _BASE32]  # of 10 bits
_CID_SHIFTS: Final = tuple(range(280, -1, -10))  # where each pair begins in 36 bytes and 2 zero bits
_BASE64 = re.compile(r"[A-Za-z0-9+/]*", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


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
    if len(cid) != CID_BYTES:  # none of ours; the library's way takes twice as long
        return "b" + b32encode(cid).decode().rstrip("=").lower()
    bits = int.from_bytes(cid, "big") << 2
    return "b" + "".join([_BASE32_PAIRS[bits >> shift & 1023] for shift in _CID_SHIFTS])


def cid_from_text(text: str) -> bytes:
    """Read the text form of a blessed CID (version 1, dag-cbor or raw, sha2-256); raise `InvalidData`."""
    bare = text[1:].upper()
    try:
        cid = b32decode(bare + "=" * (-len(bare) % 8)) if text.startswith("b") else b""
    except ValueError:
        cid = b""
    if not is_cid(cid) or cid_text(cid) != text:
        raise InvalidData(f"not a CID of the AT Protocol: {text[:80]!r}")
    return cid


def is_cid(cid: bytes) -> bool:
    """Tell whether bytes are a blessed CID: version 1, dag-cbor or raw, sha2-256."""
    return len(cid) == CID_BYTES and cid[:4] in (DAG_CBOR_PREFIX, RAW_PREFIX)


def decode(block: bytes) -> Any:
    """Decode one strict DAG-CBOR value; raise `InvalidData`."""
    refuse_bombs(block)
    try:
        value = cbrrr.decode_dag_cbor(block, cid_ctor=Link)
    except (cbrrr.CbrrrDecodeError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidData(f"not DAG-CBOR: {error}") from None
    check(value)
    return value


def decode_record(block: bytes) -> dict[str, Any]:
    """Decode a record block of at most 1 MB and `MAX_RECORD_ITEMS`, a map; raise `InvalidData`."""
    if len(block) > MAX_RECORD_BYTES:
        raise InvalidData(f"a record of {len(block)} bytes, at most {MAX_RECORD_BYTES}")
    refuse_crowds(block, MAX_RECORD_ITEMS)
    return _map(decode(block))


def record_from_json(value: Any) -> dict[str, Any]:
    """Turn what `json.loads` gave for a record into its value, a map; raise `InvalidData`."""
    return _map(from_json(value))


def _map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidData("a record must be a map")
    return value


def encode(value: Any) -> bytes:
    """Encode a value of the data model as canonical DAG-CBOR; raise `InvalidData`."""
    check(value)
    try:
        return bytes(cbrrr.encode_dag_cbor(_plain(value), cid_type=Link))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidData(f"not a value of the data model: {error}") from None


def _plain(value: Any) -> Any:
    """Turn `Did`, `Tid`, ... into the `str` that the encoder takes."""
    kind = type(value)
    if kind is dict:
        return {str(key): _plain(inner) for key, inner in value.items()}
    if kind is list:
        return [_plain(inner) for inner in value]
    return str(value) if kind is not str and isinstance(value, str) else value


def check(value: Any) -> None:
    """Refuse what the data model has no place for; raise `InvalidData`."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        kind = type(item)
        if kind is str or kind is bytes or kind is bool or item is None:
            continue
        if kind is int:
            if not -(2**63) <= item < 2**63:
                raise InvalidData("an integer beyond 64 bits")
            continue
        if kind is Link:
            if not is_cid(item.cid_bytes):
                raise InvalidData("a link that is not a CID of the AT Protocol")
            continue
        if depth >= MAX_DEPTH:
            raise InvalidData(f"nested deeper than {MAX_DEPTH}")
        if kind is dict:
            for key, inner in item.items():
                if not isinstance(key, str):
                    raise InvalidData("a map key that is not a string")
                if key in ("$bytes", "$link"):
                    raise InvalidData(f"a map with the reserved key {key}")
                if type(inner) is not str and type(inner) is not bytes:  # most of them are
                    stack.append((inner, depth + 1))
            if "$type" in item:
                check_type(item)
        elif kind is list:
            stack.extend((inner, depth + 1) for inner in item)
        elif kind is float:
            raise InvalidData("a float")
        elif not isinstance(item, str):  # `Did`, `Tid`, ... are strings too
            raise InvalidData(f"a {kind.__name__} has no place in the data model")


def check_type(value: Mapping[str, Any]) -> None:
    """Refuse a `$type` that is not a name, and a blob that is not one; raise `InvalidData`."""
    name = value["$type"]
    if type(name) is not str or not name:
        raise InvalidData("a $type that is not a name")
    if name == "blob" and not is_blob(value):
        raise InvalidData("a blob without a link, a MIME type or a size")


def is_blob(value: Any) -> bool:
    """Tell whether a value is a reference to a blob."""
    if type(value) is not dict or value.get("$type") != "blob":
        return False
    size, mime = value.get("size"), value.get("mimeType")
    return (
        type(value.get("ref")) is Link
        and type(size) is int
        and size >= 0
        and type(mime) is str
        and mime != ""
    )


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


def from_json(value: Any) -> Any:
    """Turn what `json.loads` gave into a value; raise `InvalidData` for what the data model refuses.

    A float without a fraction is the integer it stands for: JSON knows one kind of number.
    """
    return _from_json(value, 0)


def _from_json(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _text_from_json(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _integer_from_json(value)
    if isinstance(value, float):
        return _float_from_json(value)
    if depth >= MAX_DEPTH:
        raise InvalidData(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, list):
        return [_from_json(inner, depth + 1) for inner in value]
    if not isinstance(value, dict):
        raise InvalidData(f"a {type(value).__name__} has no place in JSON")
    if "$bytes" in value:
        return _bytes_from_json(value)
    if "$link" in value:
        if len(value) != 1 or not isinstance(value["$link"], str):
            raise InvalidData("a $link must hold one string")
        return Link(cid_from_text(value["$link"]))
    decoded = {_text_from_json(key): _from_json(inner, depth + 1) for key, inner in value.items()}
    if "$type" in decoded:
        check_type(decoded)
    return decoded


def _text_from_json(text: str) -> str:
    if not text.isascii() and _SURROGATE.search(text):
        raise InvalidData("a lone surrogate")
    return text


def _integer_from_json(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise InvalidData("an integer beyond 64 bits")
    return number


def _float_from_json(number: float) -> int:
    if not number.is_integer() or abs(number) > MAX_SAFE_INTEGER:
        raise InvalidData("a float")
    return int(number)


def _bytes_from_json(value: dict[str, Any]) -> bytes:
    text = value["$bytes"]
    if len(value) != 1 or not isinstance(text, str):
        raise InvalidData("a $bytes must hold one string")
    bare = text.rstrip("=")
    if not _BASE64.fullmatch(bare) or len(text) - len(bare) > 2 or len(bare) % 4 == 1:
        raise InvalidData("a $bytes that is not base64")
    return b64decode(bare + "=" * (-len(bare) % 4))
