"""String types against the official cases, and the limits of each from both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexicons.datetimes import Datetime
from lexicons.errors import InvalidSyntax
from lexicons.syntax import (
    AtUri,
    Cid,
    Did,
    Handle,
    Language,
    Nsid,
    RecordKey,
    Tid,
    Uri,
    at_identifier,
)
from tests.shared_data import cases, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS: Final[dict[str, Callable[[str], str]]] = {
    "atidentifier_syntax": at_identifier,
    "aturi_syntax": AtUri,
    "cid_syntax": Cid,
    "datetime_syntax": Datetime,
    "did_syntax": Did,
    "handle_syntax": Handle,
    "language_syntax": Language,
    "nsid_syntax": Nsid,
    "recordkey_syntax": RecordKey,
    "tid_syntax": Tid,
    "uri_syntax": Uri,
}
# Well-formed, but without a meaning: refused as well.
PARSED: Final[dict[str, Callable[[str], str]]] = {"datetime_parse": Datetime, "language_parse": Language}


def _cases(formats: dict[str, Callable[[str], str]], outcome: str) -> list[tuple[str, str]]:
    return [
        (name, line)
        for name in formats
        for line in read_lines(f"interop/atproto/syntax/{name}_{outcome}.txt")
    ]


@pytest.mark.parametrize(("name", "text"), cases(lambda: _cases(FORMATS, "valid"), 2))
def test_accepts_what_is_valid(name: str, text: str) -> None:
    assert FORMATS[name](text) == text


@pytest.mark.parametrize(("name", "text"), cases(lambda: _cases(FORMATS | PARSED, "invalid"), 2))
def test_refuses_what_is_invalid(name: str, text: str) -> None:
    with pytest.raises(InvalidSyntax):
        (FORMATS | PARSED)[name](text)


LIMITS: Final = [
    (Did, "did:web:", "a", 2048),
    (Handle, "", "a" * 49 + ".", 253),
    (Nsid, "", "a" * 52 + ".", 317),
    (RecordKey, "", "a", 512),
    (Uri, "https://", "a", 8192),
    (Language, "en-x", "-aaaaaaa", 128),
]


def _of_length(prefix: str, piece: str, length: int) -> str:
    text = prefix + piece * (length // len(piece) + 1)
    return text[: length - 1] + "a"


@pytest.mark.parametrize(("kind", "prefix", "piece", "limit"), LIMITS)
def test_length_is_limited(kind: type[Did], prefix: str, piece: str, limit: int) -> None:
    assert kind.is_valid(_of_length(prefix, piece, limit))
    assert not kind.is_valid(_of_length(prefix, piece, limit + 1))


def test_uri_counts_bytes() -> None:
    assert Uri.is_valid("https://" + "é" * 4092)  # 8,192 bytes
    assert not Uri.is_valid("https://a" + "é" * 4092)


def test_at_uri_of_the_longest_parts_is_valid() -> None:
    did, nsid, rkey = "did:web:" + "a" * 2040, _of_length("", "a" * 52 + ".", 317), "a" * 512
    assert AtUri.is_valid(f"at://{did}/{nsid}/{rkey}")
    assert not AtUri.is_valid(f"at://{did}/{nsid}/{rkey}a")


def test_a_value_keeps_its_type_and_an_error_shows_a_short_value() -> None:
    did = Did("did:plc:abc")
    assert Did(did) is did
    assert did.method == "plc"
    with pytest.raises(InvalidSyntax, match=r"not a valid DID: 'x+\.\.\.'") as caught:
        Did("x" * 5000)
    assert len(str(caught.value)) < 200
    with pytest.raises(InvalidSyntax, match="not a string"):
        Did(None)  # type: ignore[arg-type]


def test_at_uri_gives_its_parts() -> None:
    uri = AtUri("at://did:plc:abc/garden.engram.memory/3kabcdefghijk")
    assert (uri.authority, uri.collection, uri.rkey) == (
        "did:plc:abc",
        "garden.engram.memory",
        "3kabcdefghijk",
    )
    assert isinstance(uri.authority, Did)
    bare = AtUri("at://alice.test")
    assert (bare.authority, bare.collection, bare.rkey) == ("alice.test", None, None)
    assert AtUri.of_record(Did("did:plc:abc"), Nsid("a.b.c"), "x") == "at://did:plc:abc/a.b.c/x"


@given(st.integers(0, 2**53 - 1), st.integers(0, 1023))
def test_tid_keeps_its_time_and_sorts_by_it(micros: int, clock_id: int) -> None:
    tid = Tid.from_micros(micros, clock_id)
    assert Tid.is_valid(str(tid))
    assert tid.micros == micros
    if micros:
        assert Tid.from_micros(micros - 1, 1023) < tid


@pytest.mark.parametrize("micros", [-1, 2**53])
def test_tid_refuses_a_time_beyond_53_bits(micros: int) -> None:
    with pytest.raises(InvalidSyntax, match="53 bits"):
        Tid.from_micros(micros)


@given(st.text(max_size=40))
def test_any_text_is_judged_without_another_error(text: str) -> None:
    for kind in (*FORMATS.values(), *PARSED.values()):
        try:
            assert kind(text) == text
        except InvalidSyntax:
            continue
