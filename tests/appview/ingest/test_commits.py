"""Proving commits: what an honest one yields, and the name of every refusal."""

from __future__ import annotations

import dataclasses
import time

import pytest

from appview.identity.keys import PublicKey
from appview.ingest.commits import MAX_COMMIT_BYTES, MAX_FUTURE, prove_commit, prove_record, prove_sync
from appview.ingest.errors import MalformedFrame, Rejected
from appview.ingest.frames import CommitEvent, SyncEvent, parse_frame
from appview.ingest.mst import EMPTY_TREE
from lexicons.syntax import Did, Tid
from tests.network.synthetic import CORRUPTIONS, K256, P256, RECORDS, Account, Draft, SigningKey, Write
from tests.network.synthetic.blocks import car, cid_of, encode

MEMORY = "garden.engram.memory"
POST = "app.bsky.feed.post"
NOW = time.time_ns() // 1000 + 3_600_000_000  # later than any rev that is made here, however late that is

REASONS = {
    "wrong-key": "bad-signature",
    "flipped-signature": "bad-signature",
    "high-s": "high-s",
    "short-signature": "bad-signature",
    "der-signature": "bad-signature",
    "zero-signature": "bad-signature",
    "bad-record-hash": "bad-block-hash",
    "bad-node-hash": "bad-block-hash",
    "bad-commit-hash": "bad-block-hash",
    "missing-record": "missing-block",
    "missing-root": "missing-block",
    "missing-commit": "missing-block",
    "other-did": "did-mismatch",
    "other-repo": "did-mismatch",
    "other-rev": "rev-mismatch",
    "future-rev": "future-rev",
    "malformed-rev": "malformed-frame",
    "too-big": "too-big",
    "rebase": "rebase",
    "old-version": "bad-commit",
    "wrong-root": "bad-commit",
    "no-root": "malformed-car",
    "op-with-other-cid": "op-mismatch",
    "op-for-other-path": "op-mismatch",
    "delete-of-present": "op-mismatch",
    "hidden-op": "op-mismatch",
    "other-prev-data": "op-mismatch",
    "no-prev-data": "no-prev",
    "truncated-car": "malformed-car",
    "garbage-car": "too-big",
    "empty-car": "malformed-car",
    "lying-length": "too-big",
    "other-codec": "malformed-car",
    "bad-record-path": "bad-op",
    "unknown-action": "bad-op",
    "too-many-ops": "malformed-frame",
    "unsorted-node": "bad-node",
    "duplicate-keys": "bad-node",
    "wrong-prefix": "bad-node",
    "wrong-height": "bad-node",
    "cyclic-link": "bad-block-hash",
}


def key_of(account: Account) -> PublicKey:
    return PublicKey.from_did_key(account.key.did_key)


def event_of(draft: Draft) -> CommitEvent:
    event = parse_frame(draft.frame(1))
    assert isinstance(event, CommitEvent)
    return event


def planted(count: int = 30, key: SigningKey | None = None) -> Account:
    account = Account(key=key)
    for number in range(count):
        account.create(MEMORY, f"{number:04}", {"text": f"memory {number}"})
    return account


@pytest.mark.parametrize("key", [K256(), P256()], ids=["k256", "p256"])
def test_an_honest_commit_yields_its_changes(key: SigningKey) -> None:
    account = planted(key=key)
    before, since, prev = account.data, account.rev, account.records[f"{MEMORY}/0003"]
    record = encode({"text": "new"})
    draft = account.draft(
        Write("create", MEMORY, "new", record),
        Write("update", MEMORY, "0003", {"text": "changed"}),
        Write("delete", MEMORY, "0004"),
        Write("create", POST, "other", {"text": "a post"}),
    )
    proven = prove_commit(event_of(draft), key_of(account), NOW)
    assert (proven.did, proven.rev, proven.since) == (account.did, account.rev, since)
    assert (proven.prev_data, proven.data) == (before, account.data)
    create, update, delete, post = proven.ops
    assert (create.action, create.collection, create.rkey) == ("create", MEMORY, "new")
    assert (create.cid, create.record, create.prev) == (cid_of(record), record, None)
    assert (update.action, update.cid, update.prev) == ("update", account.records[f"{MEMORY}/0003"], prev)
    assert (delete.action, delete.cid, delete.record) == ("delete", None, None)
    assert post.collection == POST


