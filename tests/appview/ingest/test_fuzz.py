"""Bytes of strangers: whatever they are, the readers give a value or one of their own errors."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from appview.identity.documents import Identity, parse_document
from appview.identity.errors import InvalidDocument, InvalidKey
from appview.identity.keys import PublicKey
from appview.ingest.car import read_car
from appview.ingest.commits import prove_commit, prove_record, prove_sync
from appview.ingest.errors import MalformedFrame, Rejected
from appview.ingest.frames import CommitEvent, SyncEvent, frame_seq, parse_frame
from appview.ingest.mst import decode_node
from appview.ingest.sieve import concerns
from appview.ingest.snapshots import prove_repo
from lexicons.syntax import Did
from tests.conftest import EXAMPLES
from tests.network.synthetic import Account, Write
from tests.network.synthetic.blocks import CID, encode

MEMORY = "garden.engram.memory"
NOW = time.time_ns() // 1000 + 3_600_000_000  # later than any rev that is made here, however late that is

ACCOUNT = Account("alice.test", pds="https://pds.example.com")
for _number in range(20):
    _DRAFT = ACCOUNT.draft(Write("create", MEMORY, f"r{_number}", {"text": f"memory {_number}"}))
DID, KEY = Did(ACCOUNT.did), PublicKey.from_did_key(ACCOUNT.key.did_key)
COMMIT, SYNC, EXPORT = _DRAFT.frame(1), ACCOUNT.sync_frame(2), ACCOUNT.export()
DOCUMENT = json.dumps(ACCOUNT.document()).encode()
NODES = [block for _, block in ACCOUNT.tree.blocks()]

cbor: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.binary(max_size=40)
    | st.binary(min_size=36, max_size=36).map(CID),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mangled(draw: st.DrawFn, *samples: bytes) -> bytes:
    """A sample with some of its bytes changed, cut out or put in."""
    data = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.integers(0, 3)):
            case 0:
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                del data[at : at + draw(st.integers(1, 50))]
            case 2:
                data[at:at] = draw(st.binary(max_size=10))
            case _:
                del data[at:]
    return bytes(data)


def read_message(data: bytes) -> None:
    concerns(data, b"garden.engram.", frozenset())
    frame_seq(data)
    try:
        event = parse_frame(data)
    except MalformedFrame:
        return
    try:
        if isinstance(event, CommitEvent):
            prove_commit(event, KEY, NOW)
        elif isinstance(event, SyncEvent):
            prove_sync(event, KEY, NOW)
    except Rejected:
        pass


@given(st.binary(max_size=300) | mangled(COMMIT, SYNC, ACCOUNT.identity_frame(3), ACCOUNT.account_frame(4)))
@settings(max_examples=EXAMPLES or 400, deadline=None)
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    read_message(data)


@given(
    st.sampled_from(["#commit", "#sync", "#identity", "#account", "#info", "#other"]),
    st.fixed_dictionaries(
        {},
        optional={
            name: cbor
            for name in (
                *("seq", "repo", "did", "rev", "since", "commit", "blocks", "ops", "prevData", "tooBig"),
                *("rebase", "time", "active", "status", "handle", "name", "message"),
            )
        },
    ),
    st.sampled_from([1, -1, 0, 2, None, "1"]),
)
@settings(max_examples=EXAMPLES or 300, deadline=None)
def test_any_fields_are_a_message_or_malformed(kind: str, body: dict[str, Any], op: Any) -> None:
    read_message(encode({"op": op, "t": kind}) + encode(body))


@given(st.binary(max_size=300) | mangled(EXPORT))
@settings(max_examples=EXAMPLES or 300, deadline=None)
def test_any_bytes_are_a_car_a_repo_and_a_proof_or_refused(data: bytes) -> None:
    for read in (
        lambda: read_car(data),
        lambda: prove_repo(DID, KEY, [data], NOW),
        lambda: prove_record(data, DID, MEMORY, "r1", KEY, NOW),
    ):
        try:
            read()
        except Rejected:
            continue


@given(st.binary(max_size=100) | mangled(*NODES) | cbor.map(encode))
@settings(max_examples=EXAMPLES or 300, deadline=None)
def test_any_bytes_are_a_node_or_refused(data: bytes) -> None:
    try:
        decode_node(data)
    except Rejected as error:
        assert error.reason == "bad-node"


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("alsoKnownAs", "verificationMethod", "service")


@given(
    st.binary(max_size=200)
    | mangled(DOCUMENT)
    | st.fixed_dictionaries({"id": st.just(ACCOUNT.did)}, optional=dict.fromkeys(FIELDS, json_values)).map(
        lambda value: json.dumps(value).encode()
    )
)
@settings(max_examples=EXAMPLES or 300, deadline=None)
def test_any_bytes_are_a_document_or_invalid(data: bytes) -> None:
    with contextlib.suppress(InvalidDocument):
        assert isinstance(parse_document(DID, data), Identity)


@given(
    st.text(max_size=80)
    | st.text("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", max_size=100).map("z".__add__)
)
@settings(max_examples=EXAMPLES or 300, deadline=None)
def test_any_text_is_a_key_or_invalid(text: str) -> None:
    for read in (
        PublicKey.from_multikey,
        PublicKey.from_did_key,
        lambda text: PublicKey.from_legacy("p256", text),
    ):
        try:
            read(text)
        except InvalidKey:
            continue
