"""Errors of the publisher. Each has a code, an exit status, and a hint that says what to do.

PublisherError                1
├── BadSetting                2   a setting or a file of settings cannot be used
├── NotSignedIn               3   no session, or one that the PDS no longer takes
├── NotAllowed                3   the account may not do this
├── NotFound                  4   no such account, space or memory
├── ModelTrouble              5   the model cannot be used, or is not the space's
├── Temporary                 6   the network or a server failed; a retry can help
├── TooManyRequests           6   the PDS asks to wait longer than allowed
├── Refused                   1   the memory breaks a limit; nothing was sent
├── Conflict                  1   the record changed meanwhile
├── RefusedByPds              1   the PDS does not accept the request
└── PartlyDone                7   some memories are published, some are not
"""

from __future__ import annotations

from typing import Any, ClassVar


class PublisherError(Exception):
    """Base of everything the publisher reports; `hint` says what to do."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def code(self) -> str:
        """The name of the error in JSON output."""
        return type(self).__name__

    def to_json(self) -> dict[str, Any]:
        """Describe the error as `{code, message, hint, retryable}`."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }


class BadSetting(PublisherError):
    """A setting or a file of settings cannot be used."""

    exit_code = 2


class NotSignedIn(PublisherError):
    """There is no session, or the PDS no longer takes it."""

    exit_code = 3


class NotAllowed(PublisherError):
    """The account may not do this."""

    exit_code = 3


class NotFound(PublisherError):
    """There is no such account, space or memory."""

    exit_code = 4


class ModelTrouble(PublisherError):
    """The model cannot be used, or is not the space's. Nothing was written."""

    exit_code = 5


class Temporary(PublisherError):
    """The network or a server failed; the same request may succeed later."""

    exit_code = 6
    retryable = True


class TooManyRequests(Temporary):
    """The PDS asks to wait longer than allowed; `seconds` is how long, where it said so."""

    def __init__(self, message: str, hint: str = "", *, seconds: float | None = None) -> None:
        super().__init__(message, hint)
        self.seconds = seconds


class Refused(PublisherError):
    """The memory breaks a limit; nothing was embedded or sent."""


class Conflict(PublisherError):
    """The record changed between reading and writing; nothing was written."""

    retryable = True


class RefusedByPds(PublisherError):
    """The PDS does not accept the request; `name` and `status` are its own."""

    def __init__(self, message: str, hint: str = "", *, name: str = "", status: int = 0) -> None:
        super().__init__(message, hint)
        self.name = name
        self.status = status


class PartlyDone(PublisherError):
    """Some memories are published, some are not: the outcomes say which."""

    exit_code = 7
