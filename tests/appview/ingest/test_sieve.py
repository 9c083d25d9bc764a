"""Commits that are passed over unread: none that a decoder would find to concern us, whatever its bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cbrrr
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import CommitEvent, parse_frame
from appview.ingest.sieve import account_of, concerns
from tests.conftest import EXAMPLES
from tests.network.synthetic import MALFORMED_FRAMES, Account, Write, error_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS = b"garden.engram."
MEMORY = "garden.engram.memory"
POST = "app.bsky.feed.post"
LIKE = "app.bsky.feed.like"
ALICE, BOB = "did:plc:" + "a" * 24, "did:web:bobby.example.com"
SHORT = "did:web:a.io"
TRACKED = frozenset({ALICE.encode(), BOB.encode(), SHORT.encode()})
NOBODY: frozenset[bytes] = frozenset()

# What imitates a part of a commit, in any text, name or bytes of it.
END = "factionfcreate" + "crevm" + "a" * 13 + "cseq\x01" + "drepox\x20did:plc:" + "b" * 24
DECEPTIONS = [
    f"{POST}/3k2aaaaaaaa22{END}",
    "drepoodid:x",
    f"drepox {ALICE}",
    f"drepo{chr(0x78)}{chr(0x20)}did:plc:" + "b" * 24,
    "factionfcreatecrevmaaaaaaaaaaaaacseq",
    f"{POST}/x" + "factionfdeletecrevm" + "a" * 13 + "cseqadrepoxdid:",
    MEMORY,
    f"{MEMORY}/x",
    f"{POST}/garden.engram.memory",
    "cops\x81\xa3ccid",
    "dprev\xf6faction",
]


# Ordinary commits


@pytest.mark.parametrize(
    "writes",
    [
        [Write("create", POST, "3k2aaaaaaaa22", {"text": "hello"})],
        [Write("create", LIKE, f"3k2aaaaaaaa{number:02d}", {"text": "x"}) for number in range(12)],
        [Write("create", POST, "x" * (255 - len(POST) - 1), {"text": "hello"})],
        [Write("create", POST, "I.like:garden.engram.memory", {"text": "garden.engram.memory"})],
        [Write("create", "app.bsky.actor.profile", "self", {}), Write("create", POST, "3k2aaaaaaaa22", {})],
        [],
    ],
    ids=["one", "twelve", "long path", "our name inside", "two kinds", "none"],
)
@pytest.mark.parametrize("did", [ALICE, BOB, "did:web:" + "b" * 60 + ".example.com"])
def test_ordinary_commits_of_others_are_passed_over(writes: list[Write], did: str) -> None:
    account = Account(did=did)
    frame = account.draft(*writes).frame(2**33)
    assert not concerns(frame, OURS, NOBODY)
    assert not concerns(frame, OURS, {b"did:plc:other"})
    assert concerns(frame, OURS, {did.encode()})


@pytest.mark.parametrize("action", ["update", "delete"])
def test_updates_and_deletes_of_others_are_passed_over(action: str) -> None:
    account = Account(did=ALICE)
    account.create(POST, "3k2aaaaaaaa22", {"text": "hello"})
    value = {"text": "new"} if action == "update" else None
    frame = account.draft(Write(action, POST, "3k2aaaaaaaa22", value)).frame(1)
    assert not concerns(frame, OURS, NOBODY)
    assert concerns(frame, OURS, TRACKED)


@pytest.mark.parametrize("place", [0, 1, 5])
def test_an_operation_of_ours_is_seen_anywhere(place: int) -> None:
    writes = [Write("create", POST, f"3k2aaaaaaaa{number:02d}", {}) for number in range(5)]
    writes.insert(place, Write("create", MEMORY, "3k2aaaaaaaa22", {"text": "hello"}))
    assert concerns(Account().draft(*writes).frame(1), OURS, NOBODY)


# Deceptions


@pytest.mark.parametrize(
    "rkey", ["drepoodid:x", "drepoxdid:one", "dreposdid:plc:bbbbbbbbb", "copsdrepo-did:x:y"]
)
def test_a_path_that_imitates_the_account_hides_nothing(rkey: str) -> None:
    alice = Account(did=ALICE)
    alice.create(MEMORY, "one", {"text": "secret"})
    hidden = alice.draft(Write("create", "app.foo.bar", rkey, {"a": 1}), Write("delete", MEMORY, "one"))
    assert concerns(hidden.frame(1), OURS, TRACKED)
    assert concerns(hidden.frame(1), OURS, NOBODY)
    other = alice.draft(Write("create", "app.foo.bar.long.enough", rkey, {"a": 1}))
    assert concerns(other.frame(2), OURS, TRACKED)


@pytest.mark.parametrize("tail", ["factionfcreate", "factionfdeletecrevm" + "a" * 13])
def test_a_path_that_imitates_its_own_end_hides_nothing(tail: str) -> None:
    alice = Account(did=ALICE)
    frame = alice.draft(Write("create", "app.foo.bar.baz", "x" * 20 + tail, {"a": 1})).frame(1)
    assert concerns(frame, OURS, TRACKED)


@pytest.mark.parametrize("path", [f"{POST}/3k2aaaaaaaa22{END}", f"{POST}/self{END}" + "x" * 100])
@pytest.mark.parametrize("more", [[], [("prev", None)]])
def test_a_path_that_imitates_all_that_follows_it_hides_nothing(
    path: str, more: list[tuple[str, None]]
) -> None:
    first = Fields([("cid", None), ("path", path), *more, ("action", "delete")])
    second = Fields([("cid", None), ("path", f"{MEMORY}/3k2aaaaaaaa22"), ("action", "delete")])
    for ops in ([first], [first, first]):
        assert concerns(commit(ops), OURS, TRACKED)
    assert concerns(commit([first, second]), OURS, NOBODY)
    assert verdict(commit([first, second]), NOBODY)


@pytest.mark.parametrize("repo", [SHORT, BOB])
def test_blocks_that_imitate_the_account_hide_nothing(repo: str) -> None:
    op = Fields([("cid", None), ("path", f"{POST}/3k2aaaaaaaa22"), ("action", "delete")])
    assert concerns(commit([op], repo, END.encode()), OURS, TRACKED)


def test_two_headers_an_error_or_nothing_at_all_are_read() -> None:
    frame = Account(did=ALICE).create(POST, "3k2aaaaaaaa22", {}).frame(1)
    header = frame[: frame.index(b"\xabcops")]
    for odd in (b"", b"junk", header, header + header, header + frame, error_frame("#commit")):
        assert concerns(odd, OURS, NOBODY)


def test_the_decoder_refuses_what_would_be_read_in_two_ways() -> None:
    """What the sieve's argument rests on: one value has one form, and keys ascend."""
    for bad in (
        b"\xa2\x61b\x01\x61a\x01",
        b"\xa2\x61a\x01\x61a\x01",
        b"\xa2\x62aa\x01\x61b\x01",
        b"\xa1\x78\x01a\x01",
        b"\xb8\x01\x61a\x01",
        b"\xbf\x61a\x01\xff",
        b"\xa1\x61a\x01\x00",
    ):
        with pytest.raises(ValueError):
            cbrrr.decode_dag_cbor(bad)


