"""Who may do what, now: the rules in control.db, kept compiled, and the changes that are made to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

from appview.access.defaults import NewSpace
from appview.access.enforcer import Enforcer
from appview.access.policy import Authors, Policy
from appview.access.rules import RULE_KINDS, Grant, Permission, Statement, to_rules
from appview.access.subjects import MEMBER, Account, Action, Subject
from appview.access.withheld import Rules, Withheld
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from appview.clock import Clock
    from appview.control import Control
    from appview.control_rules import Rule, RulesChange
    from appview.memory.scope import Scope
    from lexicons.spaces import SpaceUri

DEFAULTS: Final = NewSpace()
MAX_CACHED_SCOPES: Final = 4_096  # (subject, space, action)
MAX_CACHED_PATTERNS: Final = 250_000  # of all different scopes; about 50 MB


# From the rules in force to those to add and those to remove.
Plan = Callable[[Sequence[Statement]], tuple[Iterable[Statement], Iterable[Statement]]]
NotePathTags = Callable[[Sequence["Rule"], Sequence["Rule"]], Awaitable[None]]


class Access:
    """The rules in force. Make one with `Access.open`.

    `scope` and `may` answer from memory, by the rules of `version`. A change through this object is in force
    when its method answers; one by another process when `refresh` has.
    """

    def __init__(
        self, control: Control, clock: Clock, version: int, policy: Policy, new_space: NewSpace
    ) -> None:
        self._control = control
        self._clock = clock
        self._new_space = new_space
        self._version = version
        self._policy = policy
        self._enforcer: Enforcer | None = None
        self._scopes: dict[tuple[Subject, SpaceUri, Action], Scope] = {}
        self._shared: dict[Scope, Scope] = {}
        self._patterns = 0  # of the shared scopes
        self._writers: dict[SpaceUri, frozenset[Did]] = {}
        self._members: dict[SpaceUri, list[Did]] = {}
        self._changing = asyncio.Lock()
        self.withheld = Withheld(control, self.rules)

    @classmethod
    async def open(cls, control: Control, clock: Clock, *, new_space: NewSpace = DEFAULTS) -> Self:
        """Read the rules; raise `AccessError` where they cannot be followed. `new_space` says what spaces
        begin with that are declared through this object."""
        version, rules = await control.rules()
        return cls(control, clock, version, Policy(rules), new_space)

    @property
    def version(self) -> int:
        """The version of the rules in force."""
        return self._version

    @property
    def rules(self) -> Rules:
        """The rules in force, as a value."""
        return Rules(self._version, self._policy)

    @property
    def statements(self) -> list[Statement]:
        """The rules in force, in the order they were added."""
        return list(self._policy.statements.values())

    def scope(self, subject: Subject, space: SpaceUri, action: Action) -> Scope:
        """Tell what a subject may act on in a space."""
        key = (subject, space, action)
        scope = self._scopes.get(key)
        if scope is None:
            # Most subjects are named by no rule of their own: they share one scope.
            compiled = self._policy.scope(subject, space, action)
            scope = self._shared.get(compiled)
            if scope is None:
                size = len(compiled.allow) + len(compiled.deny)
                if self._patterns + size > MAX_CACHED_PATTERNS:
                    self._forget()
                self._patterns += size
                scope = self._shared[compiled] = compiled
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

    def write_scopes(self, space: SpaceUri) -> Callable[[str], Scope]:
        """Give a function that tells what an author may write over in a space, by the rules of this moment;
        it may be called on any thread."""
        return self.authors(space).of

    def authors(self, space: SpaceUri) -> Authors:
        """Tell what accounts may write in a space, also those that no rule names."""
        return self._policy.authors(space)

    def writers(self, space: SpaceUri) -> frozenset[Did]:
        """Find the accounts that rules name and that may write something in a space. Where everyone may
        write there are others, of whom nobody knows who they are: see `authors`."""
        writers = self._writers.get(space)
        if writers is None:
            writers = self._writers[space] = self._policy.writers(space)
        return writers

    def known_writers(self, space: SpaceUri, held: Iterable[str]) -> frozenset[Did]:
        """Find who may write something in a space of those that rules name and of those that it holds
        something of: DIDs, as `Control.authors` lists them."""
        authors = self.authors(space)
        return self.writers(space).union(Did(did) for did in held if not authors.of(did).is_nothing)

    def members(self, space: SpaceUri) -> list[Did]:
        """List the members of a space by DID: the accounts that rules name and that are members by any."""
        members = self._members.get(space)
        if members is None:
            members = self._members[space] = sorted(self._policy.holders(MEMBER, space))
        return members

    def inherited_members(self, space: SpaceUri) -> frozenset[Did]:
        """Find the members that stay when their membership in this very space is taken away."""
        return self._policy.inheritors(MEMBER, space)

    async def refresh(self) -> bool:
        """Take over what another process has changed; True when there was something.

        Raises `AccessError` for rules that cannot be followed; those of before stay in force.
        """
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
        added, removed = list(add), list(remove)
        return await self.amend(lambda _rules: (added, removed), actor=actor, action=action)

    async def amend(self, plan: Plan, *, actor: str, action: str) -> RulesChange:
        """Add and remove what `plan` makes of the rules of the moment that the change is made on: it is asked
        again where another process was quicker. Raises as `change`, and what `plan` raises."""
        async with self._changing:
            while True:
                await self._reload()
                add, remove = plan(self.statements)
                checked = known = self._policy

                def check(
                    version: int, before: Sequence[Rule], after: Sequence[Rule], known: Policy = known
                ) -> None:
                    nonlocal checked
                    if version != self._version:
                        raise _Overtaken
                    checked = known.changed(before, after)

                try:
                    change = await self._control.change_rules(
                        to_rules(add),
                        to_rules(remove),
                        actor=actor,
                        action=action,
                        now=self._clock(),
                        check=check,
                    )
                except _Overtaken:
                    continue  # by another process, since the rules were read
                if change.changed:
                    self._install(change.version, checked)
                return change

    @asynccontextmanager
    async def changing_path_tags(self, *, actor: str, action: str) -> AsyncIterator[NotePathTags]:
        """Change tags of paths inside the block, alone. What is about to change is given to the function that
        the block gets: the audit log has it before, whoever keeps what the tags decide is told after."""
        entries: list[int] = []

        async def note(before: Sequence[Rule], after: Sequence[Rule]) -> None:
            entries.append(
                await self._control.note_path_tags(
                    before, after, actor=actor, action=action, now=self._clock()
                )
            )

        async with self._changing:
            yield note
            for entry in entries:
                await self._control.count_path_tags(entry)
            if entries:
                await self._reload()

    async def declare_space(self, space: SpaceUri) -> None:
        """Give a new public space the rules that spaces begin with."""
        begins = self._new_space.statements(space)
        await self.change(begins, actor=str(space.authority), action="space declared")

    async def add_member(self, space: SpaceUri, did: Did, actor: str) -> bool:
        """Let an account write to a space; False when it is a member already."""
        grant = Grant(Account(did), MEMBER, space)
        return (await self.change([grant], actor=actor, action="member add")).changed

    async def remove_member(self, space: SpaceUri, did: Did, actor: str) -> bool:
        """Take an account's membership away; False when it was no member."""
        grant = Grant(Account(did), MEMBER, space)
        return (await self.change(remove=[grant], actor=actor, action="member remove")).changed

    async def _reload(self) -> bool:
        known, policy = self._version, self._policy
        version, changes = await self._control.changes_since(known)
        if version == known:
            return False
        if len(changes) == version - known:
            removed, added = _joined(changes)
            self._install(version, await asyncio.to_thread(policy.changed, removed, added))
            return True
        version, rules = await self._control.rules()
        gone = policy.statements.keys() - dict.fromkeys(rules).keys()
        self._install(version, await asyncio.to_thread(policy.changed, gone, rules))
        return True

    def _install(self, version: int, policy: Policy) -> None:
        self._version = version
        self._policy = policy
        self._enforcer = None
        self.withheld.change(self.rules)
        self._forget()
        self._writers.clear()
        self._members.clear()

    def _forget(self) -> None:
        self._scopes.clear()
        self._shared.clear()
        self._patterns = 0


class _Overtaken(Exception):
    """The rules have changed since they were read."""


def _joined(
    changes: Sequence[tuple[Sequence[Rule], Sequence[Rule]]],
) -> tuple[list[Rule], list[Rule]]:
    """Join changes that follow each other: what is gone after all of them, and what has come."""
    removed: dict[Rule, None] = {}
    added: dict[Rule, None] = {}
    for before, after in changes:
        for rule in before:
            added.pop(rule, None)
            removed[rule] = None
        for rule in after:
            added[rule] = None
    is_rule = RULE_KINDS.__contains__
    return (
        [rule for rule in removed if is_rule(rule.ptype)],
        [rule for rule in added if is_rule(rule.ptype)],
    )
