"""The `datetime` string format and instants in microseconds.

Source: atproto.com/specs/lexicon, "datetime". Instants are integers, microseconds since 1970 in UTC,
because the format allows a year (0000) that `datetime` cannot hold. A time zone may carry an instant up to a
day past the last one that can be written, never before the first.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final, Self

from lexicons.errors import InvalidSyntax
from lexicons.syntax import _Checked

MAX_DATETIME_LENGTH: Final = 64  # bytes, lexicon spec
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # the Gregorian calendar repeats
_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,20}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_DAY: Final = 86_400_000_000  # microseconds
FIRST_INSTANT: Final = (date(400, 1, 1).toordinal() - _CYCLE_DAYS - _EPOCH_DAY) * _DAY  # 0000-01-01T00:00Z
LAST_INSTANT: Final = (date.max.toordinal() + 1 - _EPOCH_DAY) * _DAY - 1  # the end of 9999-12-31Z


class Datetime(_Checked):
    """A datetime string with a time zone: `2026-11-30T09:15:00.000Z`."""

    __slots__ = ()
    kind = "datetime"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        try:
            _instant(value)
        except ValueError as error:
            return str(error)
        return None

    @classmethod
    def from_micros(cls, micros: int) -> Self:
        """Write an instant of the years 0000 to 9999 as UTC with milliseconds, rounding down."""
        if not FIRST_INSTANT <= micros <= LAST_INSTANT:
            raise InvalidSyntax(cls.kind, str(micros), "outside the years 0000 to 9999")
        day, rest = divmod(micros, _DAY)
        seconds, fraction = divmod(rest, 1_000_000)
        ordinal = day + _EPOCH_DAY
        cycles = 1 if ordinal < 1 else 0
        moment = date.fromordinal(ordinal + cycles * _CYCLE_DAYS)
        return cls(
            f"{moment.year - cycles * _CYCLE_YEARS:04d}-{moment.month:02d}-{moment.day:02d}"
            f"T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction // 1000:03d}Z"
        )

    @property
    def micros(self) -> int:
        """Microseconds since 1970 in UTC, finer digits cut off."""
        return _instant(self)


def _instant(value: str) -> int:
    if len(value) > MAX_DATETIME_LENGTH:
        raise ValueError(f"{len(value)} bytes, at most {MAX_DATETIME_LENGTH}")
    match = _FORM.fullmatch(value)
    if match is None:
        raise ValueError("expected YYYY-MM-DDTHH:MM:SS[.fraction](Z|+HH:MM)")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no such time of day")
    ordinal = (
        date(year + _CYCLE_YEARS, month, day).toordinal() - _CYCLE_DAYS
        if year < 1
        else date(year, month, day).toordinal()
    )
    micros = ((ordinal - _EPOCH_DAY) * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000
    micros += int((match[7] or "0")[:6].ljust(6, "0"))
    if match[8]:
        zone_hour, zone_minute = int(match[9]), int(match[10])
        if zone_hour > 23 or zone_minute > 59 or (match[8] == "-" and zone_hour == zone_minute == 0):
            raise ValueError("no such time zone")
        offset = (zone_hour * 60 + zone_minute) * 60_000_000
        micros += -offset if match[8] == "+" else offset
    if micros < FIRST_INSTANT:
        raise ValueError("before the year 0000")
    return micros


def parse_micros(value: str) -> int:
    """Read the instant of a datetime string; raise `InvalidSyntax`."""
    try:
        return _instant(value)
    except ValueError as error:
        raise InvalidSyntax("datetime", value, str(error)) from None