def test_the_first_commit_of_a_repo_starts_from_the_empty_tree() -> None:
    account = Account()
    proven = prove_commit(event_of(account.create(MEMORY, "one", {"text": "x"})), key_of(account), NOW)
    assert proven.prev_data == EMPTY_TREE
    assert proven.since is None


def test_a_commit_may_change_nothing_and_may_empty_the_repo() -> None:
    account = planted(1)
    same = prove_commit(event_of(account.draft()), key_of(account), NOW)
    assert same.ops == ()
    assert same.data == same.prev_data
    emptied = prove_commit(event_of(account.delete(MEMORY, "0000")), key_of(account), NOW)
    assert emptied.data == EMPTY_TREE


def test_of_several_changes_of_one_record_the_last_counts() -> None:
    account = planted()
    draft = account.draft(
        Write("create", MEMORY, "twice", {"text": "first"}),
        Write("update", MEMORY, "twice", {"text": "second"}),
        Write("create", MEMORY, "gone", {"text": "never seen"}),
        Write("delete", MEMORY, "gone"),
    )
    draft.drop.add(draft.ops[2]["cid"].cid_bytes)  # nobody needs it any more
    proven = prove_commit(event_of(draft), key_of(account), NOW)
    assert [(op.action, op.rkey) for op in proven.ops] == [("update", "twice"), ("delete", "gone")]


def test_what_a_commit_changed_is_told_from_the_version_before_its_first_operation() -> None:
    account = planted()
    before = account.records[f"{MEMORY}/0003"]
    proven = prove_commit(
        event_of(
            account.draft(
                Write("delete", MEMORY, "0003"),
                Write("create", MEMORY, "0003", {"text": "another"}),
                Write("create", MEMORY, "new", {"text": "first"}),
                Write("delete", MEMORY, "new"),
                Write("create", MEMORY, "new", {"text": "second"}),
                Write("update", MEMORY, "0004", {"text": "once"}),
                Write("delete", MEMORY, "0004"),
            )
        ),
        key_of(account),
        NOW,
    )
    assert [(op.rkey, op.prev is not None, op.cid is not None) for op in proven.ops] == [
        ("0003", True, True),
        ("new", False, True),
        ("0004", True, False),
    ]
    assert proven.ops[0].prev == before


def test_a_create_that_names_a_version_before_is_not_believed() -> None:
    account = planted()
    draft = account.create(MEMORY, "new", {"text": "x"})
    draft.ops[0]["prev"] = draft.ops[0]["cid"]
    assert prove_commit(event_of(draft), key_of(account), NOW).ops[0].prev is None


def test_two_hundred_operations_are_proven_at_once() -> None:
    account = planted()
    writes = [Write("create", MEMORY, f"new-{number}", {"text": str(number)}) for number in range(200)]
    assert len(prove_commit(event_of(account.draft(*writes)), key_of(account), NOW).ops) == 200


def test_every_corruption_has_its_reason() -> None:
    assert set(REASONS) == set(CORRUPTIONS)


@pytest.mark.parametrize("curve", [K256, P256], ids=["k256", "p256"])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupt_commit_is_refused_by_name(name: str, curve: type[SigningKey]) -> None:
    account = planted(key=curve())
    draft = account.create(MEMORY, "one", {"text": "corrupt"})
    prove_commit(event_of(draft), key_of(account), NOW)  # honest until now
    CORRUPTIONS[name](draft)
    if REASONS[name] == "malformed-frame":
        with pytest.raises(MalformedFrame):
            event_of(draft)
        return
    with pytest.raises(Rejected) as caught:
        prove_commit(event_of(draft), key_of(account), NOW)
    assert caught.value.reason == REASONS[name]


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_is_not_in_order_does_not_make_its_commit_false(name: str) -> None:
    account = planted(3)
    proven = prove_commit(event_of(account.create(MEMORY, "odd", RECORDS[name])), key_of(account), NOW)
    assert proven.ops[0].record == RECORDS[name]


