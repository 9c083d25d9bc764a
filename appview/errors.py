"""Errors of the appview.

AppviewError
├── ConfigurationError     a setting is missing, unknown or out of range
├── StoreError             a database cannot be used
│   ├── StoreMismatch      a file does not belong to the space or version it is opened for
│   ├── StoreDamaged       a file contradicts itself, or is not what was written last
│   └── StoreBusy          another process has the data folder
├── NotFound               there is no such thing here
├── Unreachable            a service that was named could not be asked, or is no appview
├── AccessError            of rules, and of proving who asks (see `appview/access/errors.py`)
├── FetchError             another server cannot be asked (see `appview/http/errors.py`)
├── IdentityError          an account's keys cannot be used (see `appview/identity/errors.py`)
├── XrpcError              an answer to a caller: name, status, message (see `appview/xrpc/errors.py`)
└── IngestError            an event that is refused (see `appview/ingest/errors.py`)
"""

from __future__ import annotations

from typing import ClassVar


class AppviewError(Exception):
    """Base of the appview's errors; `hint` says what to do, `exit_code` is how the command line ends."""

    exit_code: ClassVar[int] = 1
    hint: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint

    @property
    def retryable(self) -> bool:
        """Whether the same request can succeed later, unchanged."""
        return False


class ConfigurationError(AppviewError):
    """A setting is missing, unknown or out of range."""

    exit_code = 2


class StoreError(AppviewError):
    """A database cannot be used."""


class StoreMismatch(StoreError):
    """A file does not belong to the space, or to the version of the program, that opens it."""


class StoreDamaged(StoreError):
    """A file contradicts itself, or is not the one that was written last."""


class StoreBusy(StoreError):
    """Another process holds the data folder."""

    @property
    def retryable(self) -> bool:
        """It can, once that process has ended."""
        return True


class Unreachable(AppviewError):
    """A service that was named could not be asked, or what it answers is no answer of an appview."""

    exit_code = 6

    @property
    def retryable(self) -> bool:
        """It may, once the service is there."""
        return True


class NotFound(AppviewError):
    """There is no such thing here."""

    exit_code = 4
