"""Tokens of this appview: their form, what is kept of them, and what the audit log says."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from appview.access.subjects import Token
from appview.access.tokens import hash_token, is_proof, make_token, token_id
from appview.control import Control
from appview.control_rules import Rule
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import Executor
    from pathlib import Path

NOW = 1_764_000_000_000_000
HOUR = 3_600_000_000
BOT = Token("bot")
SECRET_AT = len("engram_") + 16 + len("_")


@pytest.fixture
async def control(tmp_path: Path, executor: Executor) -> AsyncIterator[Control]:
    opened = await Control.open(tmp_path / "control.db", executor)
    yield opened
    await opened.close()


def test_a_token_has_an_id_and_a_secret() -> None:
    text, row = make_token(BOT, NOW, HOUR, secrets.token_bytes)
    assert token_id(text) == row.id
    assert is_proof(text, row)
    assert (row.name, row.created_at, row.expires_at) == ("bot", NOW, NOW + HOUR)
    assert len(text) == len("engram_") + 16 + len("_") + 43  # 64 and 256 bits


def test_every_bit_of_a_token_is_random() -> None:
    texts = [make_token(BOT, NOW, None, secrets.token_bytes)[0] for _ in range(200)]
    for position in range(len("engram_"), len(texts[0])):
        assert len({text[position] for text in texts}) > (0 if position == len("engram_") + 16 else 4)


def test_nothing_but_the_token_itself_is_a_proof() -> None:
    text, row = make_token(BOT, NOW, None, secrets.token_bytes)
    other, _ = make_token(BOT, NOW, None, secrets.token_bytes)
    forged = f"engram_{row.id}_{other[SECRET_AT:]}"
    assert token_id(forged) == row.id
    assert not is_proof(forged, row)
    assert not is_proof(text, None)
    assert not is_proof(row.hash.hex(), row)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "engram_",
        "engram_0123456789abcdef_",
        "engram_0123456789abcdef_" + "a" * 42,
        "engram_0123456789abcdef_" + "a" * 44,
        "engram_0123456789ABCDEF_" + "a" * 43,
        "ENGRAM_0123456789abcdef_" + "a" * 43,
        "engram_0123456789abcdef_" + "a" * 42 + "\u0430",
        "engram_0123456789abcdef_" + "a" * 43 + "\n",
        "engram_' OR 1=1 --      _" + "a" * 43,
        "a.b.c",
    ],
)
def test_what_cannot_be_a_token(text: str) -> None:
    assert token_id(text) is None


async def test_what_is_kept_is_not_the_token(control: Control, tmp_path: Path) -> None:
    text, row = make_token(BOT, NOW, None, secrets.token_bytes)
    assert await control.tokens.add(row, actor="operator")
    assert row.hash == hash_token(text)
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        assert text.encode() not in data
        assert text[SECRET_AT:].encode() not in data


async def test_a_name_stands_for_one_token(control: Control) -> None:
    first, second = (make_token(BOT, NOW, None, secrets.token_bytes)[1] for _ in range(2))
    assert await control.tokens.add(first, actor="operator")
    assert not await control.tokens.add(second, actor="operator")
    assert await control.tokens.rows() == [first]
    assert await control.tokens.revoke("bot", actor="operator", now=NOW)
    assert not await control.tokens.revoke("bot", actor="operator", now=NOW)
    assert await control.tokens.find(first.id) is None
    assert await control.tokens.add(second, actor="operator")


async def test_the_audit_log_says_who_made_and_revoked_it_and_nothing_secret(control: Control) -> None:
    _, row = make_token(BOT, NOW, HOUR, secrets.token_bytes)
    await control.tokens.add(row, actor="operator")
    await control.tokens.add(row, actor="operator")
    await control.tokens.revoke("bot", actor="somebody", now=NOW + 1)
    revoked, added, _ = await control.audit(10)
    shown = (Rule("token", ("bot", "2025-11-24T17:00:00+00:00")),)
    assert (added.at, added.actor, added.action, added.before, added.after) == (
        NOW,
        "operator",
        "token add",
        (),
        shown,
    )
    assert (revoked.at, revoked.actor, revoked.action, revoked.before, revoked.after) == (
        NOW + 1,
        "somebody",
        "token revoke",
        shown,
        (),
    )


async def test_last_use_only_moves_forward(control: Control) -> None:
    _, row = make_token(BOT, NOW, None, secrets.token_bytes)
    await control.tokens.add(row, actor="operator")
    for at, expected in ((NOW + 5, NOW + 5), (NOW + 3, NOW + 5), (NOW + 9, NOW + 9)):
        await control.tokens.save({row.id: at, "unknown": at}, [], {}, NOW)
        found = await control.tokens.find(row.id)
        assert found is not None and found.last_used_at == expected


async def test_used_tokens_are_kept_until_they_expire(control: Control) -> None:
    alice = Did("did:plc:alice")
    second = NOW // 1_000_000
    await control.tokens.save({}, [(alice, b"1", second + 10), (alice, b"2", second + 20)], {}, NOW)
    await control.tokens.save({}, [(alice, b"1", second + 10)], {}, NOW)
    assert sorted(await control.tokens.spent()) == [
        (alice, b"1", second + 10),
        (alice, b"2", second + 20),
    ]
    await control.tokens.save({}, [], {}, NOW + 10_000_000)
    assert await control.tokens.spent() == [(alice, b"2", second + 20)]


async def test_an_account_that_is_refused_by_expiry_needs_no_row_for_each_token(control: Control) -> None:
    alice, bob = Did("did:plc:alice"), Did("did:plc:bob")
    second = NOW // 1_000_000
    tokens = control.tokens
    spent = [(alice, b"1", second + 10), (alice, b"2", second + 30), (bob, b"3", second + 5)]
    await tokens.save({}, spent, {}, NOW)
    await tokens.save({}, [(alice, b"4", second + 20)], {alice: second + 20}, NOW)
    assert await tokens.floors() == [(alice, second + 20)]
    assert sorted(digest for _, digest, _ in await tokens.spent()) == [b"2", b"3"]
    await tokens.save({}, [], {alice: second + 15}, NOW)
    assert await tokens.floors() == [(alice, second + 20)]
    await tokens.save({}, [], {}, NOW + 20_000_000)
    assert await tokens.floors() == []
