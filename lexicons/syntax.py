"""String types of the AT Protocol, each a `str` whose constructor checks it.

Source: the syntax pages of atproto.com/specs (did, handle, nsid, at-uri-scheme, tid, record-key).
A value of one of these types is valid; nothing downstream checks again.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final, Self

from lexicons.errors import InvalidSyntax
from lexicons.measures import exceeds_bytes, utf8_length

MAX_DID_LENGTH: Final = 2048  # bytes, did spec
MAX_HANDLE_LENGTH: Final = 253  # bytes, handle spec
MAX_NSID_LENGTH: Final = 317  # bytes, nsid spec
MAX_RECORD_KEY_LENGTH: Final = 512  # bytes, record-key spec
MAX_AT_URI_LENGTH: Final = 8192  # bytes, at-uri spec
MAX_URI_LENGTH: Final = 8192  # bytes, lexicon spec, format `uri`
MAX_LANGUAGE_LENGTH: Final = 128  # bytes; BCP 47 sets no limit, no registered tag comes near it

_DID = re.compile(r"did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]", re.ASCII)
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HANDLE = re.compile(rf"(?:{_LABEL}\.)+[a-zA-Z](?:[a-zA-Z0-9-]{{0,61}}[a-zA-Z0-9])?", re.ASCII)
_NSID = re.compile(
    rf"[a-zA-Z](?:[a-zA-Z0-9-]{{0,61}}[a-zA-Z0-9])?(?:\.{_LABEL})+\.[a-zA-Z][a-zA-Z0-9]{{0,62}}", re.ASCII
)
_RECORD_KEY = re.compile(r"[a-zA-Z0-9_~.:-]{1,512}", re.ASCII)
_TID = re.compile(r"[234567abcdefghij][234567abcdefghijklmnopqrstuvwxyz]{12}", re.ASCII)
_TID_ALPHABET: Final = "234567abcdefghijklmnopqrstuvwxyz"
_TID_DIGITS: Final = str.maketrans(
    _TID_ALPHABET, "0123456789abcdefghijklmnopqrstuv"
)  # as `int` reads base 32
_CID = re.compile(r"[a-zA-Z0-9+=]{8,256}", re.ASCII)
_URI = re.compile(r"[a-z][a-z.+-]{0,80}:[^\s\x00-\x1f\x7f]+")
_LANGUAGE = re.compile(r"(?:[iIxX]|[a-z]{2,3})(?:-[a-zA-Z0-9]+)*", re.ASCII)
_LANGUAGE_VARIANT = re.compile(r"[a-z0-9]{5,8}|[0-9][a-z0-9]{3}", re.ASCII)


class _Checked(str):
    """A string checked on construction."""

    __slots__ = ()
    kind: ClassVar[str]

    def __new__(cls, value: str) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise InvalidSyntax(cls.kind, repr(value), "not a string")
        reason = cls._why_invalid(value)
        if reason is not None:
            raise InvalidSyntax(cls.kind, value, reason)
        return super().__new__(cls, value)

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        raise NotImplementedError

    @classmethod
    def is_valid(cls, value: str) -> bool:
        """Tell whether `value` would be accepted."""
        return cls._why_invalid(value) is None


class Did(_Checked):
    """A decentralised identifier: `did:plc:...`, `did:web:...`."""

    __slots__ = ()
    kind = "DID"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if len(value) > MAX_DID_LENGTH:
            return f"{len(value)} bytes, at most {MAX_DID_LENGTH}"
        return None if _DID.fullmatch(value) else "expected did:<method>:<id>"

    @property
    def method(self) -> str:
        """`plc`, `web`, ..."""
        return self.split(":", 2)[1]


class Handle(_Checked):
    """A domain name that stands for an account."""

    __slots__ = ()
    kind = "handle"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if len(value) > MAX_HANDLE_LENGTH:
            return f"{len(value)} bytes, at most {MAX_HANDLE_LENGTH}"
        return None if _HANDLE.fullmatch(value) else "expected a domain name"


class Nsid(_Checked):
    """A namespaced identifier: `garden.engram.memory`."""

    __slots__ = ()
    kind = "NSID"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if len(value) > MAX_NSID_LENGTH:
            return f"{len(value)} bytes, at most {MAX_NSID_LENGTH}"
        return None if _NSID.fullmatch(value) else "expected a reversed domain and a name"


class RecordKey(_Checked):
    """The name of a record inside its collection."""

    __slots__ = ()
    kind = "record key"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if value in (".", "..") or not _RECORD_KEY.fullmatch(value):
            return f"expected 1 to {MAX_RECORD_KEY_LENGTH} of A-Z a-z 0-9 _ ~ . : -"
        return None


class Tid(_Checked):
    """A timestamp identifier: 53 bits of microseconds and 10 bits of clock id, sortable as text."""

    __slots__ = ()
    kind = "TID"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        return None if _TID.fullmatch(value) else "expected 13 characters of base32-sortable"

    @classmethod
    def from_micros(cls, micros: int, clock_id: int = 0) -> Self:
        """Make the TID of a time in microseconds since 1970 and a clock id of 10 bits."""
        if not 0 <= micros < 1 << 53:
            raise InvalidSyntax(cls.kind, str(micros), "microseconds must fit in 53 bits")
        number = micros << 10 | (clock_id & 0x3FF)
        return cls("".join(_TID_ALPHABET[number >> shift & 31] for shift in range(60, -1, -5)))

    @property
    def micros(self) -> int:
        """Microseconds since 1970."""
        return int(self.translate(_TID_DIGITS), 32) >> 10


class Cid(_Checked):
    """A content identifier in text form, checked for form only."""

    __slots__ = ()
    kind = "CID"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if value.startswith("Qm"):
            return "version 0 is not supported"
        return None if _CID.fullmatch(value) else "expected a multibase string"


class Uri(_Checked):
    """Any URI, checked as loosely as the lexicon format asks."""

    __slots__ = ()
    kind = "URI"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if exceeds_bytes(value, MAX_URI_LENGTH):
            return f"{utf8_length(value)} bytes, at most {MAX_URI_LENGTH}"
        return None if _URI.fullmatch(value) else "expected <scheme>:<rest>"


class Language(_Checked):
    """A BCP 47 language tag."""

    __slots__ = ()
    kind = "language tag"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if len(value) > MAX_LANGUAGE_LENGTH:
            return f"{len(value)} bytes, at most {MAX_LANGUAGE_LENGTH}"
        if not _LANGUAGE.fullmatch(value):
            return "expected a BCP 47 tag"
        return "a subtag is repeated" if _repeats_subtag(value) else None


def _repeats_subtag(tag: str) -> bool:
    """Tell whether a variant or an extension's singleton comes twice (RFC 5646 2.2.5 and 2.2.6)."""
    first, *subtags = tag.lower().split("-")
    if len(first) == 1:
        return False  # grandfathered or private use as a whole
    seen: set[str] = set()
    in_extension = False
    for subtag in subtags:
        if subtag == "x":
            return False
        singleton = len(subtag) == 1
        in_extension = in_extension or singleton
        if singleton or (not in_extension and _LANGUAGE_VARIANT.fullmatch(subtag)):
            if subtag in seen:
                return True
            seen.add(subtag)
    return False


