"""What `repos` says of the followed accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.appview.cli.test_status import ALICE, BOB, SPACE, running

if TYPE_CHECKING:
    from tests.appview.cli.conftest import CommandLine

__all__ = ["running"]


@pytest.mark.parametrize("command", [("repos",), ("repos", "list")])
def test_accounts_are_listed_with_a_bar(running: CommandLine, command: tuple[str, ...]) -> None:
    out = running(*command).out
    assert f"{ALICE}  -  synchronized" in " ".join(out.split(" ")).replace("   ", "  ")
    assert "pending, deactivated" in out
    assert f"[{'#' * 18}{'-' * 18}] 1 of 2 fetched into their spaces" in out
    assert "\x1b" not in out


def test_the_list_as_a_document(running: CommandLine) -> None:
    document = running("repos", "list", "--json").json
    assert (document["filled"], document["toFill"]) == (1, 2)
    assert document["states"] == {"pending": 1, "synchronized": 1}
    assert [row["did"] for row in document["repos"]] == [ALICE, BOB]


def test_one_account_is_explained(running: CommandLine) -> None:
    (running.data / "spaces").joinpath("x").unlink(missing_ok=True)
    for file in (running.data / "spaces").glob("*.db"):
        file.unlink()
    document = running("repos", "info", BOB, "--json").json
    assert document["error"] == "no\x1b[31m answer"
    assert (document["attempts"], document["retryAt"]) == (3, "1970-01-01T00:00:02.000Z")
    assert document["spaces"] == [
        {"space": SPACE, "indexed": 0, "leftOut": 0, "rev": None, "hidden": False, "state": "pending"}
    ]
    out = running("repos", "info", BOB).out
    assert "3 attempts, next 1970-01-01T00:00:02.000Z" in out
    assert "\x1b" not in out


def test_who_may_not_write_any_more_is_hidden(running: CommandLine) -> None:
    running("policy", "add", f"p, {BOB}, *, path:/*, write, deny")
    (space,) = running("repos", "info", BOB, "--json").json["spaces"]
    assert space["hidden"]


def test_a_damaged_space_is_told(running: CommandLine) -> None:
    assert "not a database" in running("repos", "info", ALICE).out


def test_an_account_that_is_not_followed(running: CommandLine) -> None:
    answer = running("repos", "info", "did:web:nobody.example", "--json")
    assert answer.code == 4
    assert answer.error["code"] == "NotFound"


def test_an_empty_appview_follows_nobody(engram: CommandLine) -> None:
    assert engram("member", "list", ALICE).code == 4
    assert engram("repos").code == 4