def test_a_message_that_cannot_be_decoded_tells_whose_it_is() -> None:
    frame = Account(did=ALICE).create(POST, "3k2aaaaaaaa22", {}).frame(1)
    assert account_of(frame) == ALICE.encode()
    with pytest.raises(MalformedFrame) as caught:
        parse_frame(frame + b"\x00")
    assert caught.value.did == ALICE
    with pytest.raises(MalformedFrame) as caught:
        parse_frame(b"\xff" + frame)
    assert caught.value.did is None


# Anything at all


@dataclass(frozen=True)
class Raw:
    """Bytes put into a message as they are."""

    data: bytes


@dataclass(frozen=True)
class Wide:
    """Text or a number whose length is written with more bytes than it needs."""

    value: str | int


@dataclass(frozen=True)
class Fields:
    """A map with its fields in this order, whatever they are."""

    items: Sequence[tuple[Any, Any]]


def _head(kind: int, number: int, wide: bool = False) -> bytes:
    if number < 24 and not wide:
        return bytes([kind << 5 | number])
    if number < 256:
        return bytes([kind << 5 | 24, number])
    if number < 65_536:
        return bytes([kind << 5 | 25]) + struct.pack(">H", number)
    return bytes([kind << 5 | 26]) + struct.pack(">I", number & 0xFFFF_FFFF)


