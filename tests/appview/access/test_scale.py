"""A great many rules and roles stay usable: read once, changed one by one, compiled for one subject."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Final

import pytest

from appview.access.access import Access
from appview.access.errors import InvalidPolicy
from appview.access.policy import MAX_ROLE_LINKS, Policy
from appview.access.rules import Grant, Permission, to_rules
from appview.access.subjects import EVERYONE, Account, Anonymous, Role
from appview.control import Control
from appview.memory.scope import EVERYTHING, Scope, Subtree
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from appview.access.rules import Statement

SPACE: Final = SpaceUri.public(Did("did:web:space.example"))
ROLES: Final = [Role(f"r{number}") for number in range(1_000)]
ALICE: Final = Account(Did("did:web:alice.example"))
RULES: Final = 100_000


def rules_of(role: Role, count: int) -> list[Statement]:
    return [Permission(role, SPACE, Subtree(f"/{role.name}/{number}"), "read") for number in range(count)]


async def test_a_hundred_thousand_rules_of_a_thousand_roles(tmp_path: Path, executor: Executor) -> None:
    statements = [rule for role in ROLES for rule in rules_of(role, RULES // len(ROLES))]
    control = await Control.open(tmp_path / "control.db", executor)
    other = await Control.open(tmp_path / "control.db", executor)
    try:
        await other.change_rules(to_rules(statements), actor="test", action="test", now=1)
        access = await Access.open(control, lambda: 1)
        assert len(access.statements) > RULES

        grant, denial = (
            Grant(ALICE, ROLES[500], SPACE),
            Permission(EVERYONE, SPACE, Subtree("/r500/7"), "read", allow=False),
        )
        start = perf_counter()
        await access.change([grant], actor="test", action="test")
        changed = perf_counter() - start
        await other.change_rules([denial.to_rule()], actor="test", action="test", now=1)
        start = perf_counter()
        assert await access.refresh()
        scope = access.scope(ALICE, SPACE, "read")
        followed = perf_counter() - start
        # Reading all rules takes seconds; a change reads what has changed.
        assert changed < 2.0
        assert followed < 2.0
        assert len(scope.allow) == RULES // len(ROLES) - 1
        assert scope.covers("/r500/6/x", {})
        assert not scope.covers("/r500/7/x", {})
        assert not scope.covers("/r501/6", {})
        assert access.scope(Anonymous(), SPACE, "read").is_nothing
    finally:
        await control.close()
        await other.close()


def test_a_subject_may_have_a_thousand_roles() -> None:
    grants = [Grant(ALICE, role, SPACE) for role in ROLES]
    permissions = [Permission(role, SPACE, Subtree(f"/{role.name}"), "read") for role in ROLES]
    policy = Policy(to_rules([*grants, *permissions]))
    assert len(policy.roles(ALICE, SPACE)) == len(ROLES) + 1
    assert policy.scope(ALICE, SPACE, "read") == Scope(frozenset(Subtree(f"/r{n}") for n in range(1_000)))


def test_roles_in_a_wide_net_are_looked_through_once_each() -> None:
    layers = [ROLES[start : start + 30] for start in range(0, 1_000, 125)][:MAX_ROLE_LINKS]
    links: list[Statement] = [
        Grant(lower, upper, None) for here, above in pairwise(layers) for lower in here for upper in above
    ]
    start = perf_counter()
    policy = Policy(
        to_rules(
            [*links, Grant(ALICE, layers[0][0], None), Permission(layers[-1][0], None, Subtree("/"), "read")]
        )
    )
    assert policy.scope(ALICE, SPACE, "read") == EVERYTHING
    assert perf_counter() - start < 20.0
    with pytest.raises(InvalidPolicy, match="circle"):
        policy.changed([], to_rules([Grant(layers[-1][0], layers[0][0], SPACE)]))


async def test_changes_from_many_sides_are_all_made(tmp_path: Path, executor: Executor) -> None:
    controls = [await Control.open(tmp_path / "control.db", executor) for _ in range(3)]
    try:
        sides = [await Access.open(control, lambda: 1) for control in controls]
        await asyncio.gather(
            *(
                side.change(
                    [Grant(Account(Did(f"did:web:s{number}x{n}.example")), ROLES[n], SPACE)],
                    actor="test",
                    action="test",
                )
                for number, side in enumerate(sides)
                for n in range(10)
            )
        )
        for side in sides:
            await side.refresh()
        assert len({frozenset(side.statements) for side in sides}) == 1
        assert len([s for s in sides[0].statements if isinstance(s, Grant)]) == 30
    finally:
        for control in controls:
            await control.close()
