"""Claims of single records beside a chain of commits, one behaviour a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.ingest.claims import MAX_AHEAD, MAX_PROVING, MAX_WAITING, ClaimEvent
from appview.ingest.commands import ApplyRecord, Command, Drop, FetchIdentity, Prove, Resync, Untracked
from appview.ingest.commits import ProvenRecord
from lexicons.syntax import Did, Nsid, RecordKey
from tests.appview.ingest.test_engine import MEMORY, Desk, applied, only, reasons
from tests.network.synthetic import Account, tid

if TYPE_CHECKING:
    from appview.ingest.errors import Reason

NAME = Nsid(MEMORY)
OLD, NEW = b"\x01" * 36, b"\x02" * 36


def claim(
    desk: Desk, rkey: str, rev: str, cid: bytes | None = NEW, *, trusted: bool = False
) -> list[Command]:
    block = b"block" if trusted and cid is not None else None
    event = ClaimEvent(desk.did, rev, NAME, RecordKey(rkey), cid, block, trusted)
    return desk.engine.receive(event, desk.now)


def proof(desk: Desk, rkey: str, rev: str, cid: bytes | None = NEW) -> list[Command]:
    found = ProvenRecord(desk.did, rev, cid, None if cid is None else b"block")
    return desk.engine.proven(desk.did, NAME, RecordKey(rkey), found, desk.now)


def reason(commands: list[Command]) -> Reason:
    return only(commands, Drop).reason


def chain(desk: Desk) -> tuple[str | None, bytes | None]:
    state = desk.engine.state(desk.did)
    assert state is not None
    return state.rev, state.data


def test_a_claim_is_asked_of_its_host_and_moves_the_record_alone() -> None:
    desk = Desk()
    before = chain(desk)
    rev = desk.account.next_rev()
    assert only(claim(desk, "x", rev), Prove) == Prove(desk.did, NAME, RecordKey("x"))
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided
    record = only(proof(desk, "x", rev), ApplyRecord).state
    assert (record.rev, record.rkey, record.cid, record.record) == (rev, "x", NEW, b"block")
    assert chain(desk) == before
    state = desk.engine.state(desk.did)
    assert state is not None and (state.undecided, state.ahead, state.reached) == (False, rev, rev)


def test_a_proof_of_a_host_that_lags_takes_no_record_back() -> None:
    desk = Desk()
    older, newer = desk.account.next_rev(), desk.account.next_rev()
    claim(desk, "x", newer)
    only(proof(desk, "x", newer, NEW), ApplyRecord)
    claim(desk, "x", desk.account.next_rev())
    assert reasons(proof(desk, "x", older, OLD)) == [("Drop", "not-proven"), ("FetchIdentity", None)]
    claim(desk, "x", desk.account.next_rev())
    only(proof(desk, "x", newer, NEW), Drop)


def test_what_was_proven_outlasts_a_takedown_and_not_a_deletion() -> None:
    """Else a host that lags would be believed when the account is back, and the record go back with it."""
    desk = Desk()
    rev = desk.account.next_rev()
    claim(desk, "x", rev)
    proof(desk, "x", rev, None)
    desk.engine.account_confirmed(desk.did, desk.now, active=False, status="takendown")
    desk.engine.account_confirmed(desk.did, desk.now, active=True, status=None)
    state = desk.engine.state(desk.did)
    assert state is not None and state.reached == rev
    desk.engine.account_confirmed(desk.did, desk.now, active=False, status="deleted")
    state = desk.engine.state(desk.did)
    assert state is not None and state.reached is None


def test_a_claim_that_is_known_asks_for_nothing() -> None:
    desk = Desk()
    assert desk.account.rev is not None
    assert reason(claim(desk, "r1", desk.account.rev)) == "old-rev"  # by the chain
    rev = desk.account.next_rev()
    claim(desk, "x", rev)
    assert reason(claim(desk, "x", rev)) == "old-rev"  # asked for
    proof(desk, "x", rev)
    assert reason(claim(desk, "x", rev)) == "old-rev"  # proven
    later = desk.account.next_rev()
    assert isinstance(only(claim(desk, "x", later), Prove), Prove)


def test_a_commit_older_than_a_proof_passes_the_record_by() -> None:
    desk = Desk()
    draft = desk.draft()  # r4
    rev = desk.account.next_rev()
    claim(desk, "r4", rev)
    proof(desk, "r4", rev, None)
    assert applied(desk.receive(draft)) == []
    assert applied(desk.receive(desk.draft())) == ["r5"]
    state = desk.engine.state(desk.did)
    assert state is not None and (state.rev, state.ahead) == (desk.account.rev, None)


def test_a_commit_answers_a_claim_before_its_host_does() -> None:
    desk = Desk()
    draft = desk.draft()
    assert desk.account.rev is not None
    claim(desk, "r4", desk.account.rev)
    assert applied(desk.receive(draft)) == ["r4"]
    assert desk.engine.claimed(desk.did, NAME, RecordKey("r4")) is None
    assert proof(desk, "r4", desk.account.rev) == []


def test_a_proof_that_is_behind_the_claim_is_taken_for_what_it_proves() -> None:
    desk = Desk()
    real = desk.account.next_rev()
    claim(desk, "x", desk.account.next_rev())
    drop, look, record = proof(desk, "x", real, OLD)
    assert isinstance(drop, Drop) and drop.reason == "not-proven"
    assert isinstance(look, FetchIdentity)  # that host may be the account's no more
    assert isinstance(record, ApplyRecord) and (record.state.rev, record.state.cid) == (real, OLD)


def test_a_proof_of_what_the_chain_has_is_no_news() -> None:
    desk = Desk()
    assert desk.account.rev is not None
    claim(desk, "x", desk.account.next_rev())
    assert reasons(proof(desk, "x", desk.account.rev, None))[0] == ("Drop", "not-proven")


def test_a_claim_that_comes_while_another_one_is_asked_for_is_asked_for_after_it() -> None:
    """The answer that closes the first may have been on its way when the second came."""
    desk = Desk()
    before, true, false = (desk.account.next_rev() for _ in range(3))
    for first, second in ((false, true), (true, false)):
        assert isinstance(only(claim(desk, f"x-{first}", first), Prove), Prove)
        assert claim(desk, f"x-{first}", second) == []
        assert reason(claim(desk, f"x-{first}", second)) == "old-rev"
        prove = next(each for each in proof(desk, f"x-{first}", before, None) if isinstance(each, Prove))
        assert prove.rkey == f"x-{first}"
        assert desk.engine.claimed(desk.did, NAME, prove.rkey) == second
        assert ApplyRecord in map(type, proof(desk, f"x-{first}", second, NEW))
        assert desk.engine.claimed(desk.did, NAME, prove.rkey) is None


def test_a_claim_that_the_answer_to_another_one_proves_is_not_asked_for() -> None:
    desk = Desk()
    first, second = desk.account.next_rev(), desk.account.next_rev()
    claim(desk, "x", first)
    claim(desk, "x", second)
    only(proof(desk, "x", second), ApplyRecord)
    claim(desk, "y", second)
    claim(desk, "y", desk.account.next_rev())
    desk.receive(desk.draft())  # the chain passes both
    state = desk.engine.state(desk.did)
    assert state is not None and not state.undecided


def test_a_claim_that_its_host_does_not_confirm_is_made_good_where_the_account_has_moved() -> None:
    desk = Desk()
    assert desk.account.rev is not None
    claim(desk, "x", desk.account.next_rev())
    commands = proof(desk, "x", desk.account.rev, None)
    assert isinstance(commands[-1], FetchIdentity)
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided
    desk.account.pds = "https://new.example.com"
    assert only(desk.resolve(), Resync).reason == "moved"


def test_where_nothing_can_be_proven_the_repo_is_fetched_and_twice_at_most() -> None:
    desk = Desk()
    claim(desk, "x", desk.account.next_rev())
    resync = only(desk.engine.proven(desk.did, NAME, RecordKey("x"), None, desk.now), Resync)
    assert resync.reason == "not-proven"
    again = only(desk.resynced(resync), Resync)  # the repo is not as far as was claimed
    assert again.reason == "overflow"
    assert desk.resynced(again) == []
    assert desk.sync == "synchronized"


def test_claims_wait_for_a_repo_that_is_fetched_and_what_it_has_is_not_asked_for() -> None:
    desk = Desk()
    resync = only(desk.engine.desynchronize(desk.did), Resync)
    desk.draft()
    assert desk.account.rev is not None
    assert claim(desk, "r4", desk.account.rev) == []
    later = tid(desk.now + 1_000_000)
    assert claim(desk, "x", later) == []
    assert desk.resynced(resync) == [Prove(desk.did, NAME, RecordKey("x"))]


def test_a_trusted_claim_is_taken_at_its_word() -> None:
    desk = Desk()
    rev = desk.account.next_rev()
    assert only(claim(desk, "x", rev, trusted=True), ApplyRecord).state.cid == NEW
    assert only(claim(desk, "x", desk.account.next_rev(), None, trusted=True), ApplyRecord).state.cid is None
    assert reason(claim(desk, "x", rev, trusted=True)) == "old-rev"


def test_a_trusted_claim_without_its_bytes_is_asked_for() -> None:
    desk = Desk()
    event = ClaimEvent(desk.did, desk.account.next_rev(), NAME, RecordKey("x"), NEW, None, True)
    assert isinstance(only(desk.engine.receive(event, desk.now), Prove), Prove)


def test_a_trusted_claim_does_not_overtake_a_question() -> None:
    desk = Desk()
    claim(desk, "x", desk.account.next_rev())
    assert claim(desk, "x", desk.account.next_rev(), trusted=True) == []


@pytest.mark.parametrize("seconds", [299, 301])
def test_a_claim_of_the_future_is_refused(seconds: int) -> None:
    desk = Desk()
    commands = claim(desk, "x", tid(desk.now + seconds * 1_000_000))
    if seconds < 300:
        assert isinstance(only(commands, Prove), Prove)
    else:
        assert reason(commands) == "future-rev"


def test_a_hidden_account_has_no_news() -> None:
    desk = Desk()
    claim(desk, "x", desk.account.next_rev())
    desk.engine.account_confirmed(desk.did, desk.now, active=False, status="takendown")
    assert reason(claim(desk, "y", desk.account.next_rev())) == "account-inactive"
    assert proof(desk, "x", desk.account.next_rev()) == []


def test_an_account_that_is_not_tracked_is_shown() -> None:
    desk = Desk()
    event = ClaimEvent(Did(Account().did), tid(desk.now), NAME, RecordKey("x"), NEW, None, False)
    assert only(desk.engine.receive(event, desk.now), Untracked).commit is event


def test_more_claims_than_are_asked_for_singly_have_the_repo_fetched() -> None:
    desk = Desk()
    for number in range(MAX_PROVING):
        assert isinstance(only(claim(desk, f"x{number}", desk.account.next_rev()), Prove), Prove)
    resync = only(claim(desk, "one-more", desk.account.next_rev()), Resync)
    assert resync.reason == "overflow"
    desk.draft()
    assert desk.resynced(resync) == []


def test_what_waits_for_a_fetch_is_bounded() -> None:
    desk = Desk()
    resync = only(desk.engine.desynchronize(desk.did), Resync)
    revs = [desk.account.next_rev() for _ in range(MAX_WAITING + 1)]
    for number, rev in enumerate(revs):
        assert claim(desk, f"x{number}", rev) == []
    assert only(desk.resynced(resync), Resync).reason == "overflow"


def test_what_is_ahead_is_bounded() -> None:
    desk = Desk()
    for number in range(MAX_AHEAD):
        assert isinstance(
            only(claim(desk, f"x{number}", desk.account.next_rev(), trusted=True), ApplyRecord), ApplyRecord
        )
    _, resync = claim(desk, "one-more", desk.account.next_rev(), trusted=True)
    assert isinstance(resync, Resync)
    desk.draft()
    assert desk.resynced(resync) == []
    state = desk.engine.state(desk.did)
    assert state is not None and state.ahead is None


def test_a_sync_message_does_not_pass_over_what_is_ahead() -> None:
    desk = Desk()
    rev = desk.account.next_rev()
    claim(desk, "x", rev, trusted=True)
    desk.account.draft()  # the same tree as before "x": it came and went
    assert only(desk.receive(desk.account.sync_frame(1)), Resync).reason == "sync"
