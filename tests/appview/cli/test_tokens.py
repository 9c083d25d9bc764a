"""`engram-appview token`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.appview.cli.conftest import CommandLine

TOKEN = re.compile(r"engram_[0-9a-f]{16}_[A-Za-z0-9_-]{43}")
SPACE = "at://did:plc:z72i7hdynmk6r22z27h6tvur/garden.engram.config/self"


def test_a_token_is_shown_once_alone_on_stdout(engram: CommandLine) -> None:
    made = engram("token", "add", "bot")
    assert made.code == 0
    assert TOKEN.fullmatch(made.out.strip())
    assert "not shown again" in made.err and "token:bot" in made.err
    for answer in (engram("token", "list"), engram("token", "list", "--json"), engram("policy", "log")):
        assert answer.code == 0
        assert "bot" in answer.out
        assert not TOKEN.search(answer.out)


def test_a_token_as_json(engram: CommandLine) -> None:
    made = engram("token", "add", "bot", "--expires", "12h", "--json")
    assert set(made.json) == {"name", "subject", "token", "expiresAt"}
    assert (made.json["name"], made.json["subject"]) == ("bot", "token:bot")
    assert TOKEN.fullmatch(made.json["token"])
    (listed,) = engram("token", "list", "--json").json["tokens"]
    assert listed["expiresAt"] == made.json["expiresAt"]
    assert (listed["name"], listed["expired"], listed["lastUsedAt"]) == ("bot", False, None)


def test_a_name_is_taken_until_it_is_revoked(engram: CommandLine) -> None:
    first = engram("token", "add", "bot").out
    again = engram("token", "add", "bot", "--json")
    assert (again.code, again.out) == (1, "")
    assert "revoke" in again.error["hint"]
    assert engram("token", "revoke", "bot").code == 0
    assert engram("token", "add", "bot").out != first


def test_revoking_says_which_rules_still_name_the_holder(engram: CommandLine) -> None:
    engram("token", "add", "bot")
    rule = f"p, token:bot, {SPACE}, path:/*, read, allow"
    assert engram("policy", "add", rule).code == 0
    revoked = engram("token", "revoke", "bot", "--json")
    assert revoked.json == {"name": "bot", "revoked": True, "rules": [rule]}
    assert engram("token", "list", "--json").json == {"tokens": []}


def test_revoking_what_is_not_there(engram: CommandLine) -> None:
    engram("token", "add", "bot")
    assert engram("token", "revoke", "other").code == 4


@pytest.mark.parametrize("expires", ["never", "1m", "12h", "90d", "3650d"])
def test_times_that_a_token_may_have(engram: CommandLine, expires: str) -> None:
    made = engram("token", "add", "bot", "--expires", expires, "--json")
    assert made.code == 0
    assert (made.json["expiresAt"] is None) == (expires == "never")


@pytest.mark.parametrize(
    "expires", ["", "0d", "3651d", "90", "d", "-1d", "1w", "1.5h", "1000000d", "\u0661d"]
)
def test_times_that_it_may_not(engram: CommandLine, expires: str) -> None:
    made = engram("token", "add", "bot", "--expires", expires)
    assert made.code == 2
    assert "90d" in made.err


@pytest.mark.parametrize("name", ["", "role:operator", "Bot", "a b", "a" * 65, "did:plc:a", "-a"])
def test_names_that_a_token_may_not_have(engram: CommandLine, name: str) -> None:
    assert engram("token", "add", "--", name).code == 2


def test_the_log_says_what_was_done(engram: CommandLine) -> None:
    engram("token", "add", "bot", "--expires", "never")
    engram("token", "revoke", "bot")
    revoked, added, _ = engram("policy", "log", "--json").json["changes"]
    assert (added["action"], added["added"]) == ("token add", ["token, bot, never"])
    assert (revoked["action"], revoked["removed"]) == ("token revoke", ["token, bot, never"])
