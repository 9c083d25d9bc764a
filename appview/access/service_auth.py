"""Service auth: a short-lived JWT by which an account proves itself to one method of one service.

Pure: text, time and keys in; a value or `CredentialRefused` out. The order of the checks is that of the table
in `docs/access.md`: form, header, claims, then `check_signature`, which is all that needs the account's key,
so that nothing is asked of the network for a token that could not be taken anyway.

Sources: atproto.com/specs/xrpc (Inter-Service Authentication), RFC 7515 (JWS), RFC 7519 (JWT), RFC 8725 (best
practice). A token is one text alone: base64url is canonical, JSON has no key twice, signatures are low-S, so
none can be rewritten into another that looks new.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appview.access.errors import CredentialRefused
from appview.identity.errors import SignatureRefused
from lexicons.syntax import Did

if TYPE_CHECKING:
    from appview.identity.keys import Curve, PublicKey
    from lexicons.syntax import Nsid

SERVICE_FRAGMENT: Final = "engram_appview"  # the service's id in its DID document
MAX_TOKEN_BYTES: Final = 8_192  # ours: the longest DIDs and method there can be make one of about 6,500
MAX_LIFETIME_SECONDS: Final = 3_600  # xrpc spec: `exp` is at most an hour ahead
MAX_SKEW_SECONDS: Final = 30  # ours: how far `iat` and `nbf` may be ahead, for a PDS whose clock is
MAX_JTI_LENGTH: Final = 256  # ours: characters; a UUID takes 36
MAX_SECONDS: Final = 2**53  # a time in JSON is a number that every reader holds exactly
DIGEST_BYTES: Final = 16  # of (iss, jti): 128 bits, out of reach of chance and of search

_ALGORITHMS: Final[dict[str, Curve]] = {"ES256": "p256", "ES256K": "k256"}
# Header parameters that name a key, change what is signed, or must be understood (RFC 7515, RFC 7797).
_FORBIDDEN_HEADERS: Final = frozenset(
    {"b64", "crit", "enc", "jku", "jwk", "kid", "x5c", "x5t", "x5t#S256", "x5u", "zip"}
)
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_JTI: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServiceToken:
    """A token whose form and claims hold, and whose signature is still to be checked."""

    issuer: Did
    curve: Curve  # of the key that the header claims
    expires: int  # seconds since 1970
    digest: bytes  # what it is remembered by once it was used
    signed: bytes
    signature: bytes


def read_token(text: str, *, service: Did, method: Nsid, now: int) -> ServiceToken:
    """Check everything of a token but its signature; `now` in seconds since 1970.

    Raises `CredentialRefused`.
    """
    if len(text) > MAX_TOKEN_BYTES:
        raise CredentialRefused("BadJwt", f"a token of more than {MAX_TOKEN_BYTES} bytes")
    parts = text.split(".")
    if len(parts) != 3:
        raise CredentialRefused("BadJwt", "not a JWT: expected three parts")
    header, claims, signature = (_decode(part) for part in parts)
    curve = _check_header(_object(header))
    fields = _object(claims)
    issuer, expires, jti = _issuer(fields), _check_times(fields, now), _jti(fields)
    _check_purpose(fields, service, method)
    return ServiceToken(
        issuer=issuer,
        curve=curve,
        expires=expires,
        digest=hashlib.sha256(f"{issuer} {jti}".encode()).digest()[:DIGEST_BYTES],
        signed=text.rpartition(".")[0].encode(),
        signature=signature,
    )


def check_signature(token: ServiceToken, key: PublicKey) -> None:
    """Raise `WrongKey` or `CredentialRefused` unless the key signed the token."""
    if token.curve != key.curve:
        raise WrongKey("the algorithm does not fit the account's key")
    try:
        key.verify(token.signed, token.signature)
    except SignatureRefused as error:
        if error.reason == "high-s" or len(token.signature) != 64:  # no key of the account's can help
            raise CredentialRefused("BadJwtSignature", error.detail) from None
        raise WrongKey("not signed by the account's key") from None


class WrongKey(CredentialRefused):
    """Not signed by this key; the account may have another one by now."""

    def __init__(self, message: str) -> None:
        super().__init__("BadJwtSignature", message)


def _decode(part: str) -> bytes:
    """Read one part; unpadded base64url has exactly one text for the same bytes (RFC 4648, 3.5)."""
    if not _BASE64URL.fullmatch(part) or len(part) % 4 == 1:
        raise CredentialRefused("BadJwt", "not base64url")
    data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if urlsafe_b64encode(data).rstrip(b"=").decode() != part:
        raise CredentialRefused("BadJwt", "not canonical base64url")
    return data


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise CredentialRefused("BadJwt", "a part that is not strict JSON") from None
    if not isinstance(value, dict):
        raise CredentialRefused("BadJwt", "a part that is not an object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check_header(header: dict[str, Any]) -> Curve:
    if header.get("typ") != "JWT":
        raise CredentialRefused("BadJwtType", "the type is not JWT")
    if _FORBIDDEN_HEADERS & header.keys():
        raise CredentialRefused("BadJwt", "a header parameter that is not taken here")
    algorithm = header.get("alg")
    curve = _ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
    if curve is None:
        raise CredentialRefused("BadJwtSignature", "the algorithm is neither ES256 nor ES256K")
    return curve


def _issuer(claims: dict[str, Any]) -> Did:
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or not Did.is_valid(issuer):
        raise CredentialRefused("BadJwtIss", "iss is not a bare DID")
    return Did(issuer)


def _check_times(claims: dict[str, Any], now: int) -> int:
    """Check the three times and return `exp`."""
    expires = _seconds(claims, "exp")
    if expires is None:
        raise CredentialRefused("BadJwt", "exp is missing")
    if expires <= now:
        raise CredentialRefused("JwtExpired", "the token has expired")
    if expires > now + MAX_LIFETIME_SECONDS:
        raise CredentialRefused("BadJwt", f"exp is more than {MAX_LIFETIME_SECONDS} seconds ahead")
    for name in ("iat", "nbf"):
        begins = _seconds(claims, name)
        if begins is not None and begins > now + MAX_SKEW_SECONDS:
            raise CredentialRefused("BadJwt", f"{name} is in the future")
    return expires


def _seconds(claims: dict[str, Any], name: str) -> int | None:
    if name not in claims:
        return None
    value = claims[name]
    if type(value) is not int or not 0 <= value <= MAX_SECONDS:
        raise CredentialRefused("BadJwt", f"{name} is not a time in whole seconds")
    return value


def _jti(claims: dict[str, Any]) -> str:
    jti = claims.get("jti")
    if not isinstance(jti, str) or len(jti) > MAX_JTI_LENGTH or not _JTI.fullmatch(jti):
        raise CredentialRefused("BadJwt", f"jti is not 1 to {MAX_JTI_LENGTH} printable characters")
    return jti


def _check_purpose(claims: dict[str, Any], service: Did, method: Nsid) -> None:
    if claims.get("aud") not in (str(service), f"{service}#{SERVICE_FRAGMENT}"):
        raise CredentialRefused("BadJwtAudience", "aud is another service", hint=f"expected {service}")
    if claims.get("lxm") != str(method):
        raise CredentialRefused("BadJwtLexiconMethod", "lxm is another method", hint=f"expected {method}")
