"""Rules as text: what is written is read back, and a file is taken whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.access.errors import InvalidRule
from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.access.text import format_fields, format_rule, parse_fields, parse_line, parse_lines
from appview.control_rules import Rule
from appview.memory.scope import Attribute, Exact, Subtree

fields = st.text(st.characters(blacklist_characters="\r\n\0", blacklist_categories=["Cs"]), max_size=8)


@given(st.lists(fields, min_size=1, max_size=7))
def test_fields_come_back_as_they_were(values: list[str]) -> None:
    assert parse_fields(format_fields(values)) == values


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("p, role:everyone, *, path:/a, read, allow", Exact("/a")),
        ("p,role:everyone,*,path:/a/*,read,allow", Subtree("/a")),
        ("  p ,  role:everyone , *,  path:/a b ,read,  allow  ", Exact("/a b")),
        ('p, role:everyone, *, "tag:kind=a, ""b""", read, allow', Attribute("kind", 'a, "b"')),
    ],
)
def test_line_is_read_as_people_write_it(line: str, pattern: object) -> None:
    statement = parse_line(line)
    assert statement == Permission(EVERYONE, None, pattern, "read")  # type: ignore[arg-type]
    assert parse_line(format_rule(statement.to_rule())) == statement


@pytest.mark.parametrize(
    "line",
    [
        "",
        "p",
        "x, y",
        'p, "role:everyone, *',
        "p, role:everyone, *, path:/a, read, allow\np, x",
        "p\0",
        "p;a;b",
    ],
)
def test_line_that_is_no_rule_is_refused(line: str) -> None:
    with pytest.raises(InvalidRule):
        parse_line(line)


def test_file_may_have_comments_and_the_same_rule_twice() -> None:
    rule = "p, role:everyone, *, path:/a, read, allow"
    assert parse_lines(["# who reads\n", "\n", f"{rule}\n", f"  {rule}\n", "  # end"]) == [parse_line(rule)]


def test_refused_file_names_the_line_and_the_reason() -> None:
    with pytest.raises(InvalidRule, match=r"line 3: .*: unknown effect 'alow'"):
        parse_lines(["# who reads", "", "p, role:everyone, *, path:/a, read, alow"])


def test_rule_with_a_comma_is_quoted() -> None:
    rule = Rule("p", ("role:everyone", "*", "tag:kind=a,b", "read", "deny"))
    assert format_rule(rule) == 'p, role:everyone, *, "tag:kind=a,b", read, deny'
