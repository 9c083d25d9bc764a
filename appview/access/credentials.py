"""The `Authorization` header: from what a request carries to the one credential in it, or none.

A header that cannot be read is refused and never taken for absent: an answer to nobody would look like an
empty memory to somebody.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from appview.access.errors import CredentialRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_CREDENTIAL_BYTES: Final = 8_192  # ours: as long as a service-auth token may be
_SCHEME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)  # RFC 9110, token
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750, b64token


def read_credential(headers: Sequence[str]) -> str | None:
    """Read the bearer token from all `Authorization` headers of a request; None where there is no header.

    Raises `CredentialRefused`.
    """
    if not headers:
        return None
    if len(headers) > 1:
        raise CredentialRefused("BadJwt", "more than one Authorization header")
    scheme, space, credential = headers[0].partition(" ")
    if not _SCHEME.fullmatch(scheme) or scheme.lower() != "bearer":
        raise CredentialRefused(
            "AuthMissing", "the Authorization header has no Bearer token", hint="send Bearer <token>"
        )
    if not space or not credential:
        raise CredentialRefused("AuthMissing", "the Bearer token is empty")
    if len(credential) > MAX_CREDENTIAL_BYTES:
        raise CredentialRefused("BadJwt", f"a token of more than {MAX_CREDENTIAL_BYTES} bytes")
    if not _BEARER.fullmatch(credential):
        raise CredentialRefused("BadJwt", "the Bearer token holds characters that no token has")
    return credential
