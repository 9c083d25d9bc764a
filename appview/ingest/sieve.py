"""Telling commits that do not concern us by their bytes, before anything is parsed.

A message is passed over only where its bytes, from the first one to the account's name, are exactly a
`#commit` in the one form that DAG-CBOR has for it: header, number of fields, operations, rev, seq, repo, each
with its length. Every length is checked, so no text or bytes inside can be taken for structure: what is
matched is how a decoder reads these bytes too. Keys ascend in DAG-CBOR and the decoder refuses any other
order, so that no `ops` or `repo` can follow behind. So where a message is passed over, a decoder finds the
same operations and the same account, or refuses the message for what comes after. Whatever has another form
(other fields, rare lengths, a dozen operations and more, bytes that are no commit) is left to the decoder.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

# Canonical DAG-CBOR leaves one way to write {"t": "#commit", "op": 1}.
COMMIT_HEADER: Final = b"\xa2\x61t\x67#commit\x62op\x01"
_LINK: Final = rb"(?:\xf6|\xd8\x2a\x58\x25.{37})"  # null, or tag 42 with a multibase zero and a CID
_NUMBER: Final = rb"(?:[\x00-\x17]|\x18.|\x19..|\x1a.{4}|\x1b.{8})"
# An operation: a map of three fields, or of four with `prev`. Its path is between the group for the length
# and the end of the next group; text may hold what looks like the end, and then the length does not fit.
_OP: Final = (
    rb"(?:\xa3|(?P<prev>\xa4))\x63cid%b\x64path\x78(?P<size>.)(?P<path>[!-~]{24,255}?)"
    rb"(?(prev)\x64prev%b)\x66action\x66(?:create|update|delete)" % (_LINK, _LINK)
)
_AFTER_OPS: Final = rb"\x63rev\x6d.{13}\x63seq%b\x64repo\x78." % _NUMBER
_BEFORE_OPS: Final = re.escape(COMMIT_HEADER) + rb"[\xa4-\xb7]\x63ops"
_NO_PATH: Final = b"\x00"  # no path begins so
_WITH_ONE = re.compile(_BEFORE_OPS + rb"\x81" + _OP + _AFTER_OPS, re.DOTALL)
_WITH_SOME = re.compile(_BEFORE_OPS + rb"[\x80-\x8c]", re.DOTALL)
_NEXT_OP = re.compile(_OP, re.DOTALL)
_END = re.compile(_AFTER_OPS, re.DOTALL)


def concerns(frame: bytes, prefix: bytes, tracked: Container[bytes]) -> bool:
    """Tell whether a message must be read: anything but a `#commit` that has no operation on a path with
    `prefix` and is not of a repo whose DID is in `tracked`.
    """
    match = _WITH_ONE.match(frame)
    if match is not None:
        start, end = match.span(3)
        if end - start != frame[start - 1] or frame.startswith(prefix, start):
            return True
        start = match.end()
    else:
        start = _behind_operations(frame, prefix)
        if not start:
            return True
    return frame[start : start + frame[start - 1]] in tracked


def account_of(frame: bytes) -> bytes | None:
    """Read whose commit a message is that cannot be decoded, as far as its beginning tells."""
    start = _behind_operations(frame, _NO_PATH)
    return frame[start : start + frame[start - 1]] if start else None


def _behind_operations(frame: bytes, prefix: bytes) -> int:
    """Read over a commit's operations; give the place of its account's name, 0 where it is to be read."""
    match = _WITH_SOME.match(frame)
    if match is None:
        return 0
    place = match.end()
    for _ in range(frame[place - 1] & 31):
        match = _NEXT_OP.match(frame, place)
        if match is None:
            return 0
        start, end = match.span(3)
        if end - start != frame[start - 1] or frame.startswith(prefix, start):
            return 0
        place = match.end()
    match = _END.match(frame, place)
    return 0 if match is None else match.end()
