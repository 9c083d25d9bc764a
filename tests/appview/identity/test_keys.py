"""Keys and signatures: the official vectors, both curves, and what is refused."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

import base58
import pytest

from appview.identity.errors import InvalidKey, SignatureRefused
from appview.identity.keys import PublicKey
from tests.network.synthetic import K256, P256, SigningKey
from tests.shared_data import cases, read_json

if TYPE_CHECKING:
    from collections.abc import Callable

CRYPTO = "interop/atproto/crypto/"


def official(name: str, described: Callable[[dict[str, Any]], str]) -> list[Any]:
    return cases(
        lambda: [pytest.param(case, id=described(case)) for case in read_json(f"{CRYPTO}{name}.json")]
    )


def unpadded(text: str) -> bytes:
    return b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("case", official("signature-fixtures", lambda case: case["comment"]))
def test_official_signatures(case: dict[str, Any]) -> None:
    key = PublicKey.from_did_key(case["publicKeyDid"])
    legacy = PublicKey.from_legacy(
        "k256" if case["algorithm"] == "ES256K" else "p256", case["publicKeyMultibase"]
    )
    assert key == legacy
    assert key.did_key == case["publicKeyDid"]
    message, signature = unpadded(case["messageBase64"]), unpadded(case["signatureBase64"])
    if case["validSignature"]:
        key.verify(message, signature)
        return
    with pytest.raises(SignatureRefused) as caught:
        key.verify(message, signature)
    assert caught.value.reason == ("high-s" if "high-s" in case["tags"] else "bad-signature")


@pytest.mark.parametrize("case", official("w3c_didkey_K256", lambda case: case["publicDidKey"][-6:]))
def test_official_k256_keys(case: dict[str, Any]) -> None:
    key = K256(bytes.fromhex(case["privateKeyBytesHex"]))
    assert key.did_key == case["publicDidKey"]
    PublicKey.from_did_key(case["publicDidKey"]).verify(b"message", key.sign(b"message"))


@pytest.mark.parametrize("case", official("w3c_didkey_P256", lambda case: case["publicDidKey"][-6:]))
def test_official_p256_keys(case: dict[str, Any]) -> None:
    key = P256(int.from_bytes(base58.b58decode(case["privateKeyBytesBase58"]), "big"))
    assert key.did_key == case["publicDidKey"]
    PublicKey.from_did_key(case["publicDidKey"]).verify(b"message", key.sign(b"message"))


@pytest.mark.parametrize("signer", [K256(), P256()], ids=["k256", "p256"])
def test_only_the_low_compact_signature_of_the_key_is_accepted(signer: SigningKey) -> None:
    key = PublicKey.from_multikey(signer.multibase)
    good = signer.sign(b"message")
    key.verify(b"message", good)

    def refused(message: bytes, signature: bytes) -> str:
        with pytest.raises(SignatureRefused) as caught:
            key.verify(message, signature)
        return caught.value.reason

    assert refused(b"message", signer.sign_high_s(b"message")) == "high-s"
    order = signer.order.to_bytes(32, "big")
    for message, signature in (
        (b"another", good),
        (b"message", type(signer)().sign(b"message")),
        (b"message", good[:63]),
        (b"message", good + b"\x00"),
        (b"message", b""),
        (b"message", bytes(64)),
        (b"message", bytes(32) + good[32:]),
        (b"message", good[:32] + bytes(32)),
        (b"message", order + good[32:]),
        (b"message", good[:32] + order),
        (b"message", b"\xff" * 64),
    ):
        assert refused(message, signature) == "bad-signature"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "z",
        "did:key:",
        "did:key:z",
        "did:key:z0OIl",
        "did:key:mAAAA",
        "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",  # Ed25519
        "did:key:z" + base58.b58encode(b"\xe7\x01" + b"\x02" * 32).decode(),
        "did:key:z" + base58.b58encode(b"\xe7\x01\x02" + b"\xff" * 32).decode(),
        "did:key:z" + base58.b58encode(b"\xe7\x01\x05" + bytes(32)).decode(),
        "did:key:z" + base58.b58encode(b"\x80\x24\x02" + b"\xff" * 32).decode(),
        "did:key:z" + base58.b58encode(b"\x80\x24" + bytes(33)).decode(),
        "did:key:z" + "1" * 200,
        "did:key:z" + "é" * 10,
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidKey):
        PublicKey.from_did_key(text)
