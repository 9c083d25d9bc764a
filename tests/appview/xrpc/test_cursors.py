"""Cursors: only the query that gave one can continue it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.xrpc.cursors import Binding, Cursors
from appview.xrpc.errors import InvalidRequest

CURSORS = Cursors(b"s" * 32)
BINDING = Binding("garden.engram.listMemories", "Anonymous()", {"space": "at://a", "tags": ["x", "y"]})
POSITION = (1_764_000_000_000_000, "did:plc:abc", "3kabc")


def test_a_cursor_opens_where_it_was_sealed() -> None:
    assert CURSORS.open(BINDING, CURSORS.seal(BINDING, POSITION), int, str, str) == POSITION


@given(st.integers(-(2**63), 2**63), st.text(max_size=40), st.text(max_size=40))
def test_any_position_survives(instant: int, author: str, rkey: str) -> None:
    position = (instant, author, rkey)
    assert CURSORS.open(BINDING, CURSORS.seal(BINDING, position), int, str, str) == position


def test_the_page_size_may_change_on_the_way() -> None:
    longer = Binding(BINDING.method, BINDING.subject, {**BINDING.parameters, "limit": 7, "cursor": "x"})
    assert CURSORS.open(longer, CURSORS.seal(BINDING, POSITION), int, str, str) == POSITION


def test_the_order_of_parameters_does_not_matter() -> None:
    turned = Binding(BINDING.method, BINDING.subject, dict(reversed(list(BINDING.parameters.items()))))
    assert CURSORS.open(turned, CURSORS.seal(BINDING, POSITION), int, str, str) == POSITION


@pytest.mark.parametrize(
    "other",
    [
        Binding("garden.engram.getPath", BINDING.subject, BINDING.parameters),
        Binding(BINDING.method, "Account(did='did:plc:eve')", BINDING.parameters),
        Binding(BINDING.method, BINDING.subject, {**BINDING.parameters, "space": "at://b"}),
        Binding(BINDING.method, BINDING.subject, {**BINDING.parameters, "tags": ["x"]}),
        Binding(BINDING.method, BINDING.subject, {**BINDING.parameters, "author": "did:plc:abc"}),
    ],
    ids=["method", "subject", "space", "filter", "added filter"],
)
def test_another_query_is_refused(other: Binding) -> None:
    with pytest.raises(InvalidRequest):
        CURSORS.open(other, CURSORS.seal(BINDING, POSITION), int, str, str)


def test_another_installation_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        Cursors(b"t" * 32).open(BINDING, CURSORS.seal(BINDING, POSITION), int, str, str)


def test_every_changed_bit_is_refused() -> None:
    sealed = CURSORS.seal(BINDING, POSITION)
    raw = urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    for place in range(len(raw) * 8):
        changed = bytearray(raw)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(InvalidRequest):
            CURSORS.open(BINDING, urlsafe_b64encode(changed).rstrip(b"=").decode(), int, str, str)


@pytest.mark.parametrize("cursor", ["", "x", "=", "AQ", "A" * 5, "%00", "..", "\N{SNOWMAN}", "A" * 1024, " "])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        CURSORS.open(BINDING, cursor, int, str, str)


def test_a_cursor_has_one_spelling() -> None:
    sealed = CURSORS.seal(BINDING, (1, "a", "b"))
    for spelling in (sealed + "=", sealed + "\n", sealed[:-1] + chr(ord(sealed[-1]) + 1)):
        with pytest.raises(InvalidRequest):
            CURSORS.open(BINDING, spelling, int, str, str)


def test_a_position_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        CURSORS.open(BINDING, CURSORS.seal(BINDING, ("segment",)), int, str, str)
