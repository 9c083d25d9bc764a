"""Records and frames that are not in order, as bytes, each by name."""

from __future__ import annotations

from typing import Any

from tests.network.synthetic.blocks import encode, integer_64
from tests.network.synthetic.repos import frame


def _with_field(name: str, raw: bytes) -> bytes:
    """Add a field of raw bytes to a memory-like map; the name must sort last among the keys of its length."""
    base = {"$type": "garden.engram.memory", "text": "a record that is not in order"}
    body = encode(base)
    assert body[0] == 0xA2
    key = encode(name)
    return b"\xa3" + body[1:] + key + raw


def with_raw(record: dict[str, Any], name: str, raw: bytes) -> bytes:
    """Encode a record with one field, new or in place of its own, given as raw bytes."""
    fields = {key: encode(value) for key, value in record.items()} | {name: raw}
    assert len(fields) < 24
    ordered = sorted(fields.items(), key=lambda field: (len(field[0]), field[0].encode()))
    return bytes([0xA0 | len(fields)]) + b"".join(encode(key) + value for key, value in ordered)


def padded(record: dict[str, Any], size: int) -> bytes:
    """Encode a record with a field that makes it exactly `size` bytes long."""
    spare = size - len(encode(record | {"padding": "x" * 100_000})) + 100_000
    block = encode(record | {"padding": "x" * spare})
    assert len(block) == size
    return block


# One field of an otherwise good memory, and what is wrong with it (a word of the reason).
FIELDS: dict[str, tuple[str, bytes, str]] = {
    "float": ("weight", encode(0.5), "float"),
    "float-that-is-whole": ("weight", encode(1.0), "float"),
    "float-in-dims": ("dims", encode(4.0), "float"),
    "nan": ("weight", b"\xfb\x7f\xf8" + bytes(6), ""),
    "integer-2-63": ("weight", integer_64(2**63), "64 bits"),
    "integer-2-64-minus-1": ("weight", integer_64(2**64 - 1), "64 bits"),
    "integer-2-64": ("weight", b"\xc2\x49\x01" + bytes(8), "DAG-CBOR"),
    "integer-2-60-for-a-text": ("text", integer_64(2**60), "text"),
    "bytes-map": ("weight", encode({"$bytes": "!!!!"}), "$bytes"),
    "bytes-map-for-the-embedding": ("embedding", encode({"$bytes": "!!!!"}), "$bytes"),
    "link-map": ("weight", encode({"$link": "bafy"}), "$link"),
    "lone-surrogate": ("text", b"\x63\xed\xa0\x80", "DAG-CBOR"),
    "lone-surrogate-in-another-field": ("weight", b"\x63\xed\xbf\xbf", "DAG-CBOR"),
    "invalid-utf-8": ("text", b"\x62\xc3\x28", "DAG-CBOR"),
}
# What looks odd and is in order.
GOOD_FIELDS: dict[str, tuple[str, bytes]] = {
    "integer-2-60": ("weight", integer_64(2**60)),
    "integer-2-63-minus-1": ("weight", integer_64(2**63 - 1)),
}


RECORDS: dict[str, bytes] = {
    "float": _with_field("weight", encode(0.5)),
    "integer-2-64-minus-1": _with_field("weight", integer_64(2**64 - 1)),
    "integer-2-60": _with_field("weight", integer_64(2**60)),
    "bytes-map": _with_field("vector", encode({"$bytes": "!!!!"})),
    "link-map": _with_field("vector", encode({"$link": "bafy"})),
    "not-a-map": encode(["a", "list"]),
    "not-cbor": b"\xff\xff\xff",
    "trailing-bytes": encode({"text": "x"}) + b"\x00",
    "no-type": encode({"text": "a record without its type", "createdAt": "2026-11-30T09:15:00.000Z"}),
    "over-1-mb": encode({"text": "x" * 1_000_001}),
    "nul": encode({"$type": "garden.engram.memory", "text": "a\x00b"}),
    "invalid-utf-8": b"\xa1" + encode("text") + b"\x62\xc3\x28",
    "lone-surrogate": b"\xa1" + encode("text") + b"\x63\xed\xa0\x80",
    "deep": b"\x81" * 5_000 + b"\x80",
    "deep-map": b"\xa1\x61a" * 5_000 + b"\xa0",
    "duplicate-keys": b"\xa2" + (encode("text") + encode("x")) * 2,
    "unsorted-keys": b"\xa2" + encode("text") + encode("x") + encode("a") + encode("y"),
    "indefinite-length": b"\xbf" + encode("text") + encode("x") + b"\xff",
    "tag-0": b"\xa1" + encode("text") + b"\xc0" + encode("2026"),
    "lying-length": b"\xa1" + encode("text") + b"\x5b" + (2**62).to_bytes(8, "big"),
    "undefined": b"\xa1" + encode("text") + b"\xf7",
}


MALFORMED_FRAMES: dict[str, bytes] = {
    "empty": b"",
    "one-byte": b"\x00",
    "garbage": b"\xff" * 64,
    "header-alone": encode({"op": 1, "t": "#commit"}),
    "three-objects": frame("#commit", {}) + b"\xa0",
    "header-not-a-map": encode([1]) + encode({}),
    "body-not-a-map": encode({"op": 1, "t": "#commit"}) + encode([1]),
    "no-op": encode({"t": "#commit"}) + encode({}),
    "type-missing": encode({"op": 1}) + encode({}),
    "op-as-text": encode({"op": "1", "t": "#commit"}) + encode({}),
    "fields-missing": frame("#commit", {"seq": 1}),
    "seq-as-text": frame("#identity", {"seq": "1", "did": "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"}),
    "seq-negative": frame("#identity", {"seq": -1, "did": "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"}),
    "seq-true": frame("#identity", {"seq": True, "did": "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"}),
    "did-invalid": frame("#identity", {"seq": 1, "did": "alice"}),
    "account-without-active": frame("#account", {"seq": 1, "did": "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"}),
    "sync-without-blocks": frame("#sync", {"seq": 1, "did": "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "rev": "x"}),
    "info-without-name": frame("#info", {}),
    "deep": encode({"op": 1, "t": "#identity"}) + b"\x81" * 100_000 + b"\x80",
}


def oversized_frame(size: int = 6_000_000) -> bytes:
    """A frame over every limit, well formed apart from that."""
    return frame("#commit", {"seq": 1, "repo": "did:plc:" + "a" * 24, "blocks": bytes(size)})
