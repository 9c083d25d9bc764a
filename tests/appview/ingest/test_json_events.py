"""Messages of Jetstream and Tap, from JSON to events."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.ingest.claims import ClaimEvent
from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import AccountEvent, IdentityEvent
from appview.ingest.json_events import (
    HEAD_BYTES,
    MAX_ITEMS,
    glance,
    jetstream_events,
    jetstream_position,
    read_message,
    tap_events,
    tap_id,
)
from lexicons.data import cid_of, cid_text, encode, to_json
from lexicons.ids import MEMORY
from tests.appview.ingest.world import memory

DID = "did:plc:" + "a" * 24
REV, RKEY = "3kb3fge5lm32x", "3kb3fge5lm22x"
RECORD = memory("compost is warm", "/heap")
BLOCK = encode(RECORD)
CID = cid_text(cid_of(BLOCK))


def commit(**changes: Any) -> dict[str, Any]:
    made = {
        "rev": REV,
        "operation": "create",
        "collection": str(MEMORY),
        "rkey": RKEY,
        "record": to_json(RECORD),
        "cid": CID,
    }
    return {"did": DID, "time_us": 1_725_911_162_329_308, "kind": "commit", "commit": made | changes}


def record(**changes: Any) -> dict[str, Any]:
    made = commit()["commit"]
    made["action"] = made.pop("operation")
    return {"id": 5, "type": "record", "record": {"live": True, "did": DID, **made, **changes}}


def claim(message: dict[str, Any], *, trusted: bool = False) -> ClaimEvent:
    read = jetstream_events if "kind" in message else tap_events
    (event,) = read(message, trusted=trusted)
    assert isinstance(event, ClaimEvent)
    return event


@pytest.mark.parametrize("message", [commit(), record()], ids=["jetstream", "tap"])
def test_a_record_is_a_claim_with_its_bytes(message: dict[str, Any]) -> None:
    event = claim(message)
    assert (event.did, event.rev, event.path) == (DID, REV, (MEMORY, RKEY))
    assert (event.cid, event.record, event.trusted) == (cid_of(BLOCK), BLOCK, False)
    assert not event.is_complete
    assert claim(message, trusted=True).is_complete


@pytest.mark.parametrize(
    "message",
    [
        commit(operation="delete", cid=None, record=None),
        record(action="delete", cid="", record=None),
        record(action="delete"),
    ],
)
def test_a_delete_is_a_claim_of_absence(message: dict[str, Any]) -> None:
    event = claim(message, trusted=True)
    assert (event.cid, event.record, event.is_complete) == (None, None, True)


@pytest.mark.parametrize(
    "altered",
    [
        {"text": "something else"},
        {"embedding": {"$bytes": "!!!!"}},
        {"weight": 0.5},
        {"tags": [{"$link": "nonsense"}]},
    ],
)
def test_bytes_that_do_not_give_the_cid_are_not_used(altered: dict[str, Any]) -> None:
    event = claim(commit(record=to_json(RECORD) | altered), trusted=True)
    assert (event.cid, event.record, event.is_complete) == (cid_of(BLOCK), None, False)


def test_other_collections_are_none_of_ours() -> None:
    assert jetstream_events(commit(collection="app.bsky.feed.post"), trusted=False) == ()
    assert jetstream_events(commit(collection="garden.engrams.memory"), trusted=False) == ()
    assert tap_events(record(collection="app.bsky.feed.post"), trusted=False) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"rev": "x"},
        {"rev": None},
        {"rkey": "a/b"},
        {"rkey": 1},
        {"cid": "bafy"},
        {"cid": None},
        {"collection": 1},
        {"collection": "garden.engram.a/b"},
    ],
)
def test_what_is_not_in_order_is_malformed_and_names_the_account(changes: dict[str, Any]) -> None:
    for read, message in ((jetstream_events, commit(**changes)), (tap_events, record(**changes))):
        with pytest.raises(MalformedFrame) as caught:
            read(message, trusted=True)
        assert caught.value.did == DID


def test_an_unknown_action_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        jetstream_events(commit(operation="upsert"), trusted=True)
    with pytest.raises(MalformedFrame):
        tap_events(record(action="upsert"), trusted=True)


def test_accounts_and_identities_of_jetstream() -> None:
    account = {"active": False, "did": DID, "seq": 1, "time": "x", "status": "deleted"}
    (event,) = jetstream_events({"did": DID, "kind": "account", "account": account}, trusted=False)
    assert event == AccountEvent(0, event.did, False, "deleted", "")
    identity = {"did": DID, "handle": "alice.test", "seq": 1, "time": "x"}
    (event,) = jetstream_events({"did": DID, "kind": "identity", "identity": identity}, trusted=False)
    assert event == IdentityEvent(0, event.did, "alice.test", "")


@pytest.mark.parametrize(
    ("kind", "active", "status", "expected"),
    [
        ("identity", "is_active", "active", (True, None)),
        ("identity", "is_active", "deactivated", (False, "deactivated")),
        ("user", "isActive", "takendown", (False, "takendown")),
    ],
)
def test_tap_tells_identity_and_status_in_one(
    kind: str, active: str, status: str, expected: tuple[bool, str | None]
) -> None:
    body = {"did": DID, "handle": "alice.test", active: status == "active", "status": status}
    identity, account = tap_events({"id": 1, "type": kind, kind: body}, trusted=True)
    assert isinstance(identity, IdentityEvent)
    assert isinstance(account, AccountEvent)
    assert (account.active, account.status) == expected


@pytest.mark.parametrize("value", [None, "5", -1, 2**63, True, 1.5])
def test_a_position_is_a_number_or_nothing(value: object) -> None:
    assert jetstream_position({"time_us": value}) is None
    assert tap_id({"id": value}) is None
    assert (jetstream_position({"time_us": 5}), tap_id({"id": 5})) == (5, 5)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, "\xff", "1" * 5_000])
def test_what_is_no_object_is_malformed(text: str) -> None:
    with pytest.raises(MalformedFrame):
        read_message(text.encode("latin-1"))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(
    [*commit(), *commit()["commit"], *record(), *record()["record"], "identity", "account"]
)


@given(
    st.dictionaries(keys, values),
    st.dictionaries(keys, values),
    st.sampled_from(["commit", "account", "identity"]),
)
def test_no_message_does_more_than_be_malformed(
    outer: dict[str, Any], inner: dict[str, Any], kind: str
) -> None:
    jetstream = commit() | outer | {"kind": kind, kind: commit()["commit"] | inner}
    tap = record() | outer | {"type": "record", "record": record()["record"] | inner}
    for message, read in ((jetstream, jetstream_events), (tap, tap_events)):
        body = read_message(json.dumps(message).encode())
        with suppress(MalformedFrame):
            read(body, trusted=True)


# Messages of many values


def message_with(extra: str) -> bytes:
    made = json.dumps(commit(record="HERE"), separators=(",", ":"))
    return made.replace('"HERE"', extra).encode()


@pytest.mark.parametrize("unit", ["[],", "{},", '{"a":1},', "1.5,", '"x",', '"\\\\",', "9" * 4_000 + ","])
def test_megabytes_of_small_values_are_refused_unread_and_tell_whose_they_are(unit: str) -> None:
    message = message_with("[" + unit * (7_900_000 // len(unit)) + "0]")
    started = time.process_time()
    with suppress(MalformedFrame):
        read_message(message)
        assert len(unit) > 4_000  # few enough, and long
    assert time.process_time() - started < 0.5
    if len(unit) < 100:
        with pytest.raises(MalformedFrame, match="more than 2000 values") as caught:
            read_message(message)
        assert caught.value.did == DID
        assert glance(message) == 1_725_911_162_329_308


def test_a_message_may_have_2000_values() -> None:
    around = message_with("[]")
    marks = sum(map(around.count, (b",", b":", b"[", b"{"))) - around.count(b"did:plc:") * 2
    fits = message_with("[" + "0," * (MAX_ITEMS - marks - 1) + "0]")
    assert read_message(fits)["kind"] == "commit"
    with pytest.raises(MalformedFrame, match="more than 2000 values"):
        read_message(fits.replace(b"[0,", b"[0,0,"))


def test_what_stands_in_a_text_is_no_value() -> None:
    for text in ('[{,:"' * 6_000, "\\" * 30_000, '"' * 30_000, "\u00e9" * 15_000):
        record = {**RECORD, "text": text}
        message = json.dumps(commit(record=to_json(record), cid=cid_text(cid_of(encode(record))))).encode()
        assert claim(read_message(message)).record == encode(record)


def test_the_number_of_a_message_that_cannot_be_read_is_found_at_its_head_alone() -> None:
    broken = json.dumps(record()).encode()[:-1]
    with pytest.raises(MalformedFrame, match="not JSON") as caught:
        read_message(broken)
    assert (caught.value.did, glance(broken)) == (DID, 5)
    for other in (
        b"",
        b"[]",
        b'{"x": "' + b"y" * HEAD_BYTES + b'", "did": "' + DID.encode() + b'", "id": 7}',
    ):
        assert glance(other) is None


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s))
)
def test_no_message_within_the_limit_is_refused(value: Any) -> None:
    message = json.dumps({"pad": "x" * 3_000, "value": value}).encode()
    assert read_message(message)["value"] == value
