"""Members and spaces from the command line."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from appview.control import Control
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from tests.appview.cli.conftest import CommandLine

ALICE, BOB = Did("did:plc:" + "a" * 24), Did("did:web:bob.example")
SPACE = SpaceUri.public(ALICE)


def put_membership(engram: CommandLine) -> None:
    async def work() -> None:
        with ThreadPoolExecutor(1) as executor:
            control = await Control.open(engram.data / "control.db", executor)
            await control.put_membership(SPACE, BOB, "synced")
            await control.close()

    asyncio.run(work())


class TestMember:
    @pytest.mark.parametrize("space", [SPACE, ALICE])
    def test_space_is_named_by_its_uri_or_its_authority(self, engram: CommandLine, space: str) -> None:
        answer = engram("member", "add", space, BOB, "--json")
        assert answer.code == 0
        assert answer.json == {"space": SPACE, "did": BOB, "changed": True, "declared": False}
        assert answer.err == ""

    def test_adding_twice_changes_nothing_and_says_so(self, engram: CommandLine) -> None:
        assert f"{BOB} may now write to {SPACE}" in engram("member", "add", ALICE, BOB).out
        again = engram("member", "add", ALICE, BOB)
        assert again.code == 0
        assert "nothing changed" in again.out
        assert engram("member", "add", ALICE, BOB, "--json").json["changed"] is False
        added, _first = engram("policy", "log", "--json").json["changes"]
        assert added["action"] == "member add"

    def test_removing_twice_changes_nothing_and_says_so(self, engram: CommandLine) -> None:
        engram("member", "add", ALICE, BOB)
        assert engram("member", "remove", ALICE, BOB, "--json").json["changed"] is True
        again = engram("member", "remove", ALICE, BOB)
        assert again.code == 0
        assert "nothing changed" in again.out

    def test_who_stays_a_member_by_another_rule_is_told(self, engram: CommandLine) -> None:
        engram("policy", "add", f"g, {BOB}, role:member, *")
        engram("member", "add", ALICE, BOB)
        answer = engram("member", "remove", ALICE, BOB, "--json")
        assert answer.json == {"space": SPACE, "did": BOB, "changed": True, "member": True}
        assert "still a member" in engram("member", "remove", ALICE, BOB).out
        (member,) = engram("member", "list", ALICE, "--json").json["members"]
        assert member["did"] == BOB

    def test_list_shows_who_and_whether_it_is_indexed(self, engram: CommandLine) -> None:
        engram("member", "add", ALICE, BOB)
        assert engram("member", "list", ALICE, "--json").json["members"] == [{"did": BOB, "state": None}]
        put_membership(engram)
        assert engram("member", "list", ALICE).out.split() == [BOB, "synced"]
        engram("member", "remove", ALICE, BOB)
        engram("space", "add", ALICE)
        assert engram("member", "list", ALICE).out == "no members\n"

    def test_list_of_a_space_that_is_not_known_says_so(self, engram: CommandLine) -> None:
        engram("member", "add", ALICE, BOB)
        answer = engram("member", "list", BOB, "--json")
        assert (answer.code, answer.out, answer.error["code"]) == (4, "", "NotFound")
        assert SpaceUri.public(BOB) in answer.error["message"]
        assert "space list" in answer.error["hint"]

    @pytest.mark.parametrize("arguments", [("alice.test", BOB), (ALICE, "@Alice.test")])
    def test_a_handle_is_refused_and_its_did_pointed_at(
        self, engram: CommandLine, arguments: tuple[str, str]
    ) -> None:
        message = engram("member", "add", *arguments, "--json").error["message"]
        assert "https://alice.test/.well-known/atproto-did" in message
        assert "_atproto.alice.test" in message

    @pytest.mark.parametrize(
        "arguments",
        [
            ("alice.test", BOB),
            (ALICE, "bob.test"),
            (ALICE,),
            (ALICE, BOB, BOB),
            (f"{SPACE}/x", BOB),
            ("", BOB),
        ],
    )
    def test_wrong_names_are_usage_errors_and_change_nothing(
        self, engram: CommandLine, arguments: tuple[str, ...]
    ) -> None:
        answer = engram("member", "add", *arguments, "--json")
        assert answer.code == 2
        assert answer.out == ""
        assert answer.error["code"] == "UsageError"
        assert answer.error["hint"] == "see engram-appview member add --help"
        assert not engram.data.exists()

    @pytest.mark.parametrize(
        "command", [("member", "list"), ("member", "remove"), ("status",), ("policy", "list")]
    )
    def test_where_there_is_no_appview_nothing_is_made(
        self, engram: CommandLine, command: tuple[str, ...]
    ) -> None:
        arguments = {"list": (ALICE,), "remove": (ALICE, BOB)}.get(command[-1], ())
        arguments = () if command[0] == "policy" else arguments
        answer = engram(*command, *arguments, "--json")
        assert answer.code == 4
        assert answer.error["code"] == "NotFound"
        assert "--data" in answer.error["hint"]
        assert not engram.data.exists()


class TestSpace:
    def test_is_added_removed_and_added_again(self, engram: CommandLine) -> None:
        assert engram("space", "add", ALICE, "--json").json == {"space": SPACE, "changed": True}
        assert "nothing changed" in engram("space", "add", ALICE).out
        assert engram("space", "list", "--json").json == {"spaces": [{"space": SPACE, "model": None}]}
        assert engram("space", "remove", ALICE, "--json").json["changed"] is True
        assert "nothing changed" in engram("space", "remove", ALICE).out
        assert engram("space", "list").out == "no spaces\n"
        assert engram("space", "add", ALICE, "--json").json["changed"] is True
        assert "no config record" in engram("space", "list").out
