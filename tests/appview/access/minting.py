"""Makes service-auth tokens, honest ones and every other kind."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from lexicons.syntax import Did, Nsid
from tests.network.synthetic import K256, P256, SigningKey

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE = Did("did:web:memory.example.org")
METHOD = Nsid("garden.engram.searchMemories")
ISSUER = Did("did:plc:44ybard66vv44zksje25o7dz")
NOW = 1_764_000_000  # seconds
ABSENT = object()  # leave a field out
ALGORITHMS = {"k256": "ES256K", "p256": "ES256"}

__all__ = ["ABSENT", "ISSUER", "K256", "METHOD", "NOW", "P256", "SERVICE", "encode", "mint", "unsigned"]


def encode(data: bytes) -> str:
    """Write base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(
    key: SigningKey,
    *,
    header: dict[str, Any] | bytes | None = None,
    claims: dict[str, Any] | bytes | None = None,
    now: int = NOW,
    issuer: str = ISSUER,
) -> str:
    """Write header and claims; a dict changes the honest ones, bytes replace them."""
    first = {"typ": "JWT", "alg": ALGORITHMS[key.curve]}
    second = {
        "iat": now,
        "iss": issuer,
        "aud": SERVICE,
        "exp": now + 60,
        "lxm": METHOD,
        "jti": secrets.token_hex(16),
    }
    return ".".join(_part(honest, change) for honest, change in ((first, header), (second, claims)))


def mint(
    key: SigningKey,
    *,
    header: dict[str, Any] | bytes | None = None,
    claims: dict[str, Any] | bytes | None = None,
    now: int = NOW,
    issuer: str = ISSUER,
    sign: Callable[[bytes], bytes] | None = None,
) -> str:
    """Make a token, signed by `key` or by `sign`."""
    text = unsigned(key, header=header, claims=claims, now=now, issuer=issuer)
    return f"{text}.{encode((sign or key.sign)(text.encode()))}"


def _part(honest: dict[str, Any], change: dict[str, Any] | bytes | None) -> str:
    if isinstance(change, bytes):
        return encode(change)
    fields = {**honest, **(change or {})}
    return encode(json.dumps({n: v for n, v in fields.items() if v is not ABSENT}).encode())
