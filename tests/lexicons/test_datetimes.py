"""Datetimes as instants: odd years, time zones, fine fractions, and what writers write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexicons.datetimes import FIRST_INSTANT, LAST_INSTANT, Datetime, parse_micros
from lexicons.errors import InvalidSyntax

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.datetimes(timezones=st.timezones()))
def test_agrees_with_the_standard_library(moment: datetime) -> None:
    text = moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert parse_micros(text) == (moment - EPOCH) // timedelta(microseconds=1)


@given(st.integers(FIRST_INSTANT, LAST_INSTANT))
def test_an_instant_is_written_to_the_millisecond_below(micros: int) -> None:
    written = Datetime.from_micros(micros)
    assert len(written) == len("2026-11-30T09:15:00.000Z")
    assert written.micros == micros // 1000 * 1000


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (FIRST_INSTANT, "0000-01-01T00:00:00.000Z"),
        (LAST_INSTANT, "9999-12-31T23:59:59.999Z"),
        (1_796_030_100_000_999, "2026-11-30T09:15:00.000Z"),
    ],
)
def test_writes_the_whole_range(micros: int, text: str) -> None:
    assert Datetime.from_micros(micros) == text


@pytest.mark.parametrize("micros", [FIRST_INSTANT - 1, LAST_INSTANT + 1])
def test_does_not_write_beyond_the_range(micros: int) -> None:
    with pytest.raises(InvalidSyntax, match="outside the years 0000 to 9999"):
        Datetime.from_micros(micros)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-11-30T10:15:00+01:00", "2026-11-30T09:15:00Z"),
        ("2026-11-30T02:45:00.5-06:30", "2026-11-30T09:15:00.500000Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T05:00:00+05:00"),
        ("0000-02-29T00:00:00+00:00", "0000-02-29T00:00:00Z"),
        ("2026-11-30T09:15:00.1234567890123456789Z", "2026-11-30T09:15:00.123456Z"),
    ],
)
def test_reads_zones_and_fractions(text: str, same: str) -> None:
    assert parse_micros(text) == parse_micros(same)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T09:15:00",  # no zone
        "2026-11-30T09:15:00-00:00",
        "2026-11-30T09:15:60Z",
        "2026-02-29T00:00:00Z",
        "2026-11-30T09:15:00+24:00",
        "2026-11-30T09:15:00+00:60",
        "0000-01-01T00:00:00+00:01",
        "٢026-11-30T09:15:00Z",
        "2026-11-30T09:15:00Z\n",
        "",
    ],
)
def test_refuses(text: str) -> None:
    assert not Datetime.is_valid(text)
    with pytest.raises(InvalidSyntax):
        parse_micros(text)
