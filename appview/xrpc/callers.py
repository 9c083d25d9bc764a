"""Who asks: a request's credential -> a subject. The subject comes from the credential and nothing else.

Without an `Authorization` header the caller is anonymous. A credential that cannot be verified is refused,
never taken for none: an answer for somebody else than the caller says to be would look like an empty memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.access.subjects import Anonymous
from appview.xrpc.errors import AuthenticationRequired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.access.subjects import Subject


async def resolve(headers: Mapping[str, str]) -> Subject:
    """Name the caller of a request; raise `AuthenticationRequired` for a credential that does not hold."""
    if "Authorization" in headers:
        raise AuthenticationRequired(
            "this service takes no credentials", hint="leave the Authorization header out"
        )
    return Anonymous()
