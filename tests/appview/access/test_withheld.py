"""Between a change of the rules and the index that follows: what readers are not shown, when they wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from appview.access import withheld
from appview.access.access import Access
from appview.access.errors import NotFollowed
from appview.access.rules import Grant, Permission
from appview.access.subjects import EVERYONE, MEMBER, Account, Role
from appview.control import Control
from appview.memory.scope import Attribute, Subtree
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import Executor
    from pathlib import Path

ALICE, BOB, CAROL, DORA = (Did("did:plc:" + letter * 24) for letter in "abcd")
SPACE, OTHER = SpaceUri.public(ALICE), SpaceUri.public(BOB)
NOT_THERE = Permission(MEMBER, SPACE, Subtree("/a"), "write", allow=False)


@pytest.fixture
async def control(tmp_path: Path, executor: Executor) -> AsyncIterator[Control]:
    control = await Control.open(tmp_path / "control.db", executor)
    yield control
    await control.close()


@pytest.fixture
async def access(control: Control) -> Access:
    """Rules by which Bob and Carol are members, and an index that holds what they wrote."""
    access = await Access.open(control, lambda: 1)
    await access.declare_space(SPACE)
    for did in (BOB, CAROL):
        await access.add_member(SPACE, did, "test")
        await control.put_membership(SPACE, did, "synced")
    return access


async def change(access: Access, *add: Grant | Permission) -> None:
    await access.change(add, actor="test", action="test")


async def test_nobody_is_left_out_who_may_write(access: Access) -> None:
    assert await access.withheld.authors(SPACE) == frozenset()
    assert await access.withheld.authors(OTHER) == frozenset()


async def test_whose_right_is_gone_is_left_out_until_it_is_back(access: Access, control: Control) -> None:
    await control.put_membership(OTHER, BOB, "synced")
    await access.add_member(OTHER, BOB, "test")
    await access.remove_member(SPACE, BOB, "test")
    assert await access.withheld.authors(SPACE) == {BOB}
    assert await access.withheld.authors(OTHER) == frozenset()
    await access.add_member(SPACE, BOB, "test")
    assert await access.withheld.authors(SPACE) == frozenset()
    await change(access, Permission(Account(CAROL), None, Subtree("/"), "write", allow=False))
    assert await access.withheld.authors(SPACE) == {CAROL}
    await change(access, Permission(EVERYONE, SPACE, Subtree("/"), "write", allow=False))
    assert await access.withheld.authors(SPACE) == {BOB, CAROL}


async def test_what_another_process_takes_away_is_left_out_too(
    access: Access, tmp_path: Path, executor: Executor
) -> None:
    assert await access.withheld.authors(SPACE) == frozenset()
    second = await Control.open(tmp_path / "control.db", executor)
    await (await Access.open(second, lambda: 1)).remove_member(SPACE, BOB, "operator")
    await second.close()
    await access.refresh()  # as each request does
    assert await access.withheld.authors(SPACE) == {BOB}


async def test_what_was_taken_away_while_nothing_ran_is_left_out_from_the_start(
    access: Access, control: Control
) -> None:
    await access.remove_member(SPACE, BOB, "test")
    assert await (await Access.open(control, lambda: 1)).withheld.authors(SPACE) == {BOB}


async def test_once_the_index_holds_nothing_of_an_author_there_is_nothing_to_leave_out(
    access: Access, control: Control
) -> None:
    await access.remove_member(SPACE, BOB, "test")
    assert await access.withheld.authors(SPACE) == {BOB}
    await control.delete_membership(SPACE, BOB)
    access.withheld.follow(access.rules)
    assert await access.withheld.authors(SPACE) == frozenset()


class TestStrangers:
    """No rule names Dora; what she may write is what everyone may."""

    @pytest.fixture(autouse=True)
    async def held(self, access: Access, control: Control) -> None:
        await change(access, Permission(EVERYONE, SPACE, Subtree("/"), "write"))
        await control.put_membership(SPACE, DORA, "synced")

    async def test_are_left_out_once_nobody_may_write_any_more(self, access: Access) -> None:
        assert await access.withheld.authors(SPACE) == frozenset()
        await access.remove_member(SPACE, BOB, "test")  # a change that does not concern her, nor him
        assert await access.withheld.authors(SPACE) == frozenset()
        await access.change(
            remove=[Permission(EVERYONE, SPACE, Subtree("/"), "write")], actor="test", action="test"
        )
        assert await access.withheld.authors(SPACE) == {BOB, DORA}

    async def test_are_left_out_where_a_rule_names_one_to_deny_it(self, access: Access) -> None:
        await change(access, Permission(Account(DORA), None, Subtree("/"), "write", allow=False))
        assert await access.withheld.authors(SPACE) == {DORA}

    @pytest.mark.parametrize(
        "rule",
        [
            Permission(EVERYONE, SPACE, Subtree("/a"), "write", allow=False),
            Permission(EVERYONE, None, Attribute("k", "v"), "write", allow=False),
            Permission(Account(DORA), SPACE, Subtree("/a"), "write", allow=False),
        ],
    )
    async def test_are_waited_for_where_their_right_has_shrunk(
        self, access: Access, rule: Permission
    ) -> None:
        access.withheld.wake = lambda: None
        access.withheld.follow(access.rules)
        await change(access, rule)
        reader = asyncio.create_task(access.withheld.authors(SPACE))
        await asyncio.wait([reader], timeout=0.05)
        assert not reader.done()
        access.withheld.follow(access.rules)
        assert await reader == frozenset()


class TestWaiting:
    """Readers of a space wait where a right has shrunk and is not gone."""

    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(withheld, "SETTLE_SECONDS", 0.2)

    @pytest.fixture
    async def woken(self, access: Access) -> asyncio.Event:
        """Something that makes the index follow, and has done so once."""
        woken = asyncio.Event()
        access.withheld.wake = woken.set
        access.withheld.follow(access.rules)
        return woken

    async def asked(self, access: Access, space: SpaceUri = SPACE) -> asyncio.Task[frozenset[Did]]:
        """Ask as a reader does, and see what comes of it at once."""
        task = asyncio.create_task(access.withheld.authors(space))
        await asyncio.wait([task], timeout=0.05)
        return task

    async def test_for_the_index_to_follow(self, access: Access, woken: asyncio.Event) -> None:
        await change(access, NOT_THERE)
        reader = await self.asked(access)
        assert woken.is_set()
        assert not reader.done()
        access.withheld.follow(access.rules)
        assert await reader == frozenset()
        assert (await self.asked(access)).done()

    async def test_not_for_one_that_has_followed_what_was_before(
        self, access: Access, woken: asyncio.Event
    ) -> None:
        await change(access, NOT_THERE)
        begun = access.rules  # what the index is following while the rules change again
        await change(access, Permission(MEMBER, SPACE, Subtree("/b"), "write", allow=False))
        reader = await self.asked(access)
        access.withheld.follow(begun)
        await asyncio.wait([reader], timeout=0.05)
        assert not reader.done()
        access.withheld.follow(access.rules)
        assert await reader == frozenset()

    async def test_only_so_long_after_the_change(self, access: Access, woken: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await change(access, NOT_THERE)
        with pytest.raises(NotFollowed):
            await access.withheld.authors(SPACE)
        assert 0.15 < loop.time() - begun < 5
        next_one = await self.asked(access)
        assert next_one.done()  # nor does the next one wait
        assert isinstance(next_one.exception(), NotFollowed)
        assert await access.withheld.authors(OTHER) == frozenset()
        access.withheld.follow(access.rules)
        assert await access.withheld.authors(SPACE) == frozenset()

    async def test_and_not_for_good_where_the_index_cannot_follow(
        self, access: Access, woken: asyncio.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(withheld, "REFUSE_SECONDS", 0.0)
        await change(access, NOT_THERE)
        assert await access.withheld.authors(SPACE) == frozenset()

    async def test_only_where_something_has_shrunk(self, access: Access, woken: asyncio.Event) -> None:
        await change(access, NOT_THERE)
        access.withheld.follow(access.rules)
        await change(access, Permission(EVERYONE, SPACE, Subtree("/x"), "read", allow=False))
        assert (await self.asked(access)).done()
        await access.remove_member(SPACE, BOB, "test")
        assert await (await self.asked(access)) == {BOB}
        assert (await self.asked(access, OTHER)).done()
        assert not woken.is_set()

    async def test_where_attributes_decide_after_every_change(
        self, access: Access, woken: asyncio.Event
    ) -> None:
        await change(access, Permission(MEMBER, SPACE, Attribute("k", "v"), "write", allow=False))
        access.withheld.follow(access.rules)
        assert (await self.asked(access)).done()
        async with access.changing_path_tags(actor="test", action="test") as note:
            await note([], [])
        reader = await self.asked(access)
        assert not reader.done()
        access.withheld.follow(access.rules)
        await reader

    async def test_for_nobody_where_nobody_makes_the_index_follow(self, access: Access) -> None:
        await change(access, NOT_THERE)
        assert (await self.asked(access)).done()

    async def test_at_the_start_where_rights_are_partial(self, access: Access, control: Control) -> None:
        await change(access, NOT_THERE)
        later = await Access.open(control, lambda: 1)
        later.withheld.wake = lambda: None
        reader = await self.asked(later)
        assert not reader.done()
        later.withheld.follow(later.rules)
        await reader


async def test_what_accounts_may_write_is_what_each_may(access: Access) -> None:
    staff = Role("staff")
    await change(
        access,
        Grant(staff, MEMBER, None),
        Grant(Account(ALICE), staff, OTHER),
        Permission(staff, OTHER, Subtree("/a"), "write", allow=False),
        Permission(Account(CAROL), SPACE, Subtree("/c"), "write", allow=False),
        Permission(Account(BOB), OTHER, Subtree("/b"), "write"),
        Permission(Account(BOB), None, Subtree("/b"), "read"),
    )
    policy = access.rules.policy
    for space in (SPACE, OTHER):
        scopes = {did: policy.scope(Account(did), space, "write") for did in (ALICE, BOB, CAROL)}
        assert {did: policy.authors(space).of(did) for did in scopes} == scopes
        assert policy.writers(space) == {did for did, scope in scopes.items() if not scope.is_nothing}
