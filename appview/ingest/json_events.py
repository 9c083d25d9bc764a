"""Messages of Jetstream and Tap, from JSON to events. Everything in them is a claim, read field by field.

A record comes as JSON; its bytes, and so its CID, are made from that. Where they do not give the CID that the
message names (the record is not in order, or the source changed it), the claim is kept without the bytes and
the record is asked for.

Source: github.com/bluesky-social/jetstream and github.com/bluesky-social/indigo (cmd/tap).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from appview.ingest.claims import ClaimEvent
from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import MAX_SEQ, MAX_TEXT, AccountEvent, IdentityEvent
from lexicons.data import MAX_RECORD_BYTES, cid_from_text, cid_of, encode, record_from_json
from lexicons.errors import InvalidData, InvalidSyntax
from lexicons.ids import NAMESPACE
from lexicons.syntax import Did, Nsid, RecordKey, Tid

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonEvent = ClaimEvent | IdentityEvent | AccountEvent

# Values and keys in a message; ours: the 500 that a record may have (`lexicons.data`), twice for what JSON
# writes as an object and CBOR as one item, and as many for the message around it.
MAX_ITEMS: Final = 2_000
MAX_QUOTES: Final = 100_000  # quotes and backslashes; ours: a text of 30,000 bytes may be all escapes
HEAD_BYTES: Final = 400  # where a message says whose it is and which, before the record

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_DID = re.compile(rb'"did":\s*"(did:[a-z]+:[a-zA-Z0-9._:%-]{1,200})"')
_TIME = re.compile(rb'"time_us":\s*([0-9]{1,18})[,}\s]')
_ID = re.compile(rb'\{\s*"id":\s*([0-9]{1,18})[,}\s]')
_ACTIONS: Final = frozenset({"create", "update", "delete"})
_PREFIX: Final = NAMESPACE + "."
_T = TypeVar("_T")


def read_message(message: bytes) -> dict[str, Any]:
    """Read the JSON object of a message; raise `MalformedFrame`, with its account where the head tells."""
    try:
        return _object(message)
    except MalformedFrame as error:
        named = _DID.search(message, 0, HEAD_BYTES)
        if named is not None and Did.is_valid(named[1].decode()):
            error.did = Did(named[1].decode())
        raise


def glance(message: bytes) -> int | None:
    """Find the position or number of a message that cannot be read, at its beginning."""
    found = _ID.match(message, 0, HEAD_BYTES) or _TIME.search(message, 0, HEAD_BYTES)
    return None if found is None else int(found[1])


def _object(message: bytes) -> dict[str, Any]:
    if _is_crowded(message):
        raise MalformedFrame(f"more than {MAX_ITEMS} values")
    try:
        value = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise MalformedFrame(f"not JSON: {str(error)[:100]}") from None
    if type(value) is not dict:
        raise MalformedFrame("not an object")
    return value


def _is_crowded(message: bytes) -> bool:
    """Tell whether a message has more than `MAX_ITEMS` values, before they are read; texts count as one."""
    if len(message) <= MAX_ITEMS or _marks(message) < MAX_ITEMS:
        return False
    if message.count(b'"') + message.count(b"\\") > MAX_QUOTES:
        return True
    return _marks(_STRING.sub(b"", message)) >= MAX_ITEMS


def _marks(message: bytes) -> int:
    """Count what stands before a value: one more than there are at most."""
    return sum(map(message.count, (b",", b":", b"[", b"{")))


def jetstream_position(message: Mapping[str, Any]) -> int | None:
    """Read a message's `time_us`, microseconds since 1970; None where it has none."""
    return _number(message.get("time_us"))


def jetstream_events(message: Mapping[str, Any], *, trusted: bool) -> tuple[JsonEvent, ...]:
    """Read what a Jetstream message says that concerns us; raise `MalformedFrame`."""
    match message.get("kind"):
        case "commit":
            did, commit = _did(message), _field(message, "commit", dict)
            try:
                return _claims(did, commit, _field(commit, "operation", str), trusted=trusted)
            except MalformedFrame as error:
                error.did = did
                raise
        case "identity":
            return (_identity(_field(message, "identity", dict)),)
        case "account":
            account = _field(message, "account", dict)
            return (_account(_did(account), _field(account, "active", bool), account.get("status")),)
    return ()


def tap_id(message: Mapping[str, Any]) -> int | None:
    """Read the number by which a Tap message is acknowledged; None where it has none."""
    return _number(message.get("id"))


def tap_events(message: Mapping[str, Any], *, trusted: bool) -> tuple[JsonEvent, ...]:
    """Read what a Tap message says that concerns us; raise `MalformedFrame`."""
    match message.get("type"):
        case "record":
            record = _field(message, "record", dict)
            did = _did(record)
            try:
                return _claims(did, record, _field(record, "action", str), trusted=trusted)
            except MalformedFrame as error:
                error.did = did
                raise
        case "identity" | "user" as kind:
            account = _field(message, kind, dict)
            active = account.get("is_active", account.get("isActive"))
            identity = _identity(account)
            if type(active) is not bool:
                return (identity,)
            return identity, _account(identity.did, active, account.get("status"))
    return ()


def _claims(did: Did, commit: dict[str, Any], action: str, *, trusted: bool) -> tuple[JsonEvent, ...]:
    name = _field(commit, "collection", str)
    if not name.startswith(_PREFIX):
        return ()
    rev = _field(commit, "rev", str)
    if not Tid.is_valid(rev):
        raise MalformedFrame("rev is not a TID")
    if action not in _ACTIONS:
        raise MalformedFrame(f"the unknown action {action[:40]!r}")
    try:
        collection, rkey = Nsid(name), RecordKey(_field(commit, "rkey", str))
        cid = None if action == "delete" else cid_from_text(_field(commit, "cid", str))
    except (InvalidSyntax, InvalidData) as error:
        raise MalformedFrame(str(error)[:200]) from None
    block = None if cid is None else _block(commit.get("record"), cid)
    return (ClaimEvent(did, rev, collection, rkey, cid, block, trusted),)


def _block(record: Any, cid: bytes) -> bytes | None:
    """Make a record's bytes; None where they are not those of `cid`."""
    try:
        block = encode(record_from_json(record))
    except InvalidData:
        return None
    return block if len(block) <= MAX_RECORD_BYTES and cid_of(block) == cid else None


def _identity(body: dict[str, Any]) -> IdentityEvent:
    handle = body.get("handle")
    return IdentityEvent(0, _did(body), handle if type(handle) is str else None, "")


def _account(did: Did, active: bool, status: Any) -> AccountEvent:
    if status is not None and type(status) is not str:
        raise MalformedFrame("status is not text")
    return AccountEvent(0, did, active, None if active or not status else status[:MAX_TEXT], "")


def _did(body: Mapping[str, Any]) -> Did:
    try:
        return Did(_field(body, "did", str))
    except InvalidSyntax:
        raise MalformedFrame("did is not a DID") from None


def _field(body: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
    value = body.get(name)
    if type(value) is not kind:
        raise MalformedFrame(f"{name} is missing or not {kind.__name__}")
    return value


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_SEQ else None
