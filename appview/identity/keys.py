"""Public keys of accounts, and the one question asked of them: did this key sign these bytes?

Source: atproto.com/specs/cryptography. Curves K-256 and P-256; signatures are 64 bytes (r and s), low-S, over
the SHA-256 of the message. K-256 is verified by libsecp256k1 (`coincurve`), which is ten times faster than
OpenSSL at it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Literal

import base58
import coincurve
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from appview.identity.errors import InvalidKey, SignatureRefused

if TYPE_CHECKING:
    from collections.abc import Callable

Curve = Literal["k256", "p256"]

SIGNATURE_BYTES: Final = 64  # cryptography spec, compact form
_ORDERS: Final[dict[Curve, int]] = {  # SEC 2, the order n of each curve's group
    "k256": 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
    "p256": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
}
_MULTICODECS: Final[dict[bytes, Curve]] = {b"\xe7\x01": "k256", b"\x80\x24": "p256"}
_DID_KEY: Final = "did:key:"
_MAX_MULTIBASE: Final = 128  # characters; an uncompressed point with its code takes 92
_POINT_BYTES: Final = (33, 65)  # SEC 1, compressed and uncompressed
_SHA256: Final = ec.ECDSA(hashes.SHA256())


class PublicKey:
    """A K-256 or P-256 public key. Equal keys compare equal whatever form they were read from."""

    __slots__ = ("_check", "curve", "point")

    def __init__(self, curve: Curve, point: bytes) -> None:
        if len(point) not in _POINT_BYTES:
            raise InvalidKey(f"a public key of {len(point)} bytes, expected 33 or 65")
        self.curve: Curve = curve
        self.point, self._check = _k256(point) if curve == "k256" else _p256(point)

    @classmethod
    def from_did_key(cls, text: str) -> PublicKey:
        """Read `did:key:z...`; raise `InvalidKey`."""
        if not text.startswith(_DID_KEY):
            raise InvalidKey("expected did:key:")
        return cls.from_multikey(text[len(_DID_KEY) :])

    @classmethod
    def from_multikey(cls, text: str) -> PublicKey:
        """Read a multibase key that names its curve; raise `InvalidKey`."""
        data = _multibase(text)
        curve = _MULTICODECS.get(data[:2])
        if curve is None:
            raise InvalidKey("neither a K-256 nor a P-256 key")
        if len(data) != 2 + _POINT_BYTES[0]:
            raise InvalidKey(f"a multikey of {len(data)} bytes, expected 35")
        return cls(curve, data[2:])

    @classmethod
    def from_legacy(cls, curve: Curve, text: str) -> PublicKey:
        """Read a multibase key whose curve its verification method names; raise `InvalidKey`."""
        return cls(curve, _multibase(text))

    @property
    def did_key(self) -> str:
        """The key as `did:key:z...`."""
        code = next(code for code, curve in _MULTICODECS.items() if curve == self.curve)
        return f"{_DID_KEY}z{base58.b58encode(code + self.point).decode()}"

    def verify(self, message: bytes, signature: bytes) -> None:
        """Raise `SignatureRefused` (`bad-signature`, `high-s`) unless this key signed the message."""
        if len(signature) != SIGNATURE_BYTES:
            raise SignatureRefused("bad-signature", f"{len(signature)} bytes, expected {SIGNATURE_BYTES}")
        order = _ORDERS[self.curve]
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        if not (0 < r < order and 0 < s < order):
            raise SignatureRefused("bad-signature", "r or s out of range")
        if s > order >> 1:
            raise SignatureRefused("high-s", "the signature's S is in the upper half of its range")
        if not self._check(message, encode_dss_signature(r, s)):
            raise SignatureRefused("bad-signature", "not signed by this key")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and (self.curve, self.point) == (other.curve, other.point)

    def __hash__(self) -> int:
        return hash((self.curve, self.point))

    def __repr__(self) -> str:
        return f"PublicKey({self.did_key})"


def _multibase(text: str) -> bytes:
    if not text.startswith("z") or len(text) > _MAX_MULTIBASE:
        raise InvalidKey("expected a base58btc multibase key")
    try:
        return bytes(base58.b58decode(text[1:].encode("ascii")))
    except ValueError:
        raise InvalidKey("not base58btc") from None


def _k256(point: bytes) -> tuple[bytes, Callable[[bytes, bytes], bool]]:
    try:
        key = coincurve.PublicKey(point)
    except ValueError:
        raise InvalidKey("not a point of the K-256 curve") from None

    def check(message: bytes, der: bytes) -> bool:
        return key.verify(der, hashlib.sha256(message).digest(), hasher=None)

    return key.format(compressed=True), check


def _p256(point: bytes) -> tuple[bytes, Callable[[bytes, bytes], bool]]:
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        raise InvalidKey("not a point of the P-256 curve") from None

    def check(message: bytes, der: bytes) -> bool:
        try:
            key.verify(der, message, _SHA256)
        except InvalidSignature:
            return False
        return True

    numbers = key.public_numbers()
    return bytes([2 + (numbers.y & 1)]) + numbers.x.to_bytes(32, "big"), check
