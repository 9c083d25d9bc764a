"""Errors of access: of its rules, and of those who ask.

AppviewError
└── AccessError
    ├── InvalidRule        a rule is not one that can be followed; `rule` is its text, `reason` why
    ├── InvalidPolicy      rules that are fine one by one do not go together
    ├── CredentialRefused  a credential that does not hold; `fault` is the name a caller is told
    ├── TagWithheld        a protected tag of a path is not for who asks to change
    ├── NotFollowed        what is indexed does not follow the rules yet; trying again later can help
    └── CannotVerify       a credential that cannot be checked now; trying again later can help
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from appview.errors import AppviewError

# The names that callers know (service auth; `AuthenticationRequired` is for this service's own tokens).
Fault = Literal[
    "AuthMissing",  # no credential of a kind that is taken here
    "AuthenticationRequired",  # a token of this service that is not known, or not any more
    "BadJwt",  # not a service-auth token at all, used already, or valid for too long
    "BadJwtAudience",  # for another service
    "BadJwtIss",  # not by an account that can be found
    "BadJwtLexiconMethod",  # for another method
    "BadJwtSignature",  # not signed by the account's key
    "BadJwtType",  # a token for another purpose
    "JwtExpired",
]
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)


class AccessError(AppviewError):
    """Base of the errors of access."""


class InvalidRule(AccessError):
    """A rule is not one that can be followed."""

    exit_code = 2

    def __init__(self, rule: object, reason: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = str(rule)
        self.reason = reason


class InvalidPolicy(AccessError):
    """Rules that are fine one by one do not go together."""


class CredentialRefused(AccessError):
    """A credential that does not hold. The message never repeats any of it."""

    def __init__(self, fault: Fault, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.fault: Fault = fault


class TagWithheld(AccessError):
    """A protected tag of a path is not for who asks to change."""


class NotFollowed(AccessError):
    """What is indexed does not follow the rules yet."""

    retryable = True


class CannotVerify(AccessError):
    """A credential that cannot be checked at the moment."""

    retryable = True
