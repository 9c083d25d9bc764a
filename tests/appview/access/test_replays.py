"""Used tokens: refused until they expire, in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.access.errors import CannotVerify, CredentialRefused
from appview.access.replays import Replays
from lexicons.syntax import Did

ALICE, BOB = Did("did:plc:alice"), Did("did:plc:bob")


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
    for number in range(3):
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
    replays.restore([(ALICE, b"1", 160), (ALICE, b"old", 100), (ALICE, b"1", 160)], now=100)
    assert len(replays) == 1
    with pytest.raises(CredentialRefused):
        replays.spend(ALICE, b"1", expires=160, now=100)


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