def write(value: Any) -> bytes:
    """Write CBOR without a care for its rules."""
    match value:
        case Raw(data):
            return data
        case Wide(inner):
            if isinstance(inner, int):
                return _head(0, inner, wide=True)
            return _head(3, len(inner.encode()), wide=True) + inner.encode()
        case Fields(items):
            return _head(5, len(items)) + b"".join(write(key) + write(each) for key, each in items)
        case None | bool():
            return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
        case int():
            return _head(0, value)
        case bytes():
            return _head(2, len(value)) + value
        case str():
            return _head(3, len(value.encode())) + value.encode()
        case _:
            return _head(4, len(value)) + b"".join(map(write, value))


def commit(ops: list[Fields], repo: str = ALICE, blocks: bytes = b"") -> bytes:
    """A commit of a tracked account, in order."""
    fields = [("ops", ops), ("rev", "3k2aaaaaaaa22"), ("seq", 1), ("repo", repo), ("blocks", blocks)]
    return b"\xa2\x61t\x67#commit\x62op\x01" + write(Fields([*fields, ("commit", LINK)]))


CID = b"\x01\x71\x12\x20" + b"c" * 32
LINK = Raw(b"\xd8\x2a\x58\x25\x00" + CID)
OTHER_LINK = Raw(b"\xd8\x2a\x58\x25\x00" + b"drepoodid:x\x78faction" + b"c" * 18)

texts = st.sampled_from([*DECEPTIONS, "", "x", ALICE, BOB, "did:plc:" + "b" * 24]) | st.text(max_size=30)
links = st.sampled_from([LINK] * 12 + [OTHER_LINK, None, Raw(b"\xd8\x2a\x41\x00")])
keys = st.sampled_from(["3k2aaaaaaaa22", "self", *DECEPTIONS, "x" * 200, "x" * 300])
paths = st.builds("{}/{}".format, st.sampled_from([POST, LIKE, MEMORY, "a.b.c"]), keys) | texts
paths |= st.just(f"{POST}/3k2aaaaaaaa22{END}")
actions = st.sampled_from(["create", "update", "delete", "create", "merge", "action"])


@st.composite
def operations(draw: st.DrawFn) -> Fields:
    fields: list[tuple[Any, Any]] = [("cid", draw(links)), ("path", draw(paths))]
    if draw(st.booleans()):
        fields.append(("prev", draw(links)))
    fields.append(("action", draw(actions)))
    return disturbed(draw, fields)


