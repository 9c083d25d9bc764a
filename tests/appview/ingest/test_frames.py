"""Messages of the firehose: which are read, and what is made of them."""

from __future__ import annotations

import pytest

from appview.ingest.errors import MalformedFrame
from appview.ingest.frames import (
    MAX_BLOCKS_BYTES,
    MAX_FRAME_BYTES,
    MAX_OPS,
    AccountEvent,
    CommitEvent,
    ErrorEvent,
    IdentityEvent,
    InfoEvent,
    SyncEvent,
    concerns,
    frame_seq,
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

NEEDLE = b"garden.engram"
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


def test_a_commit_without_our_bytes_does_not_concern_us() -> None:
    account = Account()
    post = account.create(POST, "one", {"text": "hello"}).frame(1)
    memory = account.create(MEMORY, "one", {"text": "hello"}).frame(2)
    assert not concerns(post, NEEDLE, frozenset())
    assert concerns(memory, NEEDLE, frozenset())
    for other in (account.identity_frame(3), account.sync_frame(4), account.account_frame(5), b"", b"junk"):
        assert concerns(other, NEEDLE, frozenset())
    assert concerns(error_frame("ConsumerTooSlow"), NEEDLE, frozenset())


@pytest.mark.parametrize(
    "did", ["did:plc:" + "a" * 24, "did:web:a.io", "did:web:" + "b" * 60 + ".example.com"]
)
def test_every_commit_of_a_tracked_repo_concerns_us(did: str) -> None:
    account = Account(did=did)
    post = account.create(POST, "drepoxdid:one", {"text": "drepo"}).frame(1)
    assert concerns(post, NEEDLE, {did.encode()})
    assert not concerns(post, NEEDLE, {b"did:plc:other"})


def test_our_operations_are_seen_behind_any_other() -> None:
    account = Account()
    both = account.draft(
        Write("create", "com.hundredrepo.post", "one", {"text": "x"}),
        Write("create", MEMORY, "one", {"text": "hello"}),
    )
    assert concerns(both.frame(1), NEEDLE, frozenset())


def test_our_name_in_a_text_is_not_an_operation_of_ours() -> None:
    account = Account()
    post = account.create(POST, "one", {"text": "I like garden.engram.memory"}).frame(1)
    assert not concerns(post, NEEDLE, frozenset())


def test_a_message_that_is_cut_off_anywhere_is_only_judged() -> None:
    frame = Account().create(POST, "one", {"text": "x"}).frame(1)
    for size in range(len(frame)):
        assert concerns(frame[:size], NEEDLE, frozenset()) in (True, False)


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
