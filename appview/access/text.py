"""Rules as lines of text, as the command line and policy files have them: comma-separated, with comments.

A line that starts with `#` is a comment. A field that holds a comma, a quotation mark or white space at an
edge is put in double quotes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from appview.access.errors import InvalidRule
from appview.access.rules import parse_rule
from appview.control_rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.access.rules import Statement


_FIELD: Final = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*|([^",]*))(,|\Z)')


def format_rule(rule: Rule) -> str:
    """Write a rule as one line."""
    return format_fields((rule.ptype, *rule.fields))


def format_fields(fields: Iterable[str]) -> str:
    """Write fields as one line."""
    return ", ".join(_quoted(field) for field in fields)


def parse_fields(line: str) -> list[str]:
    """Read the fields of one line; raise `InvalidRule`."""
    if any(char in line for char in "\r\n\0"):
        raise InvalidRule(repr(line), "a rule is one line of text")
    fields = []
    position, more = 0, True
    while more:
        match = _FIELD.match(line, position)
        if match is None:
            raise InvalidRule(line, "a quotation mark stands where none can")
        quoted, plain, comma = match.groups()
        fields.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        position, more = match.end(), comma == ","
    return fields


def parse_line(line: str) -> Statement:
    """Read a rule from one line; raise `InvalidRule` with the reason."""
    ptype, *fields = parse_fields(line)
    return parse_rule(Rule(ptype, tuple(fields)))


def parse_lines(lines: Iterable[str]) -> list[Statement]:
    """Read a policy file, all of it or nothing; raise `InvalidRule` with the number of the line."""
    statements: dict[Statement, None] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            statements[parse_line(line.strip())] = None
        except InvalidRule as error:
            raise InvalidRule(f"line {number}: {error.rule}", error.reason) from None
    return list(statements)


def _quoted(field: str) -> str:
    if field != field.strip() or any(char in field for char in ',"') or not field:
        return '"' + field.replace('"', '""') + '"'
    return field
