"""What a PDS's answer to a call means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from publisher.errors import (
    NotAllowed,
    NotSignedIn,
    PublisherError,
    RefusedByPds,
    Temporary,
    TooManyRequests,
)
from publisher.retry import read_wait

if TYPE_CHECKING:
    from collections.abc import Mapping

SIGN_IN_HINT: Final = "sign in again with `engram-publisher login`"
STALE_TOKEN: Final = frozenset({"ExpiredToken", "InvalidToken"})
_SIGNED_OUT: Final = STALE_TOKEN | {"AuthMissing", "AuthenticationRequired", "BadJwt", "RevokedToken"}
_CLOSED: Final = frozenset({"AccountTakedown", "AccountDeactivated", "AccountSuspended", "RepoDeactivated"})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed.

    `unclear`: the PDS may have done what was asked all the same. `wait`: seconds that it asked for.
    """

    error: PublisherError
    unclear: bool = False
    wait: float | None = None
    name: str = ""

    @property
    def retryable(self) -> bool:
        """Tell whether the same call may succeed later."""
        return isinstance(self.error, Temporary)


def lost(service: str, reason: str, *, sent: bool) -> Failure:
    """Describe a call without an answer; `sent`: the request may have arrived."""
    return Failure(Temporary(f"{service} cannot be reached: {reason}", "try again later"), unclear=sent)


def refused(
    service: str, method: str, status: int, body: Any, headers: Mapping[str, str], now: float
) -> Failure:
    """Describe an answer that is not a success."""
    name, message = error_of(body)
    said = f"{service} answers {method} with {status}" + (f" {name}" if name else "")
    said += f": {message}" if message else ""
    if status == 429:
        wait = read_wait(headers, now)
        when = f"after {wait:.0f} s" if wait is not None else "later"
        return Failure(TooManyRequests(said, f"try again {when}", seconds=wait), wait=wait, name=name)
    if status in (408, 425) or (status >= 500 and status != 501):
        return Failure(
            Temporary(said, "try again later"), unclear=True, wait=read_wait(headers, now), name=name
        )
    if name in _CLOSED:
        return Failure(NotAllowed(said, "the account is not active on its PDS"), name=name)
    if status == 401 or name in _SIGNED_OUT:
        return Failure(NotSignedIn(said, SIGN_IN_HINT), name=name)
    if status == 403:
        return Failure(NotAllowed(said), name=name)
    return Failure(RefusedByPds(said, name=name, status=status), name=name)


def error_of(body: Any) -> tuple[str, str]:
    """Read the name and message of an XRPC error body, however little of it is there."""
    if not isinstance(body, dict):
        return "", ""
    name, message = body.get("error"), body.get("message")
    return (name if isinstance(name, str) else "")[:100], (message if isinstance(message, str) else "")[:500]