def disturbed(draw: st.DrawFn, fields: list[tuple[Any, Any]]) -> Fields:
    """Mostly leave fields as they are; else swap, repeat, leave out, put in or rewrite some."""
    for _ in range(draw(st.sampled_from([0] * 9 + [1, 2]))):
        at = draw(st.integers(0, len(fields) - 1)) if fields else 0
        match draw(st.integers(0, 5)):
            case 0 if fields:
                other = draw(st.integers(0, len(fields) - 1))
                fields[at], fields[other] = fields[other], fields[at]
            case 1 if fields:
                fields.insert(draw(st.integers(0, len(fields))), (fields[at][0], draw(texts)))
            case 2 if fields:
                del fields[at]
            case 3:
                fields.insert(at, (draw(texts), draw(texts | st.just([[], {}]))))
            case 4 if fields:
                fields[at] = (Wide(str(fields[at][0])), fields[at][1])
            case _ if fields:
                key, value = fields[at]
                fields[at] = (key, Wide(value) if isinstance(value, str | int) else draw(texts))
    return Fields(fields)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Commits, most of them in order, with deceptions wherever a stranger can put something."""
    body = disturbed(
        draw,
        [
            ("ops", draw(st.lists(operations(), max_size=draw(st.sampled_from([1, 1, 3, 14]))))),
            ("rev", draw(st.sampled_from(["3k2aaaaaaaa22"] * 8 + ["x", "drepoodid:abc"]))),
            ("seq", draw(st.integers(0, 2**32 - 1))),
            ("repo", draw(st.sampled_from([ALICE, BOB, "did:plc:" + "b" * 24, SHORT, "x" * 32]))),
            ("time", "2026-11-30T09:15:00.000Z"),
            ("blobs", []),
            ("since", draw(st.sampled_from([None, "3k2aaaaaaaa22"]))),
            ("blocks", draw(st.binary(max_size=40) | texts.map(str.encode) | st.just(END.encode()))),
            ("commit", draw(links)),
            ("rebase", False),
            ("tooBig", False),
            ("prevData", draw(links)),
        ],
    )
    header = draw(
        st.sampled_from(
            [b"\xa2\x61t\x67#commit\x62op\x01"] * 8
            + [
                b"\xa2\x62op\x01\x61t\x67#commit",
                b"\xa2\x61t\x65#sync\x62op\x01",
                b"\xa1\x62op\x20",
                b"\xa3\x61t\x67#commit\x62op\x01\x63ops\x80",
            ]
        )
    )
    data = bytearray(header + write(body))
    for _ in range(draw(st.sampled_from([0] * 9 + [1, 2]))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


def verdict(frame: bytes, tracked: frozenset[bytes]) -> bool | None:
    """Decode a message and tell whether it concerns us; None where it cannot be decoded."""
    try:
        event = parse_frame(frame)
    except MalformedFrame as error:
        return True if error.did is not None and error.did.encode() in tracked else None
    if not isinstance(event, CommitEvent):
        return event is not None
    ours = any(op.path.startswith(OURS.decode()) for op in event.ops)
    return ours or event.repo.encode() in tracked


@settings(max_examples=EXAMPLES or 400, deadline=None)
@given(messages(), st.sampled_from([TRACKED, NOBODY]))
def test_what_is_passed_over_a_decoder_finds_not_to_concern_us(
    frame: bytes, tracked: frozenset[bytes]
) -> None:
    passed_over = not concerns(frame, OURS, tracked)
    decoded = verdict(frame, tracked)
    event(f"passed over: {passed_over}, decoded: {decoded}")
    if passed_over:
        assert not decoded


@settings(max_examples=EXAMPLES or 200, deadline=None)
@given(st.sampled_from(sorted(MALFORMED_FRAMES)), st.integers(0, 400), st.binary(max_size=4))
def test_nor_does_a_message_that_is_out_of_order(name: str, at: int, junk: bytes) -> None:
    frame = MALFORMED_FRAMES[name]
    frame = frame[:at] + junk + frame[at + len(junk) :]
    if not concerns(frame, OURS, TRACKED):
        assert not verdict(frame, TRACKED)


def test_a_message_that_is_cut_off_anywhere_is_only_judged() -> None:
    frame = Account(did=ALICE).create(POST, "3k2aaaaaaaa22", {"text": "x"}).frame(1)
    for size in range(len(frame)):
        if not concerns(frame[:size], OURS, TRACKED):
            assert not verdict(frame[:size], TRACKED)
        if size > frame.index(ALICE.encode()) + len(ALICE):
            assert concerns(frame[:size], OURS, TRACKED)
