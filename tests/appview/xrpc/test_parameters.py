"""Query strings: strict decoding, then what the lexicon says."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.xrpc.errors import InvalidRequest
from appview.xrpc.parameters import MAX_PAIRS, query_of, read_parameters, read_query
from lexicons.catalog import garden
from lexicons.ids import LIST_MEMORIES, SEARCH_MEMORIES

SPACE = "at://did:plc:z72i7hdynmk6r22z27h6tvur/garden.engram.config/self"
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


@given(st.lists(st.tuples(text.filter(bool), text), max_size=20))
def test_what_is_escaped_comes_back(pairs: list[tuple[str, str]]) -> None:
    for escape in (lambda value: quote(value, safe=""), quote_plus):
        query = "&".join(f"{escape(name)}={escape(value)}" for name, value in pairs)
        assert read_query(query) == pairs


@pytest.mark.parametrize(
    "query",
    ["q=%", "q=%4", "q=%zz", "q=%4g", "%=1", "q=%ff", "q=%c3", "q=%c0%80", "q=%ed%a0%80", "q=%00", "%00=a"],
)
def test_broken_escapes_and_what_is_not_text_are_refused(query: str) -> None:
    with pytest.raises(InvalidRequest):
        read_query(query)


def test_raw_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        read_query(b"q=\xff".decode("utf-8", "surrogateescape"))


def test_the_number_of_parameters_is_bounded() -> None:
    assert len(read_query("&".join(["a=1"] * MAX_PAIRS))) == MAX_PAIRS
    with pytest.raises(InvalidRequest, match=str(MAX_PAIRS)):
        read_query("&".join(["a=1"] * (MAX_PAIRS + 1)))


def test_empty_parts_and_missing_values_are_read_as_browsers_write_them() -> None:
    assert read_query("&a=1&&b&c=") == [("a", "1"), ("b", ""), ("c", "")]


@pytest.mark.parametrize(
    ("target", "query"),
    [
        ("/xrpc/a?b=1", "b=1"),
        ("http://host/xrpc/a?b=1?2", "b=1?2"),
        ("/xrpc/a", ""),
        ("/xrpc/a?b=1#c?d", "b=1"),
    ],
)
def test_the_query_is_cut_from_any_form_of_target(target: str, query: str) -> None:
    assert query_of(target) == query


def read(**given: str | int) -> dict[str, object]:
    pairs = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in given.items())
    return read_parameters(garden(), SEARCH_MEMORIES, f"/xrpc/x?{pairs}")


def test_defaults_are_filled_in() -> None:
    assert read(space=SPACE, q="a") == {"space": SPACE, "q": "a", "limit": 10}


@pytest.mark.parametrize("limit", [1, 50])
def test_limits_inside_the_range_are_taken(limit: int) -> None:
    assert read(space=SPACE, limit=limit)["limit"] == limit


@pytest.mark.parametrize("limit", ["0", "51", "-1", "1.0", "1e1", "ten", "0x10", "9" * 30, " 5", "\u0665"])
def test_limits_outside_the_range_are_refused(limit: str) -> None:
    with pytest.raises(InvalidRequest, match="limit"):
        read(space=SPACE, limit=limit)


def test_a_scalar_given_twice_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="limit"):
        read_parameters(garden(), LIST_MEMORIES, f"/x?space={SPACE}&limit=1&limit=1")


def test_arrays_are_repeated_keys() -> None:
    found = read_parameters(garden(), LIST_MEMORIES, f"/x?space={SPACE}&tags=a&tags=b%26")
    assert found["tags"] == ["a", "b&"]


@pytest.mark.parametrize(
    ("name", "fits", "too_long"),
    [
        ("q", "a" * 4000, "a" * 4001),
        ("q", "\u00e9" * 2000, "\u00e9" * 2001),
        ("vector", "A" * 42_667, "A" * 42_668),
        ("model", "m" * 256, "m" * 257),
        ("modelDigest", "m" * 256, "m" * 257),
        ("tags", "t" * 64, "t" * 65),
        ("tags", "\U0001f331" * 32, "\U0001f331" * 33),
    ],
)
def test_each_length_has_a_limit(name: str, fits: str, too_long: str) -> None:
    assert name in read(**{"space": SPACE, name: fits})
    with pytest.raises(InvalidRequest, match=name):
        read(**{"space": SPACE, name: too_long})


def test_sixteen_tags_and_no_more() -> None:
    sixteen = "".join(f"&tags={number}" for number in range(16))
    assert len(read_parameters(garden(), LIST_MEMORIES, f"/x?space={SPACE}{sixteen}")["tags"]) == 16
    with pytest.raises(InvalidRequest, match="tags"):
        read_parameters(garden(), LIST_MEMORIES, f"/x?space={SPACE}{sixteen}&tags=more")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("author", "alice"),
        ("author", "did:plc"),
        ("since", "yesterday"),
        ("since", "2026-11-30"),
        ("space", "x"),
    ],
)
def test_formats_are_checked(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        read(**{"space": SPACE, name: value})
