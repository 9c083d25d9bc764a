"""Signing keys of test accounts: K-256 and P-256, and the forms in which a DID document shows them."""

from __future__ import annotations

import hashlib

import base58
import coincurve
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

K256_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class SigningKey:
    """A private key; signatures are 64 bytes, low-S, over the SHA-256 of the message."""

    curve: str
    order: int
    legacy_type: str

    def sign(self, message: bytes) -> bytes:
        """Sign a message."""
        raise NotImplementedError

    def point(self, *, compressed: bool = True) -> bytes:
        """Give the public key as an SEC1 point."""
        raise NotImplementedError

    @property
    def multibase(self) -> str:
        """The public key as a `Multikey` shows it."""
        code = b"\xe7\x01" if self.curve == "k256" else b"\x80\x24"
        return "z" + base58.b58encode(code + self.point()).decode()

    @property
    def legacy_multibase(self) -> str:
        """The public key as the legacy verification methods show it: uncompressed, without a code."""
        return "z" + base58.b58encode(self.point(compressed=False)).decode()

    @property
    def did_key(self) -> str:
        """The public key as a did:key."""
        return "did:key:" + self.multibase

    def sign_high_s(self, message: bytes) -> bytes:
        """Sign with the other, equally valid S, which the protocol refuses."""
        signature = self.sign(message)
        other = self.order - int.from_bytes(signature[32:], "big")
        return signature[:32] + other.to_bytes(32, "big")


class K256(SigningKey):
    """A secp256k1 key."""

    curve, order, legacy_type = "k256", K256_ORDER, "EcdsaSecp256k1VerificationKey2019"

    def __init__(self, secret: bytes | None = None) -> None:
        self._key = coincurve.PrivateKey(secret)

    @property
    def secret(self) -> bytes:
        """The private key, 32 bytes."""
        return self._key.secret

    def sign(self, message: bytes) -> bytes:
        return self._key.sign_recoverable(hashlib.sha256(message).digest(), hasher=None)[:64]

    def point(self, *, compressed: bool = True) -> bytes:
        return self._key.public_key.format(compressed=compressed)


class P256(SigningKey):
    """A NIST P-256 key."""

    curve, order, legacy_type = "p256", P256_ORDER, "EcdsaSecp256r1VerificationKey2019"

    def __init__(self, secret: int | None = None) -> None:
        curve = ec.SECP256R1()
        self._key = ec.generate_private_key(curve) if secret is None else ec.derive_private_key(secret, curve)

    def sign(self, message: bytes) -> bytes:
        r, s = decode_dss_signature(self._key.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + min(s, P256_ORDER - s).to_bytes(32, "big")

    def point(self, *, compressed: bool = True) -> bytes:
        form = serialization.PublicFormat
        return self._key.public_key().public_bytes(
            serialization.Encoding.X962, form.CompressedPoint if compressed else form.UncompressedPoint
        )