def at_identifier(value: str) -> Did | Handle:
    """Read an account's DID or handle; raise `InvalidSyntax`."""
    return Did(value) if value.startswith("did:") else Handle(value)


class AtUri(_Checked):
    """A URI of the AT Protocol: `at://<account>[/<collection>[/<record key>]]`."""

    __slots__ = ()
    kind = "AT URI"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if len(value) > MAX_AT_URI_LENGTH:
            return f"{len(value)} bytes, at most {MAX_AT_URI_LENGTH}"
        if not value.startswith("at://"):
            return "expected at://"
        authority, *rest = value[5:].split("/")
        if not (Did.is_valid(authority) if authority.startswith("did:") else Handle.is_valid(authority)):
            return "the account is neither a DID nor a handle"
        if len(rest) > 2:
            return "more than a collection and a record key"
        if rest and not Nsid.is_valid(rest[0]):
            return "the collection is not an NSID"
        if len(rest) == 2 and not RecordKey.is_valid(rest[1]):
            return "the record key is not valid"
        return None

    @classmethod
    def of_record(cls, repo: Did, collection: Nsid, rkey: str) -> Self:
        """Name a record by its three parts."""
        return cls(f"at://{repo}/{collection}/{rkey}")

    @property
    def authority(self) -> Did | Handle:
        """The account, as written."""
        return at_identifier(self[5:].split("/", 1)[0])

    @property
    def collection(self) -> Nsid | None:
        """The collection, where there is one."""
        parts = self[5:].split("/")
        return Nsid(parts[1]) if len(parts) > 1 else None

    @property
    def rkey(self) -> RecordKey | None:
        """The record key, where there is one."""
        parts = self[5:].split("/")
        return RecordKey(parts[2]) if len(parts) > 2 else None
