"""Used tokens: refused until they expire, in bounded memory."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.access.errors import CannotVerify, CredentialRefused
from appview.access.replays import LONG_SECONDS, MAX_REMEMBERED, MAX_SHARE, Replays, Tally
from lexicons.syntax import Did

ALICE, BOB, CAROL = Did("did:plc:alice"), Did("did:plc:bob"), Did("did:plc:carol")


def crowd(number: int) -> Did:
    return Did(f"did:plc:crowd{number}")


def test_accounts_that_fill_the_memory_do_not_lock_out_one_that_comes_new() -> None:
    replays = Replays()
    for number in range(MAX_REMEMBERED // MAX_SHARE):
        for token in range(MAX_SHARE):
            spend(replays, crowd(number), token, expires=3_700 - number % 2 * 3_540, now=100)
    for token in range(100):
        spend(replays, ALICE, token, expires=160, now=100)
        spend(replays, BOB, token, expires=3_700, now=100)
    assert len(replays) <= MAX_REMEMBERED
    assert replays.new_floors()


def test_who_holds_the_most_makes_room_and_is_not_taken_until_it_brings_later_tokens() -> None:
    replays = Replays(limit=6)
    for token in range(4):
        spend(replays, ALICE, token, expires=150 + token, now=100)
    for token in range(2):
        spend(replays, BOB, token, expires=200, now=100)
    spend(replays, CAROL, 0, expires=200, now=100)
    assert replays.new_floors() == {ALICE: 153}
    assert replays.new_floors() == {}
    for token in (0, 3, 9):  # used or not: nobody knows any more
        with pytest.raises(CannotVerify):
            spend(replays, ALICE, token, expires=153, now=100)
    spend(replays, ALICE, 10, expires=154, now=100)
    with pytest.raises(CredentialRefused):
        spend(replays, ALICE, 10, expires=154, now=100)
    assert len(replays) == 5  # four tokens, and how far Alice's are not taken
    spend(replays, BOB, 9, expires=300, now=200)
    assert len(replays) == 1


def test_who_holds_the_most_does_not_make_room_for_itself() -> None:
    replays = Replays(limit=4)
    for token in range(3):
        spend(replays, ALICE, token, expires=150, now=100)
    spend(replays, BOB, 0, expires=150, now=100)
    with pytest.raises(CannotVerify):
        spend(replays, ALICE, 3, expires=150, now=100)
    assert replays.new_floors() == {}


def test_long_lived_tokens_of_many_accounts_leave_room_for_those_of_a_minute() -> None:
    replays = Replays(limit=8, long_limit=4)
    for number in range(4):
        spend(replays, crowd(number), 0, expires=101 + LONG_SECONDS, now=100)
    with pytest.raises(CannotVerify):
        spend(replays, crowd(4), 0, expires=101 + LONG_SECONDS, now=100)
    for number in range(4):
        spend(replays, crowd(number), 1, expires=100 + LONG_SECONDS, now=100)
    # Room is made for long ones at the cost of whoever has most of those.
    replays = Replays(limit=8, long_limit=4)
    for token in range(3):
        spend(replays, ALICE, token, expires=1_000, now=100)
        spend(replays, BOB, token, expires=160, now=100)
    spend(replays, CAROL, 0, expires=1_000, now=100)
    spend(replays, CAROL, 1, expires=1_000, now=100)
    assert replays.new_floors() == {ALICE: 1_000}


def test_what_is_refused_for_long_takes_no_more_room_than_long_lived_tokens_may() -> None:
    replays = Replays(limit=16, long_limit=8)
    for number in range(40):
        for token in range(2):
            with suppress(CannotVerify):
                spend(replays, crowd(number), token, expires=1_000, now=100)
    for number in range(8):
        spend(replays, crowd(100 + number), 0, expires=160, now=100)
    assert len(replays) <= 16
    spend(replays, ALICE, 0, expires=1_060, now=1_000)
    assert len(replays) == 1


def spend(replays: Replays, issuer: Did, token: int, *, expires: int, now: int) -> None:
    replays.spend(issuer, f"{issuer} {token}".encode(), expires, now)


def test_a_token_is_taken_once() -> None:
    replays = Replays()
    replays.spend(ALICE, b"1", expires=160, now=100)
    for now in (100, 159):
        with pytest.raises(CredentialRefused) as caught:
            replays.spend(ALICE, b"1", expires=160, now=now)
        assert caught.value.fault == "BadJwt"
    replays.spend(ALICE, b"2", expires=160, now=100)


def test_what_has_expired_takes_no_room() -> None:
    replays = Replays()
    for number in range(100):
        replays.spend(ALICE, bytes([number]), expires=101 + number, now=100)
    assert len(replays) == 100
    replays.spend(BOB, b"other", expires=300, now=150)
    assert len(replays) == 51


def test_room_is_never_made_by_forgetting_what_could_be_used_again() -> None:
    replays = Replays(limit=3)
    for number in range(3):  # one each: nobody holds more than others
        replays.spend(Did(f"did:plc:a{number}"), bytes([number]), expires=200, now=100)
    with pytest.raises(CannotVerify):
        replays.spend(BOB, b"4", expires=200, now=100)
    with pytest.raises(CredentialRefused):
        replays.spend(Did("did:plc:a0"), bytes([0]), expires=200, now=100)
    replays.spend(BOB, b"4", expires=300, now=200)


def test_one_account_cannot_take_all_the_room() -> None:
    replays = Replays(limit=10, share=2)
    replays.spend(ALICE, b"1", expires=200, now=100)
    replays.spend(ALICE, b"2", expires=150, now=100)
    with pytest.raises(CannotVerify):
        replays.spend(ALICE, b"3", expires=200, now=100)
    replays.spend(BOB, b"4", expires=200, now=100)
    replays.spend(ALICE, b"5", expires=200, now=150)


def test_what_was_written_down_still_counts() -> None:
    replays = Replays()
    spent = [(ALICE, b"1", 160), (ALICE, b"old", 100), (ALICE, b"1", 160), (BOB, b"floor", 150)]
    replays.restore(spent, [(BOB, 150), (CAROL, 100)], now=100)
    assert len(replays) == 2
    assert replays.new_floors() == {}
    with pytest.raises(CannotVerify):
        replays.spend(BOB, b"2", expires=150, now=100)
    replays.spend(BOB, b"2", expires=151, now=100)
    replays.spend(CAROL, b"2", expires=101, now=100)
    with pytest.raises(CredentialRefused):
        replays.spend(ALICE, b"1", expires=160, now=100)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 300), st.integers(0, 9))))
def test_nothing_is_taken_twice_however_short_memory_is(uses: list[tuple[int, int, int, int]]) -> None:
    replays, taken, now = Replays(limit=6, share=4, long_limit=3), set[tuple[int, int, int]](), 0
    for account, token, lifetime, pause in uses:
        now += pause
        # A token has one expiry: it is part of what it is.
        expires = (now + lifetime) // 7 * 7 + 7
        known = (account, token, expires)
        try:
            replays.spend(crowd(account), repr(known).encode(), expires, now)
        except CredentialRefused:
            assert known in taken
        except CannotVerify:
            pass
        else:
            assert known not in taken
            taken.add(known)
        assert len(replays) <= 6


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans())))
def test_a_tally_knows_who_has_the_most(steps: list[tuple[str, bool]]) -> None:
    tally, counts = Tally(), Counter[str]()
    for name, more in steps:
        if not more and not counts[name]:
            continue
        counts[name] += 1 if more else -1
        (tally.add if more else tally.take)(Did(f"did:plc:{name}"))
        account, count = tally.most()
        assert (tally.total, count) == (counts.total(), max(counts.values()))
        assert count == (0 if account is None else counts[account[-1]])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(0, 3))))
def test_it_remembers_exactly_what_can_be_used_again(uses: list[tuple[int, int, int]]) -> None:
    replays, spent, now = Replays(), dict[bytes, int](), 0
    for number, lifetime, pause in uses:
        now += pause
        digest = bytes([number])
        if spent.get(digest, 0) > now:
            with pytest.raises(CredentialRefused):
                replays.spend(ALICE, digest, now + lifetime, now)
        else:
            replays.spend(ALICE, digest, now + lifetime, now)
            spent[digest] = now + lifetime
        assert len(replays) == sum(expires > now for expires in spent.values())
