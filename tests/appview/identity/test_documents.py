"""DID documents: both shapes, and hostile ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appview.identity.documents import MAX_DOCUMENT_BYTES, parse_document, read_document
from appview.identity.errors import InvalidDocument
from lexicons.syntax import Did
from tests.network.synthetic import K256, P256, Account, SigningKey


def document(key: SigningKey | None = None, *, legacy: bool = False) -> tuple[Did, dict[str, Any]]:
    account = Account("alice.test", key=key, pds="https://pds.example.com")
    account.legacy_document = legacy
    return Did(account.did), account.document()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("key", [K256(), P256()], ids=["k256", "p256"])
def test_both_shapes_say_the_same(key: SigningKey, legacy: bool) -> None:
    did, body = document(key, legacy=legacy)
    identity = parse_document(did, json.dumps(body).encode())
    assert (identity.did, identity.handle, identity.pds) == (did, "alice.test", "https://pds.example.com")
    assert identity.key.did_key == key.did_key
    identity.key.verify(b"message", key.sign(b"message"))


def test_relative_and_absolute_ids_are_the_same() -> None:
    did, body = document()
    body["verificationMethod"][0]["id"] = "#atproto"
    body["service"][0]["id"] = f"{did}#atproto_pds"
    assert read_document(did, body).pds == "https://pds.example.com"


def test_the_first_entry_that_fits_counts_and_strangers_are_passed_over() -> None:
    did, body = document()
    honest = read_document(did, body)
    body["verificationMethod"] = [
        None,
        {"id": "#other", "type": "Multikey", "publicKeyMultibase": K256().multibase},
        {"id": "did:plc:someone#atproto", "type": "Multikey", "publicKeyMultibase": K256().multibase},
        *body["verificationMethod"],
        {"id": "#atproto", "type": "Multikey", "publicKeyMultibase": K256().multibase},
    ]
    body["alsoKnownAs"] = ["https://example.com", 7, *body["alsoKnownAs"], "at://bob.test"]
    assert read_document(did, body) == honest


@pytest.mark.parametrize(
    "aliases", [None, "at://alice.test", [], ["at://not a handle"], ["at://"], [["at://a.b"]]]
)
def test_a_document_may_have_no_handle(aliases: Any) -> None:
    did, body = document()
    body["alsoKnownAs"] = aliases
    assert read_document(did, body).handle is None


def test_an_account_may_have_no_pds() -> None:
    did, body = document()
    body["service"] = []
    assert read_document(did, body).pds is None


@pytest.mark.parametrize(
    ("endpoint", "pds"),
    [
        ("https://pds.example.com/", "https://pds.example.com"),
        ("https://PDS.example.com", "https://pds.example.com"),
        ("http://127.0.0.1:2583", "http://127.0.0.1:2583"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_an_endpoint_is_reduced_to_its_origin(endpoint: str, pds: str) -> None:
    did, body = document()
    body["service"][0]["serviceEndpoint"] = endpoint
    assert read_document(did, body).pds == pds


@pytest.mark.parametrize(
    "endpoint",
    [
        None,
        7,
        "",
        "pds.example.com",
        "ftp://pds.example.com",
        "file:///etc/passwd",
        "https://",
        "https://.",
        "https://user@pds.example.com",
        "https://:pw@pds.example.com",
        "https://pds.example.com/path",
        "https://pds.example.com?query",
        "https://pds.example.com#fragment",
        "https://pds.example.com:99999",
        "https://pds.example.com:x",
        "https://pds example.com",
        "https://pds.example.com\r\nHost: evil",
        "https://pds.example.com\\@evil",
        "https://pds.exämple.com",
        "https://[::1",
    ],
)
def test_an_endpoint_that_is_more_than_an_origin_is_refused(endpoint: Any) -> None:
    did, body = document()
    body["service"][0]["serviceEndpoint"] = endpoint
    with pytest.raises(InvalidDocument):
        read_document(did, body)


def test_a_document_of_another_did_is_refused() -> None:
    _, body = document()
    with pytest.raises(InvalidDocument, match="another DID"):
        read_document(Did("did:plc:" + "a" * 24), body)


@pytest.mark.parametrize(
    "methods",
    [
        None,
        {},
        [],
        [7],
        [{"id": "#atproto"}],
        [{"id": "#atproto", "type": "Multikey"}],
        [{"id": "#atproto", "type": "Multikey", "publicKeyMultibase": 7}],
        [{"id": "#atproto", "type": "Multikey", "publicKeyMultibase": "z"}],
        [{"id": "#atproto", "type": ["Multikey"], "publicKeyMultibase": K256().multibase}],
        [{"id": "#atproto", "type": "Ed25519VerificationKey2020", "publicKeyMultibase": K256().multibase}],
        [
            {
                "id": "#atproto",
                "type": "EcdsaSecp256k1VerificationKey2019",
                "publicKeyMultibase": K256().multibase,
            }
        ],
        [{"id": ["#atproto"], "type": "Multikey", "publicKeyMultibase": K256().multibase}],
    ],
)
def test_a_document_without_a_key_is_refused(methods: Any) -> None:
    did, body = document()
    body["verificationMethod"] = methods
    with pytest.raises(InvalidDocument):
        read_document(did, body)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"7", b'"x"', b"{", b"\xff\xfe", b"[" * 60_000, b'{"id": NaN}', b"{}"]
)
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidDocument):
        parse_document(Did("did:plc:" + "a" * 24), body)


def test_a_document_may_have_64_kib() -> None:
    did, body = document()
    text = json.dumps(body).encode()
    assert parse_document(did, text + b" " * (MAX_DOCUMENT_BYTES - len(text))).did == did
    with pytest.raises(InvalidDocument, match="at most"):
        parse_document(did, text + b" " * (MAX_DOCUMENT_BYTES - len(text) + 1))
