"""Source lines: what an operator may write, and what it means."""

from __future__ import annotations

import pytest

from appview.errors import ConfigurationError
from appview.source_lines import KINDS, OPTIONS, PATHS, SourceLine, parse_source

REPOS = "/xrpc/com.atproto.sync.subscribeRepos"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "wss://relay.example",
            SourceLine("firehose", f"wss://relay.example{REPOS}", discover="https://relay.example"),
        ),
        (
            " https://Relay.example/#discover=off ",
            SourceLine("firehose", f"wss://relay.example{REPOS}"),
        ),
        (
            "pds+http://127.0.0.1:2583",
            SourceLine("pds", f"ws://127.0.0.1:2583{REPOS}", discover="http://127.0.0.1:2583"),
        ),
        (
            "jetstream+wss://jetstream.example",
            SourceLine("jetstream", "wss://jetstream.example/subscribe"),
        ),
        (
            "jetstream+https://jetstream.example/other?cursor=1#proof=off&discover=https://Relay.example/",
            SourceLine(
                "jetstream", "wss://jetstream.example/other", proof=False, discover="https://relay.example"
            ),
        ),
        ("tap+ws://127.0.0.1:2480", SourceLine("tap", "ws://127.0.0.1:2480/channel", proof=False)),
        (
            "tap+ws://127.0.0.1:2480#proof=on&password-file=%2Frun%2Fsecrets%2Fa%26b",
            SourceLine("tap", "ws://127.0.0.1:2480/channel", password_file="/run/secrets/a&b"),
        ),
    ],
)
def test_a_line_names_a_source(line: str, expected: SourceLine) -> None:
    assert parse_source(line) == expected


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("relay.example", "not a source"),
        ("ftp://relay.example", "not a source"),
        ("wss://", "not a source"),
        ("", "not a source"),
        ("wss://[", "not a URL"),
        ("wss://relay.example:x", "not a URL"),
        ("kafka+wss://relay.example", "unknown kind"),
        ("jetstream+pds+wss://relay.example", "unknown kind"),
        ("wss://relay.example#proof=off", "no option"),
        ("pds+wss://pds.example#password-file=x", "no option"),
        ("jetstream+wss://a.example#proof", "needs one value"),
        ("jetstream+wss://a.example#proof=", "needs one value"),
        ("jetstream+wss://a.example#proof=on&proof=off", "needs one value"),
        ("jetstream+wss://a.example#proof=maybe", "on or off"),
        ("wss://relay.example#discover=relay", "discover="),
        ("wss://relay.example#discover=https://relay.example/x", "discover="),
    ],
)
def test_anything_else_is_an_error_that_says_what(line: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        parse_source(line)


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_source("tap+ws://admin:compost@127.0.0.1:2480")
    assert "compost" not in str(caught.value)
    assert "password-file" in caught.value.hint


def test_only_a_pds_speaks_for_itself() -> None:
    assert parse_source("pds+wss://pds.example").host == "https://pds.example"
    assert parse_source("wss://pds.example").host is None


def test_sources_of_different_kinds_have_different_names() -> None:
    names = [parse_source(f"{kind}+wss://a.example").name for kind in KINDS if kind != "firehose"]
    assert len(set(names)) == len(names)
    assert parse_source("pds+wss://a.example").name == parse_source("https://a.example").name


def test_every_kind_has_a_path_and_options() -> None:
    assert set(PATHS) == set(OPTIONS) == set(KINDS)
