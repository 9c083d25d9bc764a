"""Who asks: the credential of a request, proved by `appview.access.callers`, in the errors callers are told.

Without an `Authorization` header the caller is anonymous. A credential that cannot be verified is refused,
never taken for none: an answer for somebody else than the caller says to be would look like an empty memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.access.errors import CannotVerify, CredentialRefused, Fault
from appview.xrpc.errors import (
    AuthenticationRequired,
    AuthMissing,
    BadJwt,
    BadJwtAudience,
    BadJwtIss,
    BadJwtLexiconMethod,
    BadJwtSignature,
    BadJwtType,
    JwtExpired,
    NotEnoughResources,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from appview.access.callers import Callers
    from appview.access.subjects import Subject
    from lexicons.syntax import Nsid

REFUSALS: Final[Mapping[Fault, type[AuthenticationRequired]]] = {
    "AuthMissing": AuthMissing,
    "AuthenticationRequired": AuthenticationRequired,
    "BadJwt": BadJwt,
    "BadJwtAudience": BadJwtAudience,
    "BadJwtIss": BadJwtIss,
    "BadJwtLexiconMethod": BadJwtLexiconMethod,
    "BadJwtSignature": BadJwtSignature,
    "BadJwtType": BadJwtType,
    "JwtExpired": JwtExpired,
}


async def resolve(callers: Callers, request: web.Request, method: Nsid) -> Subject:
    """Name the caller of a method.

    Raises `AuthenticationRequired` or a kind of it for a credential that does not hold, `NotEnoughResources`
    where that cannot be told now.
    """
    try:
        return await callers.resolve(request.headers.getall("Authorization", ()), method)
    except CredentialRefused as error:
        raise REFUSALS[error.fault](str(error), hint=error.hint) from None
    except CannotVerify as error:
        raise NotEnoughResources(str(error), hint=error.hint) from None
