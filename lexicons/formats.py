"""The string formats of the lexicon language, each as a predicate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lexicons.datetimes import Datetime
from lexicons.syntax import AtUri, Cid, Did, Handle, Language, Nsid, RecordKey, Tid, Uri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def is_at_identifier(value: str) -> bool:
    """Tell whether `value` is a DID or a handle."""
    return Did.is_valid(value) if value.startswith("did:") else Handle.is_valid(value)


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "at-identifier": is_at_identifier,
    "at-uri": AtUri.is_valid,
    "cid": Cid.is_valid,
    "datetime": Datetime.is_valid,
    "did": Did.is_valid,
    "handle": Handle.is_valid,
    "language": Language.is_valid,
    "nsid": Nsid.is_valid,
    "record-key": RecordKey.is_valid,
    "tid": Tid.is_valid,
    "uri": Uri.is_valid,
}
