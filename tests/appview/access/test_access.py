"""Rules in force: members, changes by this process and by others, and what a bad change leaves."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from appview.access.access import MAX_CACHED_SCOPES, Access
from appview.access.defaults import NewSpace
from appview.access.errors import InvalidPolicy, InvalidRule
from appview.access.rules import Grant, Permission
from appview.access.subjects import AUTHORITY, EVERYONE, MEMBER, Account, Anonymous, Role
from appview.control import Control
from appview.control_rules import Rule
from appview.errors import ConfigurationError
from appview.memory.scope import EVERYTHING, NOTHING, Scope, Subtree
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from appview.access.rules import Statement

ALICE, BOB, CAROL = (Did("did:plc:" + letter * 24) for letter in "abc")
SPACE, OTHER = SpaceUri.public(ALICE), SpaceUri.public(BOB)
SECRET = Permission(Anonymous(), SPACE, Subtree("/secret"), "read", allow=False)


def clock() -> int:
    return 1_000


@pytest.fixture
async def control(tmp_path: Path, executor: Executor) -> AsyncIterator[Control]:
    control = await Control.open(tmp_path / "control.db", executor)
    yield control
    await control.close()


@pytest.fixture
async def access(control: Control) -> Access:
    return await Access.open(control, clock)


@pytest.fixture
async def other_process(tmp_path: Path, executor: Executor, control: Control) -> AsyncIterator[Access]:
    """The command line beside a running server: the same file, connections and rules of its own."""
    second = await Control.open(tmp_path / "control.db", executor)
    yield await Access.open(second, clock)
    await second.close()


class TestDefaults:
    async def test_everyone_reads_and_nobody_writes(self, access: Access) -> None:
        await access.declare_space(SPACE)
        assert access.scope(Anonymous(), SPACE, "read") == EVERYTHING
        assert access.scope(Account(CAROL), SPACE, "read") == EVERYTHING
        assert access.scope(Anonymous(), OTHER, "read") == NOTHING
        for action in ("write", "delete", "admin"):
            assert access.scope(Account(BOB), SPACE, action) == NOTHING

    async def test_authority_of_a_declared_space_writes_and_governs_there_alone(self, access: Access) -> None:
        await access.declare_space(SPACE)
        for action in ("read", "write", "delete", "admin"):
            assert access.scope(Account(ALICE), SPACE, action) == EVERYTHING
        assert access.scope(Account(ALICE), OTHER, "write") == NOTHING
        assert access.writers(SPACE) == {ALICE}
        assert access.writers(OTHER) == frozenset()

    async def test_declaring_again_changes_nothing(self, access: Access, control: Control) -> None:
        await access.declare_space(SPACE)
        version = access.version
        await access.declare_space(SPACE)
        assert access.version == version
        audit, _ = await control.audit(10)
        assert (audit.at, audit.actor, audit.action) == (1_000, str(ALICE), "space declared")
        assert audit.after == (
            Grant(Account(ALICE), AUTHORITY, SPACE).to_rule(),
            Permission(EVERYONE, SPACE, Subtree("/"), "read").to_rule(),
        )

    async def test_what_a_space_begins_with_is_configured(self, control: Control) -> None:
        rules = ("p, role:everyone, SPACE, path:/open/*, read, allow", f"g, {BOB}, role:member, SPACE")
        access = await Access.open(control, clock, new_space=NewSpace.of("members", rules))
        await access.declare_space(SPACE)
        assert access.scope(Anonymous(), SPACE, "read") == Scope(frozenset({Subtree("/open")}))
        assert access.scope(Account(BOB), SPACE, "read") == EVERYTHING
        assert access.members(SPACE) == [BOB]
        assert access.scope(Anonymous(), OTHER, "read") == NOTHING

    def test_a_rule_for_new_spaces_that_does_nothing_is_told(self) -> None:
        rules = ("p, anonymous, SPACE, path:/*, write, allow", "p, anonymous, SPACE, path:/*, read, allow")
        (told,) = NewSpace.of("members", rules).advice()
        assert told[0] == rules[0]
        assert "never counts" in told[1]

    @pytest.mark.parametrize(
        "line", ["p, role:everyone, *, path:/*, read, allow", "p, SPACE", "g, SPACE, role:x, SPACE", ""]
    )
    def test_a_rule_for_new_spaces_that_cannot_be_followed_stops_the_program(self, line: str) -> None:
        with pytest.raises(ConfigurationError, match="space_rules"):
            NewSpace.of("everyone", [line])

    async def test_no_rules_mean_no_access(self, access: Access) -> None:
        await access.change(remove=access.statements, actor="operator", action="policy remove")
        assert access.scope(Anonymous(), SPACE, "read") == NOTHING
        assert not access.enforce(Anonymous(), SPACE, "read", "/", {})


class TestPlans:
    async def test_a_plan_is_made_of_the_rules_it_changes(
        self, access: Access, other_process: Access, control: Control, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[list[object]] = []

        def replace(known: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
            seen.append(list(known))
            return [SECRET], [statement for statement in known if statement != SECRET]

        read = control.change_rules

        async def late(*given: Any, **more: Any) -> Any:
            if len(seen) == 1:  # after the plan, before the change: another process is quicker
                await other_process.add_member(SPACE, BOB, "operator")
            return await read(*given, **more)

        monkeypatch.setattr(control, "change_rules", late)
        change = await access.amend(replace, actor="operator", action="policy import --replace")
        assert len(seen) == 2
        assert Grant(Account(BOB), MEMBER, SPACE).to_rule() in change.removed
        assert access.statements == [SECRET]
        assert (await control.rules())[1] == [SECRET.to_rule()]


class TestMembers:
    async def test_member_writes_and_does_not_govern(self, access: Access) -> None:
        assert await access.add_member(SPACE, BOB, "operator") is True
        assert access.members(SPACE) == [BOB]
        assert access.may(Account(BOB), SPACE, "write", "/a", {})
        assert access.enforce(Account(BOB), SPACE, "write", "/a", {})
        assert not access.may(Account(BOB), SPACE, "admin", "/", {})
        assert not access.enforce(Account(BOB), SPACE, "admin", "/", {})
        assert access.writers(SPACE) == {BOB}

    async def test_adding_twice_and_removing_twice_change_nothing(
        self, access: Access, control: Control
    ) -> None:
        await access.add_member(SPACE, BOB, "operator")
        version = access.version
        assert await access.add_member(SPACE, BOB, "operator") is False
        assert access.version == version
        assert await access.remove_member(SPACE, BOB, "operator") is True
        assert await access.remove_member(SPACE, BOB, "operator") is False
        assert [row.action for row in await control.audit(2)] == ["member remove", "member add"]

    async def test_removed_member_writes_no_more_at_once(self, access: Access) -> None:
        await access.add_member(SPACE, BOB, "operator")
        await access.add_member(SPACE, CAROL, "operator")
        assert access.writers(SPACE) == {BOB, CAROL}
        await access.remove_member(SPACE, BOB, "operator")
        assert access.scope(Account(BOB), SPACE, "write") == NOTHING
        assert access.writers(SPACE) == {CAROL}


class TestChanges:
    async def test_take_effect_on_the_next_question(self, access: Access) -> None:
        await access.declare_space(SPACE)
        assert access.scope(Anonymous(), SPACE, "read") == EVERYTHING
        assert access.enforce(Anonymous(), SPACE, "read", "/secret/x", {})
        await access.change([SECRET], actor="operator", action="policy add")
        assert access.scope(Anonymous(), SPACE, "read") == Scope(
            frozenset({Subtree("/")}), frozenset({Subtree("/secret")})
        )
        assert not access.enforce(Anonymous(), SPACE, "read", "/secret/x", {})
        assert access.enforce(Anonymous(), SPACE, "read", "/secrets", {})
        assert access.scope(Account(BOB), SPACE, "read") == EVERYTHING

    async def test_bad_change_leaves_everything_as_it_was(self, access: Access, control: Control) -> None:
        await access.change([Grant(Role("a"), Role("b"), None)], actor="operator", action="policy add")
        before = access.statements
        with pytest.raises(InvalidPolicy):
            await access.change(
                [SECRET, Grant(Role("b"), Role("a"), SPACE)], actor="operator", action="policy add"
            )
        assert access.statements == before
        assert len(await control.audit(10)) == 2

    async def test_many_at_once_are_all_made(self, access: Access) -> None:
        members = [Did(f"did:web:m{number}.example") for number in range(20)]
        await asyncio.gather(*(access.add_member(SPACE, did, "operator") for did in members))
        assert access.members(SPACE) == sorted(members)

    async def test_cache_does_not_grow_with_the_callers(self, access: Access) -> None:
        for number in range(MAX_CACHED_SCOPES + 10):
            access.scope(Account(Did(f"did:web:m{number}.example")), SPACE, "read")
        assert len(access._scopes) == MAX_CACHED_SCOPES

    async def test_callers_with_the_same_rights_share_them(self, access: Access) -> None:
        await access.change([SECRET], actor="operator", action="test")
        await access.declare_space(SPACE)
        assert access.scope(Account(BOB), SPACE, "read") is access.scope(Account(CAROL), SPACE, "read")

    async def test_cache_does_not_grow_with_the_rules(
        self, access: Access, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("appview.access.access.MAX_CACHED_PATTERNS", 10)
        tenth = [Permission(Anonymous(), None, Subtree(f"/{number}"), "read") for number in range(4)]
        await access.change(tenth, actor="operator", action="test")
        for number in range(20):
            space = SpaceUri.public(Did(f"did:web:s{number}.example"))
            own = Permission(Anonymous(), space, Subtree("/own"), "read")
            await access.change([own], actor="operator", action="test")
        for number in range(20):
            space = SpaceUri.public(Did(f"did:web:s{number}.example"))
            assert access.may(Anonymous(), space, "read", "/own/x", {})
            assert access.may(Anonymous(), space, "read", "/3", {})
            assert not access.may(Anonymous(), space, "read", "/4", {})
            assert access._patterns <= 10


class TestAnotherProcess:
    async def test_its_change_is_seen_after_a_refresh(self, access: Access, other_process: Access) -> None:
        assert access.scope(Account(BOB), SPACE, "write") == NOTHING
        await other_process.add_member(SPACE, BOB, "operator")
        assert await access.refresh() is True
        assert await access.refresh() is False
        assert access.version == other_process.version
        assert access.scope(Account(BOB), SPACE, "write") == EVERYTHING
        assert access.writers(SPACE) == {BOB}

    async def test_many_changes_are_taken_over_as_one(
        self, access: Access, other_process: Access, control: Control
    ) -> None:
        await access.add_member(SPACE, BOB, "operator")
        await other_process.remove_member(SPACE, BOB, "operator")
        await other_process.change([SECRET], actor="operator", action="x")
        await other_process.add_member(SPACE, CAROL, "operator")
        await other_process.change(remove=[SECRET], actor="operator", action="x")
        await other_process.add_member(SPACE, BOB, "operator")
        assert await access.refresh() is True
        assert [s.to_rule() for s in access.statements] == (await control.rules())[1]
        assert access.members(SPACE) == [BOB, CAROL]

    async def test_a_change_past_this_program_makes_it_read_everything(
        self, access: Access, other_process: Access, tmp_path: Path
    ) -> None:
        await other_process.add_member(SPACE, CAROL, "operator")
        with closing(sqlite3.connect(tmp_path / "control.db")) as connection, connection:
            connection.execute("DELETE FROM casbin_rule WHERE v0 = ?", (CAROL,))
            connection.execute(
                "INSERT INTO casbin_rule (ptype, v0, v1, v2) VALUES ('g', ?, 'role:member', ?)", (BOB, SPACE)
            )
            connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'policy_version'")
        assert await access.refresh() is True
        assert access.members(SPACE) == [BOB]

    async def test_change_after_one_that_was_not_seen_yet_takes_both(
        self, access: Access, other_process: Access
    ) -> None:
        await other_process.add_member(SPACE, BOB, "operator")
        assert await access.add_member(SPACE, BOB, "operator") is False
        assert await access.add_member(SPACE, CAROL, "operator") is True
        assert access.members(SPACE) == [BOB, CAROL]

    async def test_two_halves_of_a_circle_cannot_both_be_made(
        self, access: Access, other_process: Access
    ) -> None:
        await other_process.change([Grant(Role("a"), Role("b"), None)], actor="operator", action="x")
        with pytest.raises(InvalidPolicy, match="circle"):
            await access.change([Grant(Role("b"), Role("a"), None)], actor="operator", action="x")

    async def test_rule_that_cannot_be_followed_stops_instead_of_being_ignored(
        self, access: Access, control: Control
    ) -> None:
        misspelt = Rule("p", ("role:everyone", str(SPACE), "path:/secret/*", "read", "denny"))
        await control.change_rules([misspelt], actor="operator", action="by hand", now=1)
        with pytest.raises(InvalidRule, match="denny"):
            await access.refresh()
        with pytest.raises(InvalidRule, match="denny"):
            await Access.open(control, clock)


async def test_roles_of_this_module_are_those_of_the_default_rules(access: Access) -> None:
    named = {statement.grantee for statement in access.statements}
    assert {AUTHORITY, MEMBER} < named
