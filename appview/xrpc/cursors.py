"""Cursors: opaque, stable under inserts, and good only for the query that they continue.

A cursor holds the position of the last item of a page, never a count, so rows that appear or vanish in
between shift nothing. It is sealed with an HMAC over the method, the parameters, the subject and the
position: changed by a bit, or sent with another filter, space or credential, it is refused. Nothing in it is
secret: the position is that of an item which the caller has just been shown.

Form: base64url of one version byte, 16 bytes of HMAC-SHA-256, then the position as a JSON array.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appview.xrpc.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = b"\x01"
TAG_BYTES: Final = 16  # 128 bits: out of reach of guessing
SECRET_BYTES: Final = 32  # HMAC-SHA-256 key
PAGING: Final = frozenset({"cursor", "limit"})  # parameters that may differ from page to page
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

Position = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a cursor is good for: one method, its parameters without the paging ones, one subject."""

    method: str
    subject: str
    parameters: Mapping[str, Any]

    def digest(self) -> bytes:
        """Digest the query, whatever the order its parameters came in."""
        query = {name: value for name, value in self.parameters.items() if name not in PAGING}
        text = json.dumps([self.method, self.subject, query], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class Cursors:
    """Seals and opens cursors with the installation's secret."""

    secret: bytes

    def seal(self, binding: Binding, position: Position) -> str:
        """Write the cursor of the item at `position`."""
        payload = json.dumps(position, separators=(",", ":")).encode()
        raw = VERSION + self._tag(binding, payload) + payload
        return urlsafe_b64encode(raw).rstrip(b"=").decode()

    def open(self, binding: Binding, cursor: str, *kinds: type[int] | type[str]) -> Position:
        """Read a position of these kinds; raise `InvalidRequest` unless it was sealed for this binding."""
        raw = _decode(cursor)
        tag, payload = raw[1 : 1 + TAG_BYTES], raw[1 + TAG_BYTES :]
        if raw[:1] != VERSION or not hmac.compare_digest(tag, self._tag(binding, payload)):
            raise _refused()
        position = tuple(json.loads(payload))
        if tuple(type(part) for part in position) != kinds:  # sealed by another version of this program
            raise _refused()
        return position

    def _tag(self, binding: Binding, payload: bytes) -> bytes:
        message = VERSION + binding.digest() + payload
        return hmac.new(self.secret, message, hashlib.sha256).digest()[:TAG_BYTES]


def _decode(cursor: str) -> bytes:
    if not _BASE64URL.fullmatch(cursor) or len(cursor) % 4 == 1:
        raise _refused()
    raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    if urlsafe_b64encode(raw).rstrip(b"=").decode() != cursor:  # one text for one cursor
        raise _refused()
    return raw


def _refused() -> InvalidRequest:
    return InvalidRequest(
        "cursor: not one that this query gave", hint="leave it out to start from the first page"
    )
