"""control.db: what is written is read back, changes of rules are whole, other processes' changes are seen."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from appview.clock import now
from appview.control import Control, RepoRow, SpaceRow
from appview.control_rules import AuditRow, Rule, RulesChange
from appview.errors import StoreError, StoreMismatch
from appview.sqlite import Database
from lexicons.configs import Config
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

ALICE = Did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
BOB = Did("did:plc:bbbbbbbbbbbbbbbbbbbbbbbb")
SPACE = SpaceUri.public(ALICE)
CONFIG = Config.declare(
    ModelKey("hashing-64", "sha256:hashing", 64),
    created_at="2026-11-30T09:15:00.000Z",
    document_prefix="té: ",
).with_next(ModelKey("hashing-128", "sha256:hashing", 128))
READ = Rule("p", (str(BOB), str(SPACE), "path:/a/*", "read", "allow"))
WRITE = Rule("p", (str(BOB), str(SPACE), "path:/a/*", "write", "allow"))


def space_row(config: Config | None = CONFIG, *, declared_at: int = 5) -> SpaceRow:
    return SpaceRow(SPACE, ALICE, "public", config, "bafyconfig", "3jqfcqzm3fo2j", declared_at)


@pytest.fixture
async def control(tmp_path: Path, executor: Executor) -> AsyncIterator[Control]:
    control = await Control.open(tmp_path / "control.db", executor)
    yield control
    await control.close()


@pytest.fixture
async def other(tmp_path: Path, executor: Executor, control: Control) -> AsyncIterator[Control]:
    """The same file as another process opens it: connections of its own."""
    other = await Control.open(tmp_path / "control.db", executor)
    yield other
    await other.close()


class TestCursors:
    async def test_starts_unknown(self, control: Control) -> None:
        assert await control.cursor("wss://relay.example") is None

    async def test_moves_in_both_directions_and_can_be_forgotten(self, control: Control) -> None:
        await control.set_cursor("a", 10, 1)
        await control.set_cursor("b", 7, 2)
        await control.set_cursor("a", 3, 4)
        assert await control.cursors() == {"a": (3, 4), "b": (7, 2)}
        await control.clear_cursor("a")
        assert await control.cursor("a") is None
        assert await control.cursor("b") == 7

    async def test_survives_a_restart(self, tmp_path: Path, executor: Executor) -> None:
        first = await Control.open(tmp_path / "again.db", executor)
        await first.set_cursor("a", 2**53, 1)
        await first.close()
        second = await Control.open(tmp_path / "again.db", executor)
        assert await second.cursor("a") == 2**53
        await second.close()


class TestSpaces:
    async def test_config_comes_back_as_declared(self, control: Control) -> None:
        await control.put_space(space_row())
        assert await control.space(SPACE) == space_row()
        assert await control.spaces() == [space_row()]

    async def test_update_keeps_when_it_was_declared(self, control: Control) -> None:
        await control.put_space(space_row(declared_at=5))
        await control.put_space(space_row(None, declared_at=9))
        assert await control.space(SPACE) == space_row(None, declared_at=5)

    @pytest.mark.parametrize("registration_is_open", [True, False])
    async def test_unknown_space_depends_on_registration(
        self, control: Control, registration_is_open: bool
    ) -> None:
        assert await control.space(SPACE) is None
        assert await control.admits(SPACE, unknown=registration_is_open) is registration_is_open

    async def test_admitted_space_is_there_before_its_config_and_its_authority_is_followed(
        self, control: Control
    ) -> None:
        assert await control.admit_space(SPACE, 5, actor="operator") is True
        assert await control.admit_space(SPACE, 6, actor="operator") is False
        assert await control.admits(SPACE, unknown=False)
        row = await control.space(SPACE)
        assert row is not None
        assert row.config is None
        assert await control.repo(ALICE) == RepoRow(ALICE, updated_at=5)

    async def test_removed_space_is_absent_whatever_config_arrives(self, control: Control) -> None:
        await control.put_space(space_row())
        assert await control.remove_space(SPACE, 6, actor="operator") is True
        assert await control.remove_space(SPACE, 7, actor="operator") is False
        await control.put_space(space_row())
        assert await control.space(SPACE) is None
        assert await control.spaces() == []
        assert not await control.admits(SPACE, unknown=True)

    async def test_space_can_be_removed_before_it_was_ever_heard_of(self, control: Control) -> None:
        assert await control.remove_space(SPACE, 6, actor="operator") is True
        assert not await control.admits(SPACE, unknown=True)

    async def test_what_an_operator_says_of_a_space_is_in_the_log(self, control: Control) -> None:
        await control.admit_space(SPACE, 5, actor="operator")
        await control.admit_space(SPACE, 6, actor="operator")  # changes nothing, so there is nothing to tell
        await control.remove_space(SPACE, 7, actor="operator")
        await control.remove_space(SPACE, 8, actor="operator")
        await control.admit_space(SPACE, 9, actor="operator")
        added, removed = (Rule("space", (SPACE, what)) for what in ("added", "removed"))
        assert await control.audit(3) == [
            AuditRow(9, "operator", "space add", (removed,), (added,)),
            AuditRow(7, "operator", "space remove", (added,), (removed,)),
            AuditRow(5, "operator", "space add", (), (added,)),
        ]
        assert await control.policy_version() == 1  # no rule is another

    async def test_readmitted_space_is_filled_again(self, control: Control) -> None:
        await control.put_space(space_row())
        await control.put_membership(SPACE, BOB, "synced")
        await control.put_repos([RepoRow(ALICE, 1, sync_state="synchronized", retry_at=9)])
        await control.remove_space(SPACE, 6, actor="operator")
        await control.admit_space(SPACE, 7, actor="operator")
        assert await control.space(SPACE) == space_row()
        assert await control.memberships() == {(SPACE, BOB): "pending"}
        assert await control.repo(ALICE) == RepoRow(ALICE, 7)


class TestRepos:
    async def test_row_comes_back_as_written(self, control: Control) -> None:
        row = RepoRow(
            ALICE,
            updated_at=3,
            rev="3jqfcqzm3fo2j",
            data="bafydata",
            status="deactivated",
            pds="https://pds.example",
            handle="alice.test",
            sync_state="desynchronized",
            error="bad signature",
            attempts=2,
            retry_at=99,
        )
        await control.put_repos([row, RepoRow(BOB, updated_at=1)])
        assert await control.repos() == [row, RepoRow(BOB, updated_at=1)]
        await control.put_repos([RepoRow(ALICE, updated_at=4)])
        assert await control.repo(ALICE) == RepoRow(ALICE, updated_at=4)

    async def test_all_or_none(self, control: Control) -> None:
        broken = RepoRow(BOB, updated_at=1, sync_state="lost")  # type: ignore[arg-type]
        with pytest.raises(Exception, match="CHECK"):
            await control.put_repos([RepoRow(ALICE, updated_at=1), broken])
        assert await control.repos() == []

    async def test_forgetting_an_account_forgets_its_memberships(self, control: Control) -> None:
        await control.put_repos([RepoRow(ALICE, 1), RepoRow(BOB, 1)])
        await control.put_membership(SPACE, ALICE, "synced")
        await control.put_membership(SPACE, BOB, "pending")
        await control.delete_repo(ALICE)
        assert [row.did for row in await control.repos()] == [BOB]
        assert await control.memberships() == {(SPACE, BOB): "pending"}


async def test_memberships_change_state_and_go(control: Control) -> None:
    await control.put_membership(SPACE, BOB, "pending")
    await control.put_membership(SPACE, BOB, "synced")
    assert await control.memberships() == {(SPACE, BOB): "synced"}
    await control.delete_membership(SPACE, BOB)
    assert await control.memberships() == {}


class TestRules:
    async def test_new_file_has_the_default_rules(self, control: Control) -> None:
        version, rules = await control.rules()
        assert version == 1
        assert Rule("p", ("role:member", "*", "path:/*", "read", "allow")) in rules
        assert not [rule for rule in rules if rule.ptype == "g"]

    async def test_change_is_recorded_with_who_when_before_and_after(self, control: Control) -> None:
        await control.change_rules([READ], actor="operator", action="policy add", now=7)
        change = await control.change_rules([WRITE], [READ], actor=str(ALICE), action="policy change", now=8)
        assert change == RulesChange(3, added=(WRITE,), removed=(READ,))
        assert change.version == await control.policy_version()
        assert (await control.rules())[1][-1] == WRITE
        newest, oldest, _ = await control.audit(10)
        assert (newest.at, newest.actor, newest.action) == (8, str(ALICE), "policy change")
        assert (newest.before, newest.after) == ((READ,), (WRITE,))
        assert (oldest.before, oldest.after) == ((), (READ,))
        assert await control.audit(1) == [newest]

    async def test_log_begins_with_the_rules_that_were_there_first(self, control: Control) -> None:
        version, rules = await control.rules()
        (first,) = await control.audit(10)
        assert (first.actor, first.action, first.before) == ("engram-appview", "first start", ())
        assert first.after == tuple(rules)
        assert abs(first.at - now()) < 3_600_000_000  # microseconds
        assert await control.changes_since(0) == (version, [((), tuple(rules))])

    async def test_log_of_an_older_file_begins_before_its_first_entry(
        self, tmp_path: Path, executor: Executor
    ) -> None:
        """A file whose rules have been changed since, by a version that did not log its first ones."""
        path = tmp_path / "control.db"
        old = tmp_path / "old"
        old.mkdir()
        for file in (files("appview") / "migrations").iterdir():
            if file.name < "004":
                (old / file.name).write_text(file.read_text())
        database = await Database.open(path, old, executor, readers=1)
        control = Control(database)
        gone = (await control.rules())[1][0]
        await control.change_rules([READ], [gone], actor="operator", action="change", now=7)
        await control.close()
        control = await Control.open(path, executor)
        changed, first = await control.audit(10)
        assert (changed.at, first.at) == (7, 7)
        left = [rule for rule in first.after if rule not in changed.before] + [*changed.after]
        assert left == (await control.rules())[1]
        await control.close()

    async def test_change_that_does_nothing_leaves_no_trace(self, control: Control) -> None:
        version = (await control.change_rules([READ], actor="operator", action="add", now=1)).version
        for removed in (WRITE, READ):
            change = await control.change_rules([READ], [removed], actor="operator", action="add", now=2)
            assert change == RulesChange(version)
            assert not change.changed
        assert [row.at for row in await control.audit(10)][:-1] == [1]

    async def test_refused_change_changes_nothing(self, control: Control) -> None:
        before = await control.rules()
        seen: list[tuple[int, list[Rule], list[Rule]]] = []

        def refuse(version: int, gone: Sequence[Rule], come: Sequence[Rule]) -> None:
            seen.append((version, list(gone), list(come)))
            raise LookupError("no")

        with pytest.raises(LookupError):
            await control.change_rules(
                [READ, WRITE], [before[1][0]], actor="operator", action="x", now=1, check=refuse
            )
        assert await control.rules() == before
        assert len(await control.audit(10)) == 1  # the rules that there were before
        assert seen == [(1, [before[1][0]], [READ, WRITE])]

    @pytest.mark.parametrize("fields", [(), ("a", ""), ("a",) * 7])
    async def test_misshapen_rule_is_refused_whole(self, control: Control, fields: tuple[str, ...]) -> None:
        before = await control.rules()
        with pytest.raises(ValueError, match="1 to 6 fields"):
            await control.change_rules([READ, Rule("p", fields)], actor="operator", action="x", now=1)
        assert await control.rules() == before


class TestAnotherProcess:
    async def test_its_rules_are_seen(self, control: Control, other: Control) -> None:
        change = await other.change_rules([READ], actor="operator", action="add", now=1)
        assert await control.policy_version() == change.version
        assert READ in (await control.rules())[1]

    async def test_data_version_moves_with_its_writes_and_not_with_ours(
        self, control: Control, other: Control
    ) -> None:
        start = await control.data_version()
        await control.set_cursor("a", 1, 1)
        assert await control.data_version() == start
        await other.set_cursor("b", 1, 1)
        assert await control.data_version() != start


async def test_file_of_a_newer_version_is_refused(tmp_path: Path, executor: Executor) -> None:
    control = await Control.open(tmp_path / "newer.db", executor)
    await control._database.write(lambda connection: connection.execute("PRAGMA user_version = 999"))
    await control.close()
    with pytest.raises(StoreMismatch, match="schema version 999"):
        await Control.open(tmp_path / "newer.db", executor)


async def test_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, executor: Executor) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are my notes, not a database\n" * 100)
    with pytest.raises(StoreError, match=r"notes\.db"):
        await Control.open(path, executor)
    assert path.read_text().startswith("these are my notes")
