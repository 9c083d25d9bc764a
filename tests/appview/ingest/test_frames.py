"""Messages of the firehose: which are read, and what is made of them."""

from __future__ import annotations

import time

import pytest

from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import (
    MAX_BLOCKS_BYTES,
    MAX_FRAME_BYTES,
    MAX_ITEMS,
    MAX_OPS,
    AccountEvent,
    CommitEvent,
    ErrorEvent,
    IdentityEvent,
    InfoEvent,
    SyncEvent,
    frame_seq,
    frame_time,
    parse_frame,
)
from tests.network.synthetic import (
    MALFORMED_FRAMES,
    Account,
    Write,
    error_frame,
    frame,
    info_frame,
    oversized_frame,
)

MEMORY = "garden.engram.memory"
POST = "app.bsky.feed.post"


def test_a_commit_is_read_with_all_its_fields() -> None:
    account = Account()
    account.create(MEMORY, "one", {"text": "first"})
    before, since = account.data, account.rev
    event = parse_frame(account.update(MEMORY, "one", {"text": "second"}).frame(17))
    assert isinstance(event, CommitEvent)
    assert (event.seq, event.repo, event.did) == (17, account.did, account.did)
    assert (event.rev, event.since, event.prev_data) == (account.rev, since, before)
    assert account.head is not None
    assert event.commit == account.head[0]
    assert [(op.action, op.path) for op in event.ops] == [("update", f"{MEMORY}/one")]
    assert event.ops[0].cid == account.records[f"{MEMORY}/one"]
    assert event.ops[0].prev not in (None, event.ops[0].cid)
    assert not event.too_big
    assert not event.rebase


def test_every_other_kind_is_read() -> None:
    account = Account("alice.test")
    account.create(MEMORY, "one", {"text": "first"})
    identity, sync = parse_frame(account.identity_frame(2)), parse_frame(account.sync_frame(3))
    assert isinstance(identity, IdentityEvent)
    assert (identity.seq, identity.did, identity.handle) == (2, account.did, "alice.test")
    assert isinstance(sync, SyncEvent)
    assert (sync.seq, sync.did, sync.rev) == (3, account.did, account.rev)
    account.active, account.status = False, "takendown"
    status = parse_frame(account.account_frame(4))
    assert isinstance(status, AccountEvent)
    assert (status.active, status.status) == (False, "takendown")
    assert parse_frame(info_frame("OutdatedCursor", "late")) == InfoEvent("OutdatedCursor", "late")
    assert parse_frame(error_frame("FutureCursor", "early")) == ErrorEvent("FutureCursor", "early")


def test_unknown_types_operations_and_fields_are_skipped() -> None:
    account = Account()
    assert parse_frame(frame("#labels", {"seq": 1, "labels": []})) is None
    draft = account.create(MEMORY, "one", {"text": "first"})
    draft.body["surprise"] = {"a": [1, 2]}
    assert isinstance(parse_frame(draft.frame(1)), CommitEvent)


def test_the_seq_of_a_dropped_message_can_be_read() -> None:
    account = Account()
    assert frame_seq(account.create(POST, "one", {"text": "x"}).frame(4_711)) == 4_711
    assert frame_seq(account.identity_frame(2**40)) == 2**40
    for bad in (
        b"",
        b"\xff",
        error_frame("x"),
        MALFORMED_FRAMES["seq-as-text"],
        MALFORMED_FRAMES["seq-true"],
    ):
        assert frame_seq(bad) is None


@pytest.mark.parametrize("name", MALFORMED_FRAMES)
def test_what_cannot_be_read_is_refused(name: str) -> None:
    with pytest.raises(MalformedFrame):
        parse_frame(MALFORMED_FRAMES[name])


def test_a_message_of_6_mb_is_refused_unread() -> None:
    with pytest.raises(MalformedFrame, match="at most 5000000"):
        parse_frame(oversized_frame(6_000_000))


