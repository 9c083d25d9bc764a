"""DID documents: from JSON to the four things that ingest needs of an account.

A document comes in two shapes (see `docs`): `Multikey` with an absolute id, and the legacy methods with a
relative id and a bare, uncompressed key. Source: atproto.com/specs/did. The first entry that fits counts, as
the specification has it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from appview.http.origins import origin
from appview.identity.errors import InvalidDocument, InvalidKey
from appview.identity.keys import Curve, PublicKey
from lexicons.syntax import Did, Handle

MAX_DOCUMENT_BYTES: Final = 65_536  # ours: a document with every service known takes 3 kB
MAX_ENTRIES: Final = 256  # ours: entries of a list that are looked at
_LEGACY_CURVES: Final[dict[str, Curve]] = {
    "EcdsaSecp256k1VerificationKey2019": "k256",
    "EcdsaSecp256r1VerificationKey2019": "p256",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """What a DID document says of an account. `handle` is claimed, not verified."""

    did: Did
    handle: Handle | None
    pds: str | None  # its origin, as `origins` writes it
    key: PublicKey


def parse_document(did: Did, body: bytes) -> Identity:
    """Read the JSON document of `did`; raise `InvalidDocument`."""
    if len(body) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument(f"a document of {len(body)} bytes, at most {MAX_DOCUMENT_BYTES}")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidDocument("not JSON") from None
    return read_document(did, document)


def read_document(did: Did, document: Any) -> Identity:
    """Read a document that is already parsed; raise `InvalidDocument`."""
    if not isinstance(document, dict):
        raise InvalidDocument("not an object")
    if document.get("id") != did:
        raise InvalidDocument("a document of another DID")
    return Identity(did, _handle(document), _pds(did, document), _key(did, document))


def _entries(document: dict[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return found[:MAX_ENTRIES] if isinstance(found, list) else []


def _by_id(did: Did, document: dict[str, Any], name: str, fragment: str) -> dict[str, Any] | None:
    wanted = (fragment, did + fragment)
    for entry in _entries(document, name):
        if isinstance(entry, dict) and entry.get("id") in wanted:
            return entry
    return None


def _handle(document: dict[str, Any]) -> Handle | None:
    for alias in _entries(document, "alsoKnownAs"):
        if isinstance(alias, str) and alias.startswith("at://"):
            handle = alias[len("at://") :].lower()
            return Handle(handle) if Handle.is_valid(handle) else None
    return None


def _key(did: Did, document: dict[str, Any]) -> PublicKey:
    method = _by_id(did, document, "verificationMethod", "#atproto")
    if method is None:
        raise InvalidDocument("no verification method #atproto")
    text, kind = method.get("publicKeyMultibase"), method.get("type")
    if not isinstance(text, str) or not isinstance(kind, str):
        raise InvalidDocument("the verification method #atproto has no multibase key")
    try:
        if kind == "Multikey":
            return PublicKey.from_multikey(text)
        if kind in _LEGACY_CURVES:
            return PublicKey.from_legacy(_LEGACY_CURVES[kind], text)
    except InvalidKey as error:
        raise InvalidDocument(f"the key #atproto: {error}") from None
    raise InvalidDocument(f"a verification method of the unknown type {kind[:80]!r}")


def _pds(did: Did, document: dict[str, Any]) -> str | None:
    service = _by_id(did, document, "service", "#atproto_pds")
    if service is None or service.get("type") != "AtprotoPersonalDataServer":
        return None
    endpoint = service.get("serviceEndpoint")
    if not isinstance(endpoint, str):
        raise InvalidDocument("the PDS has no endpoint")
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        raise InvalidDocument("the PDS endpoint is not a URL") from None
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host or host == "." or not _is_plain(endpoint):
        raise InvalidDocument("the PDS endpoint is not an http(s) URL")
    if parts.username or parts.password or parts.query or parts.fragment or parts.path not in ("", "/"):
        raise InvalidDocument("the PDS endpoint is more than scheme, host and port")
    return origin(parts.scheme, host, port)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text and "\\" not in text
