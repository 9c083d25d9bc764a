"""Errors of asking other servers.

AppviewError
└── FetchError             a server could not be asked, or its answer is of no use
    ├── ForbiddenUrl       a URL or address that must not be asked
    ├── HttpStatusError    an answer with a status other than 2xx
    └── ResponseTooLarge   an answer longer than its limit
"""

from __future__ import annotations

import json
from typing import Final

from appview.errors import AppviewError

FORBIDDEN_SECONDS: Final = 600.0  # ours: until a name that leads to a forbidden address is tried again
_TEMPORARY: Final = frozenset({408, 425, 429})  # and every 5xx


class FetchError(AppviewError):
    """A server could not be asked, or its answer is of no use. `temporary`: asking again soon can help."""

    def __init__(self, message: str, *, temporary: bool = True) -> None:
        super().__init__(message)
        self.temporary = temporary

    @property
    def retry_after_seconds(self) -> float | None:
        """How long the server wants to be left alone, where it named seconds."""
        return None


class ForbiddenUrl(FetchError):
    """A URL or address that must not be asked. The rules will not change; what a name leads to may."""

    def __init__(self, message: str) -> None:
        super().__init__(message, temporary=False)

    @property
    def retry_after_seconds(self) -> float:
        """How long to leave it alone: this is no fault of the network that passes."""
        return FORBIDDEN_SECONDS


class HttpStatusError(FetchError):
    """An answer with a status other than 2xx. `name` is the XRPC error's, where the body has one."""

    def __init__(self, status: int, body: bytes, retry_after: str | None, host: str) -> None:
        self.status = status
        self.name = _error_name(body)
        self.retry_after = retry_after
        super().__init__(
            f"{host} answered {status}" + (f" {self.name}" if self.name else ""),
            temporary=status in _TEMPORARY or status >= 500,
        )

    @property
    def retry_after_seconds(self) -> float | None:
        """The server's wish, where it named seconds."""
        text = self.retry_after or ""
        return float(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


class ResponseTooLarge(FetchError):
    """An answer longer than its limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the answer is longer than {max_bytes} bytes", temporary=False)


def _error_name(body: bytes) -> str:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    name = value.get("error") if isinstance(value, dict) else None
    return name[:64] if isinstance(name, str) else ""
