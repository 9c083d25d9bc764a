"""Errors of the appview.

AppviewError
├── ConfigurationError     a setting is missing, unknown or out of range
├── StoreError             a database cannot be used
│   ├── StoreMismatch      a file does not belong to the space or version it is opened for
│   └── StoreBusy          another process has the data folder
├── XrpcError              an answer to a caller: name, status, message (see `appview/xrpc/errors.py`)
└── IngestError            an event that is refused (see `appview/ingest/errors.py`)
"""

from __future__ import annotations


class AppviewError(Exception):
    """Base of the appview's errors; `hint` says what to do about it."""

    hint: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint


class ConfigurationError(AppviewError):
    """A setting is missing, unknown or out of range."""


class StoreError(AppviewError):
    """A database cannot be used."""


class StoreMismatch(StoreError):
    """A file does not belong to the space, or to the version of the program, that opens it."""


class StoreBusy(StoreError):
    """Another process holds the data folder."""