def test_a_rev_may_be_five_minutes_ahead() -> None:
    account = planted(1)
    rev = str(Tid.from_micros(NOW + MAX_FUTURE))
    event = event_of(account.draft(Write("create", MEMORY, "one", {"text": "x"}), rev=rev))
    prove_commit(event, key_of(account), NOW)
    with pytest.raises(Rejected, match="future-rev"):
        prove_commit(event, key_of(account), NOW - 1)


def test_a_commit_is_not_proven_by_a_key_of_the_other_curve() -> None:
    account = planted(1)
    with pytest.raises(Rejected, match="bad-signature"):
        prove_commit(event_of(account.draft()), PublicKey.from_did_key(P256().did_key), NOW)


def test_a_sync_message_proves_where_the_repo_stands() -> None:
    account = planted(5)
    event = parse_frame(account.sync_frame(9))
    assert isinstance(event, SyncEvent)
    signed = prove_sync(event, key_of(account), NOW)
    assert (signed.did, signed.rev, signed.data) == (account.did, account.rev, account.data)
    with pytest.raises(Rejected, match="bad-signature"):
        prove_sync(event, key_of(Account()), NOW)


def test_a_sync_message_names_the_rev_that_is_signed() -> None:
    account = planted(5)
    account.draft(rev=str(Tid.from_micros(NOW + 365 * 86_400_000_000)))
    frozen = parse_frame(account.sync_frame(9))
    assert isinstance(frozen, SyncEvent)
    with pytest.raises(Rejected, match="future-rev"):
        prove_sync(frozen, key_of(account), NOW)
    disguised = dataclasses.replace(frozen, rev=str(Tid.from_micros(NOW)))
    with pytest.raises(Rejected, match="rev-mismatch"):
        prove_sync(disguised, key_of(account), NOW)


def test_a_record_is_not_proven_as_of_a_rev_to_come() -> None:
    account = planted(5)
    account.draft(rev=str(Tid.from_micros(NOW + MAX_FUTURE)))
    did, key, proof = Did(account.did), key_of(account), account.record_proof(f"{MEMORY}/0003")
    assert prove_record(proof, did, MEMORY, "0003", key, NOW).rev == account.rev
    with pytest.raises(Rejected, match="future-rev"):
        prove_record(proof, did, MEMORY, "0003", key, NOW - 1)


def test_a_commit_object_may_have_4_kb() -> None:
    account = planted(1)
    draft = account.draft()

    def signed(size: int) -> CommitEvent:
        draft.unsigned["pad"] = bytes(size)
        draft.signature = account.key.sign(encode(draft.unsigned))
        return event_of(draft)

    signed(1_000)
    room = MAX_COMMIT_BYTES - (len(draft.commit_block()[1]) - 1_000)
    prove_commit(signed(room), key_of(account), NOW)
    with pytest.raises(Rejected, match="bad-commit"):
        prove_commit(signed(room + 1), key_of(account), NOW)


def test_a_record_and_its_absence_are_proven() -> None:
    account = planted(40)
    did, key = Did(account.did), key_of(account)
    there = prove_record(account.record_proof(f"{MEMORY}/0007"), did, MEMORY, "0007", key, NOW)
    assert there.cid == account.records[f"{MEMORY}/0007"]
    assert there.record == account.record_blocks[there.cid or b""]
    gone = prove_record(account.record_proof(f"{MEMORY}/absent"), did, MEMORY, "absent", key, NOW)
    assert (gone.cid, gone.record, gone.rev) == (None, None, account.rev)
    head = account.head
    assert head is not None
    with pytest.raises(Rejected, match="missing-block"):
        prove_record(car([head[0]], [head]), did, MEMORY, "absent", key, NOW)
