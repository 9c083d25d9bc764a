"""Errors of a space's memory.

AppviewError
└── InvalidPathTag    an attribute that a path cannot have

A file that cannot be used is a `StoreError` (see `appview/errors.py`).
"""

from __future__ import annotations

from appview.errors import AppviewError


class InvalidPathTag(AppviewError):
    """An attribute that a path cannot have."""
