"""Who may do what, now: the rules in control.db, kept compiled, and the changes that are made to them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

from appview.access.enforcer import Enforcer
from appview.access.policy import Policy
from appview.access.rules import Grant, Permission, Statement, to_rules
from appview.access.subjects import AUTHORITY, MEMBER, Account, Action, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from appview.clock import Clock
    from appview.control import Control, Rule, RulesChange
    from appview.memory.scope import Scope
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

MAX_CACHED_SCOPES: Final = 4_096  # (subject, space, action); one is about a kilobyte


class Access:
    """The rules in force. Make one with `Access.open`.

    `scope` and `may` answer from memory, by the rules of `version`. A change through this object is in force
    when its method answers; one by another process when `refresh` has.
    """

    def __init__(self, control: Control, clock: Clock, version: int, policy: Policy) -> None:
        self._control = control
        self._clock = clock
        self._version = version
        self._policy = policy
        self._enforcer: Enforcer | None = None
        self._scopes: dict[tuple[Subject, SpaceUri, Action], Scope] = {}
        self._writers: dict[SpaceUri, frozenset[Did]] = {}
        self._changing = asyncio.Lock()

    @classmethod
    async def open(cls, control: Control, clock: Clock) -> Self:
        """Read the rules; raise `AccessError` where they cannot be followed."""
        version, rules = await control.rules()
        return cls(control, clock, version, Policy(rules))

    @property
    def version(self) -> int:
        """The version of the rules in force."""
        return self._version

    @property
    def statements(self) -> list[Statement]:
        """The rules in force, in the order they were added."""
        return list(self._policy.statements.values())

    def scope(self, subject: Subject, space: SpaceUri, action: Action) -> Scope:
        """Tell what a subject may act on in a space."""
        key = (subject, space, action)
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._policy.scope(subject, space, action)
            if len(self._scopes) >= MAX_CACHED_SCOPES:
                del self._scopes[next(iter(self._scopes))]
            self._scopes[key] = scope
        return scope

    def may(
        self, subject: Subject, space: SpaceUri, action: Action, path: str, attributes: Mapping[str, str]
    ) -> bool:
        """Tell whether a subject may act on a fact at `path` with these effective attributes."""
        return self.scope(subject, space, action).covers(path, attributes)

    def enforce(
        self, subject: Subject, space: SpaceUri, action: Action, path: str, attributes: Mapping[str, str]
    ) -> bool:
        """Ask Casbin itself what `may` answers. Slow: it evaluates every rule."""
        if self._enforcer is None:
            self._enforcer = Enforcer(self._policy)
        return self._enforcer.enforce(subject, space, action, path, attributes)

    def deciding(
        self, subject: Subject, space: SpaceUri, action: Action, path: str, attributes: Mapping[str, str]
    ) -> list[Permission]:
        """Find the rules that decide a question; none means no access."""
        return self._policy.deciding(subject, space, action, path, attributes)

    def writers(self, space: SpaceUri) -> frozenset[Did]:
        """Find the accounts named by rules, alone or in a role, that may write something in a space."""
        writers = self._writers.get(space)
        if writers is None:
            writers = self._writers[space] = self._policy.writers(space)
        return writers

    def members(self, space: SpaceUri) -> list[Did]:
        """List the members of a space, by DID."""
        return self._policy.holders(MEMBER, space)

    async def refresh(self) -> bool:
        """Take over what another process has changed; True when there was something."""
        if await self._control.policy_version() == self.version:
            return False
        async with self._changing:
            return await self._reload()

    async def change(
        self,
        add: Iterable[Statement] = (),
        remove: Iterable[Statement] = (),
        *,
        actor: str,
        action: str,
    ) -> RulesChange:
        """Add and remove rules, all or none, and tell what that changed.

        Raises `InvalidPolicy` where the rules would not go together, also with those of another process.
        """
        async with self._changing:
            await self._reload()
            checked = known = self._policy

            def check(rules: Sequence[Rule]) -> None:
                nonlocal checked
                checked = Policy(rules, known)

            change = await self._control.change_rules(
                to_rules(add), to_rules(remove), actor=actor, action=action, now=self._clock(), check=check
            )
            if change.changed:
                self._install(change.version, checked)
            return change

    async def declare_space(self, space: SpaceUri) -> None:
        """Give a public space's authority its role there."""
        grant = Grant(Account(space.authority), AUTHORITY, space)
        await self.change([grant], actor=str(space.authority), action="space declared")

    async def add_member(self, space: SpaceUri, did: Did, actor: str) -> bool:
        """Let an account write to a space; False when it is a member already."""
        grant = Grant(Account(did), MEMBER, space)
        return (await self.change([grant], actor=actor, action="member add")).changed

    async def remove_member(self, space: SpaceUri, did: Did, actor: str) -> bool:
        """Take an account's membership away; False when it was no member."""
        grant = Grant(Account(did), MEMBER, space)
        return (await self.change(remove=[grant], actor=actor, action="member remove")).changed

    async def _reload(self) -> bool:
        if await self._control.policy_version() == self.version:
            return False
        version, rules = await self._control.rules()
        # In a thread: with a great many rules this takes long enough to be felt by whoever waits.
        self._install(version, await asyncio.to_thread(Policy, rules, self._policy))
        return True

    def _install(self, version: int, policy: Policy) -> None:
        self._version = version
        self._policy = policy
        self._enforcer = None
        self._scopes.clear()
        self._writers.clear()