def test_a_message_may_have_5_mb() -> None:
    base = len(frame("#labels", {"pad": bytes(MAX_FRAME_BYTES - 100)}))
    fits = frame("#labels", {"pad": bytes(2 * MAX_FRAME_BYTES - 100 - base)})
    assert len(fits) == MAX_FRAME_BYTES
    assert parse_frame(fits) is None
    with pytest.raises(MalformedFrame, match="5000001 bytes"):
        parse_frame(fits + b"\x00")


def test_a_message_may_have_4096_items() -> None:
    def with_labels(count: int) -> bytes:
        return frame("#labels", {"labels": ["x" * 3] * count})

    others = 1 + 4 + 1 + 2  # the header, and the body without its labels
    assert parse_frame(with_labels(MAX_ITEMS - others)) is None
    with pytest.raises(MalformedFrame, match="more than 4096 items"):
        parse_frame(with_labels(MAX_ITEMS - others + 1))
    assert frame_seq(with_labels(MAX_ITEMS)) is None


def test_5_mb_of_empty_lists_cost_next_to_nothing() -> None:
    for unit in (b"\x80", b"\x81\x80", b"\xa0"):
        count = 4_900_000 // len(unit)
        message = frame("#identity", {})[:-1] + b"\xa1\x63did\x9a" + count.to_bytes(4, "big") + unit * count
        started = time.process_time()
        with pytest.raises(MalformedFrame, match="more than 4096 items"):
            parse_frame(message)
        assert frame_seq(message) is None
        assert frame_time(message) is None
        assert time.process_time() - started < 0.1


def test_a_commit_of_too_many_items_tells_whose_it_was() -> None:
    account = Account()
    draft = account.create(POST, "3k2aaaaaaaa22", {"text": "x"})
    draft.body["zzzzzzzzz"] = [[]] * 5_000
    with pytest.raises(MalformedFrame, match="more than 4096 items") as caught:
        parse_frame(draft.frame(1))
    assert caught.value.did == account.did


def test_a_text_in_a_message_is_not_its_time() -> None:
    draft = Account().create(POST, "dtimex-2020-01-01T00:00:00.000000000000000000000000Z", {"text": "x"})
    sent = frame_time(draft.frame(1))
    assert sent is not None
    assert abs(sent - time.time_ns() // 1000) < 60_000_000


def test_blocks_may_have_2_mb_and_a_commit_200_operations() -> None:
    draft = Account().create(MEMORY, "one", {"text": "x"})
    draft.blocks = bytes(MAX_BLOCKS_BYTES)
    assert isinstance(parse_frame(draft.frame(1)), CommitEvent)
    draft.blocks = bytes(MAX_BLOCKS_BYTES + 1)
    with pytest.raises(MalformedFrame, match="bytes of blocks"):
        parse_frame(draft.frame(1))
    draft.blocks = b""
    draft.ops[:] = draft.ops * MAX_OPS
    assert isinstance(parse_frame(draft.frame(1)), CommitEvent)
    draft.ops.append(draft.ops[0])
    with pytest.raises(MalformedFrame, match="201 operations"):
        parse_frame(draft.frame(1))


def test_a_malformed_message_tells_whose_it_was() -> None:
    account = Account()
    draft = account.draft(Write("create", MEMORY, "one", {"text": "x"}))
    draft.body["rev"] = "not a tid"
    with pytest.raises(MalformedFrame, match="rev is not a TID") as caught:
        parse_frame(draft.frame(1))
    assert caught.value.did == account.did
    with pytest.raises(MalformedFrame) as caught:
        parse_frame(b"\xff")
    assert caught.value.did is None


def test_a_host_cannot_fill_the_log() -> None:
    event = parse_frame(error_frame("x" * 100_000, "y" * 100_000))
    assert isinstance(event, ErrorEvent)
    assert len(event.error) + len(event.message) < 5_000
