"""Errors of the query interface: what a caller is told, by name and status.

XrpcError (AppviewError)
├── InvalidRequest        400  a parameter, the URL or the verb is wrong
├── UnknownSpace          400  there is no such space, or the caller may not read it
├── NoModel               400  the space has no model, so nothing can be searched
├── ModelMismatch         400  the vector is of another model than the space's
├── ModelNotHosted        400  the service has no copy of the space's model to embed a text with
├── AuthenticationRequired 401 the credential is not one this service takes
│   ├── AuthMissing       401  no Bearer token where one is needed, or another kind of credential
│   ├── BadJwt            401  not a service-auth token, one that was used before, or is valid for too long
│   ├── BadJwtAudience    401  a token for another service
│   ├── BadJwtIss         401  a token of no account that can be found
│   ├── BadJwtLexiconMethod 401 a token for another method
│   ├── BadJwtSignature   401  a token that the account's key has not signed
│   ├── BadJwtType        401  a token for another purpose
│   └── JwtExpired        401  a token whose time is over
├── Forbidden             403  the caller may not do that
├── MemoryNotFound        404  there is no such memory, or the caller may not read it
├── NotFound              404  there is no such page
├── PayloadTooLarge       413  the URL, a header or the body is over its limit
├── RateLimitExceeded     429  too many requests; carries Retry-After
├── InternalServerError   500  a fault of the service; details are in its log
├── MethodNotImplemented  501  no method has this name
├── NotEnoughResources    503  too much to do, out of time, or no disk; carries Retry-After
└── IndexLoading          503  the space's index cannot be read yet; carries Retry-After

What is hidden from a caller and what does not exist give the same error with the same message.
"""

from __future__ import annotations

from typing import ClassVar, Final

from appview.errors import AppviewError

RETRY_AFTER_SECONDS: Final = 1  # ours: what a caller waits when nothing better is known
UNREADABLE_SECONDS: Final = 30  # ours: what a caller waits for a file that cannot be read


class XrpcError(AppviewError):
    """An answer that is an error: `{"error": name, "message": message}` with `status`."""

    name: ClassVar[str]
    status: ClassVar[int]

    @property
    def retry_after(self) -> int | None:
        """Seconds to wait, where waiting helps."""
        return RETRY_AFTER_SECONDS if self.retryable else None

    def body(self) -> dict[str, str]:
        """Write the answer's body; the hint, where there is one, ends the message."""
        message = f"{self}; {self.hint}" if self.hint else str(self)
        return {"error": self.name, "message": message}


class InvalidRequest(XrpcError):
    """A parameter, the URL or the verb is wrong."""

    name = "InvalidRequest"
    status = 400
    exit_code = 2


class UnknownSpace(XrpcError):
    """There is no such space, or the caller may not read it."""

    name = "UnknownSpace"
    status = 400
    exit_code = 4

    def __init__(self) -> None:
        super().__init__("no such space", hint="listSpaces names the spaces you may read")


class NoModel(XrpcError):
    """The space has no model, so nothing can be searched."""

    name = "NoModel"
    status = 400

    def __init__(self) -> None:
        super().__init__("the space declares no model, so it holds nothing to search")


class ModelMismatch(XrpcError):
    """The vector is of another model than the space's."""

    name = "ModelMismatch"
    status = 400
    exit_code = 5


class ModelNotHosted(XrpcError):
    """The service has no copy of the space's model to embed a text with."""

    name = "ModelNotHosted"
    status = 400


class AuthenticationRequired(XrpcError):
    """The credential is not one this service takes."""

    name = "AuthenticationRequired"
    status = 401


class AuthMissing(AuthenticationRequired):
    """No Bearer token where one is needed, or another kind of credential."""

    name = "AuthMissing"


class BadJwt(AuthenticationRequired):
    """Not a service-auth token, one that was used before, or one that is valid for too long."""

    name = "BadJwt"


class BadJwtAudience(AuthenticationRequired):
    """A token for another service."""

    name = "BadJwtAudience"


class BadJwtIss(AuthenticationRequired):
    """A token of no account that can be found."""

    name = "BadJwtIss"


class BadJwtLexiconMethod(AuthenticationRequired):
    """A token for another method."""

    name = "BadJwtLexiconMethod"


class BadJwtSignature(AuthenticationRequired):
    """A token that the account's key has not signed."""

    name = "BadJwtSignature"


class BadJwtType(AuthenticationRequired):
    """A token for another purpose."""

    name = "BadJwtType"


class JwtExpired(AuthenticationRequired):
    """A token whose time is over."""

    name = "JwtExpired"


class Forbidden(XrpcError):
    """The caller may not do that."""

    name = "Forbidden"
    status = 403


class MemoryNotFound(XrpcError):
    """There is no such memory in the space, or the caller may not read it."""

    name = "MemoryNotFound"
    status = 404
    exit_code = 4

    def __init__(self) -> None:
        super().__init__("no such memory in this space")


class NotFound(XrpcError):
    """There is no such page."""

    name = "NotFound"
    status = 404


class PayloadTooLarge(XrpcError):
    """The URL, a header or the body is over its limit."""

    name = "PayloadTooLarge"
    status = 413


class RateLimitExceeded(XrpcError):
    """Too many requests."""

    name = "RateLimitExceeded"
    status = 429
    retryable = True

    def __init__(self, message: str, *, after: int = RETRY_AFTER_SECONDS) -> None:
        super().__init__(message, hint="try again after Retry-After seconds")
        self._after = max(after, RETRY_AFTER_SECONDS)

    @property
    def retry_after(self) -> int:
        """Seconds until the same request is taken."""
        return self._after


class InternalServerError(XrpcError):
    """A fault of the service; details are in its log and nowhere else."""

    name = "InternalServerError"
    status = 500

    def __init__(self) -> None:
        super().__init__("the service failed to answer")


class MethodNotImplemented(XrpcError):
    """No method has this name."""

    name = "MethodNotImplemented"
    status = 501


class NotEnoughResources(XrpcError):
    """Too much to do at once, the time allowed ran out, or the disk does not play along."""

    name = "NotEnoughResources"
    status = 503
    retryable = True


class IndexLoading(XrpcError):
    """The space's index is not in memory yet, or its file cannot be read at the moment."""

    name = "IndexLoading"
    status = 503
    retryable = True

    def __init__(self, message: str, *, after: int = RETRY_AFTER_SECONDS) -> None:
        super().__init__(message, hint="try again after Retry-After seconds")
        self._after = max(after, RETRY_AFTER_SECONDS)

    @property
    def retry_after(self) -> int:
        """Seconds until it is worth asking again."""
        return self._after


ERRORS: Final[tuple[type[XrpcError], ...]] = (
    InvalidRequest,
    UnknownSpace,
    NoModel,
    ModelMismatch,
    ModelNotHosted,
    AuthenticationRequired,
    AuthMissing,
    BadJwt,
    BadJwtAudience,
    BadJwtIss,
    BadJwtLexiconMethod,
    BadJwtSignature,
    BadJwtType,
    JwtExpired,
    Forbidden,
    MemoryNotFound,
    NotFound,
    PayloadTooLarge,
    RateLimitExceeded,
    InternalServerError,
    MethodNotImplemented,
    NotEnoughResources,
    IndexLoading,
)
