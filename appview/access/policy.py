"""All rules of one version, ready to be asked: a pure function from rules to what a subject may do.

Invariants: what a `Policy` answers is what Casbin's enforcer answers for the same rules; no answer changes
after construction; no cycle of roles, and no chain of them that Casbin would not follow to its end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from appview.access.errors import InvalidPolicy
from appview.access.rules import Grant, Permission, Statement, parse_rule
from appview.access.subjects import EVERYONE, Account, Action, Role, Subject
from appview.memory.scope import NOTHING, Attribute, Pattern, Scope, Subtree
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from appview.control_rules import Rule
    from lexicons.spaces import SpaceUri

# Casbin's role manager follows 9 links from a subject (its limit of 10 counts the subject itself). One is
# the subject's own, 8 are left between roles.
MAX_ROLE_LINKS: Final = 8

Grantee = Subject | Role
_PermissionKey = tuple[Grantee, "SpaceUri | None", Action]
_NOBODY: Final[Counter[Account]] = Counter()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Given:
    """A grant to an account."""

    grantee: Account
    role: Role
    space: SpaceUri | None


@dataclass(frozen=True, slots=True)
class Authors:
    """What accounts may write in one space: each that a rule names, by its DID, and any of the `others`."""

    named: Mapping[str, Scope]
    others: Scope

    def of(self, did: str) -> Scope:
        """Tell what an account may write."""
        return self.named.get(did, self.others)


class Policy:
    """The rules of one version. Raises `InvalidRule` or `InvalidPolicy` where they cannot be followed."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.statements: dict[Rule, Statement] = {}
        self._permissions: dict[_PermissionKey, tuple[Permission, ...]] = {}
        self._roles: dict[tuple[Grantee, SpaceUri | None], tuple[Role, ...]] = {}
        self._grants: dict[SpaceUri | None, dict[Grant, None]] = {}
        self._named: dict[SpaceUri | None, Counter[Account]] = {}
        self._authors: dict[SpaceUri, Authors] = {}  # found out when asked for
        self._update((), rules)

    def changed(self, removed: Iterable[Rule], added: Iterable[Rule]) -> Policy:
        """Make the policy that a change leads to; what did not change is shared with this one."""
        policy = copy(self)
        policy.statements = dict(self.statements)
        policy._permissions = dict(self._permissions)
        policy._roles = dict(self._roles)
        policy._grants = dict(self._grants)
        policy._named = dict(self._named)
        policy._authors = {}
        changes = policy._update(removed, added)
        for space, authors in list(self._authors.items()):  # another thread may be finding out more
            policy._carry_over(space, authors, [each for each in changes if each.space in (space, None)])
        return policy

    def _carry_over(self, space: SpaceUri, authors: Authors, changes: list[Statement]) -> None:
        """Keep what an older policy has found out of a space's authors, but for those who are touched."""
        if any(isinstance(each.grantee, Role) and _is_about_writing(each) for each in changes):
            return
        touched = {each.grantee for each in changes if isinstance(each.grantee, Account)}
        named = dict(authors.named)
        for account in touched:
            named.pop(account.did, None)
            if account in self._accounts(space):
                named[account.did] = self.scope(account, space, "write")
        self._authors[space] = Authors(named, authors.others)

    def _update(self, removed: Iterable[Rule], added: Iterable[Rule]) -> list[Statement]:
        """Take rules away and add others; return them. Whatever an older policy shares is replaced, never
        changed."""
        gone = [self.statements.pop(rule) for rule in removed if rule in self.statements]
        new = [rule for rule in dict.fromkeys(added) if rule not in self.statements]
        read = {rule: parse_rule(rule) for rule in new}
        self.statements.update(read)
        permissions: dict[_PermissionKey, dict[Permission, None]] = {}
        roles: dict[tuple[Grantee, SpaceUri | None], dict[Role, None]] = {}
        grants: dict[SpaceUri | None, dict[Grant, None]] = {}
        named: dict[SpaceUri | None, Counter[Account]] = {}
        for statements, coming in ((gone, False), (read.values(), True)):
            for statement in statements:
                space = statement.space
                match statement:
                    case Permission():
                        at = (statement.grantee, space, statement.action)
                        if at not in permissions:
                            permissions[at] = dict.fromkeys(self._permissions.get(at, ()))
                        _put(permissions[at], statement, coming)
                    case Grant():
                        held = (statement.grantee, space)
                        if held not in roles:
                            roles[held] = dict.fromkeys(self._roles.get(held, ()))
                        _put(roles[held], statement.role, coming)
                        if space not in grants:
                            grants[space] = dict(self._grants.get(space, {}))
                        _put(grants[space], statement, coming)
                if isinstance(statement.grantee, Account):
                    if space not in named:
                        named[space] = Counter(self._named.get(space, {}))
                    named[space][statement.grantee] += 1 if coming else -1
        self._permissions |= {key: tuple(found) for key, found in permissions.items()}
        self._roles |= {key: tuple(found) for key, found in roles.items()}
        self._grants |= grants
        self._named |= {space: +count for space, count in named.items()}
        if any(isinstance(new, Grant) and isinstance(new.grantee, Role) for new in read.values()):
            _check_roles(self._grants)
        return [*gone, *read.values()]

    def roles(self, subject: Grantee, space: SpaceUri) -> frozenset[Role]:
        """Find all roles that a subject, or a role, has in a space, given and inherited."""
        found: dict[Role, None] = {EVERYONE: None}
        waiting: list[Grantee] = [subject, EVERYONE]
        while waiting:
            holder = waiting.pop()
            for where in (space, None):
                for role in self._roles.get((holder, where), ()):
                    if role not in found:
                        found[role] = None
                        waiting.append(role)
        return frozenset(found)

    def scope(self, subject: Grantee, space: SpaceUri, action: Action) -> Scope:
        """Compile what a subject, or whoever has a role and nothing else, may act on in a space."""
        permissions = list(self._relevant(subject, space, action))
        return _compact(
            {permission.pattern for permission in permissions if permission.allow},
            {permission.pattern for permission in permissions if not permission.allow},
        )

    def deciding(
        self, subject: Subject, space: SpaceUri, action: Action, path: str, attributes: Mapping[str, str]
    ) -> list[Permission]:
        """Find the rules that decide: those that deny, or, where there are none, those that allow."""
        matching = [
            permission
            for permission in self._relevant(subject, space, action)
            if permission.pattern.covers(path, attributes)
        ]
        return [permission for permission in matching if not permission.allow] or matching

    def authors(self, space: SpaceUri) -> Authors:
        """Tell what accounts may write in the space, also those that no rule names."""
        found = self._authors.get(space)
        if found is None:
            named: dict[str, Scope] = {}
            by_roles: dict[tuple[tuple[Role, ...], ...], Scope] = {}  # most have no rules of their own
            for account in self._accounts(space):
                if any(self._permissions.get((account, where, "write")) for where in (space, None)):
                    scope = self.scope(account, space, "write")
                else:
                    roles = tuple(self._roles.get((account, where), ()) for where in (space, None))
                    if roles not in by_roles:
                        by_roles[roles] = self.scope(account, space, "write")
                    scope = by_roles[roles]
                named[account.did] = scope
            found = self._authors[space] = Authors(named, self.scope(EVERYONE, space, "write"))
        return found

    def writers(self, space: SpaceUri) -> frozenset[Did]:
        """Find the accounts that rules name and that may write something: of others, where everyone may
        write, nobody knows who they are."""
        return frozenset(Did(did) for did, scope in self.authors(space).named.items() if not scope.is_nothing)

    def holders(self, role: Role, space: SpaceUri) -> frozenset[Did]:
        """Find the accounts named by rules that have a role in a space, however they came by it."""
        return frozenset(grant.grantee.did for grant in self._given(role, space))

    def inheritors(self, role: Role, space: SpaceUri) -> frozenset[Did]:
        """Find those holders of a role who keep it when it is taken from them in this very space."""
        return frozenset(
            grant.grantee.did
            for grant in self._given(role, space)
            if grant.role != role or grant.space != space
        )

    def _given(self, role: Role, space: SpaceUri) -> Iterator[_Given]:
        """List what makes accounts hold a role in a space: grants of it, and of roles that hold it."""
        leading = {role}
        waiting = [role]
        by_role: dict[Role, list[Grant]] = defaultdict(list)
        for where in (space, None):
            for grant in self._grants.get(where, ()):
                by_role[grant.role].append(grant)
        while waiting:
            for grant in by_role.get(waiting.pop(), ()):
                if isinstance(grant.grantee, Role) and grant.grantee not in leading:
                    leading.add(grant.grantee)
                    waiting.append(grant.grantee)
                elif isinstance(grant.grantee, Account):
                    yield _Given(grant.grantee, grant.role, grant.space)
        if EVERYONE in leading:
            yield from (_Given(account, EVERYONE, None) for account in self._accounts(space))

    def _accounts(self, space: SpaceUri) -> Set[Account]:
        """Name the accounts that rules of the space name."""
        return self._named.get(space, _NOBODY).keys() | self._named.get(None, _NOBODY).keys()

    def _relevant(self, subject: Grantee, space: SpaceUri, action: Action) -> Iterator[Permission]:
        for grantee in (subject, *self.roles(subject, space)):
            for where in (space, None):
                yield from self._permissions.get((grantee, where, action), ())


def _is_about_writing(statement: Statement) -> bool:
    return isinstance(statement, Grant) or statement.action == "write"


def _put(found: dict[T, None], item: T, coming: bool) -> None:
    """Add an item to an ordered set, or take it out."""
    if coming:
        found[item] = None
    else:
        found.pop(item, None)


def _compact(allow: set[Pattern], deny: set[Pattern]) -> Scope:
    """Leave out what changes nothing: what a subtree of the same side holds, and what is denied whole."""
    allowed, denied = _without_covered(allow), _without_covered(deny)
    forbidden = {pattern.path for pattern in denied if isinstance(pattern, Subtree)}
    allowed = allowed - denied - {pattern for pattern in allowed if _is_inside(pattern, forbidden)}
    if not allowed:
        return NOTHING
    return Scope(frozenset(allowed), frozenset(denied))


def _without_covered(patterns: set[Pattern]) -> set[Pattern]:
    subtrees = {pattern.path for pattern in patterns if isinstance(pattern, Subtree)}
    if "/" in subtrees:
        return {Subtree("/")}
    # What goes is mostly little; what stays is not hashed again.
    return patterns - {p for p in patterns if _is_inside(p, subtrees, itself=not isinstance(p, Subtree))}


def _is_inside(pattern: Pattern, subtrees: set[str], *, itself: bool = True) -> bool:
    """Tell whether one of the subtrees holds all that the pattern does; `itself`: its own path counts."""
    if isinstance(pattern, Attribute):
        return "/" in subtrees
    path = pattern.path
    if itself and path in subtrees:
        return True
    if path == "/":
        return False
    end = path.rfind("/")
    while end > 0:
        if path[:end] in subtrees:
            return True
        end = path.rfind("/", 0, end)
    return "/" in subtrees


def _check_roles(grants: Mapping[SpaceUri | None, Iterable[Grant]]) -> None:
    """Refuse roles that go in a circle, or further than Casbin follows, in any one space."""
    links = {
        space: [(grant.grantee, grant.role) for grant in given if isinstance(grant.grantee, Role)]
        for space, given in grants.items()
    }
    everywhere = links.get(None, [])
    for space, here in links.items():
        if here:
            _check_chains(here if space is None else [*everywhere, *here])


def _check_chains(links: Sequence[tuple[Role, Role]]) -> None:
    """Walk the roles from those that nothing leads to, in topological order, measuring the longest way."""
    following: dict[Role, list[Role]] = defaultdict(list)
    incoming: dict[Role, int] = defaultdict(int)
    for holder, role in links:
        following[holder].append(role)
        incoming[role] += 1
    length = {role: 0 for role in following if not incoming[role]}
    before: dict[Role, Role] = {}
    waiting = list(length)
    while waiting:
        holder = waiting.pop()
        for role in following.get(holder, ()):
            if length[holder] + 1 > length.get(role, 0):
                length[role] = length[holder] + 1
                before[role] = holder
            incoming[role] -= 1
            if not incoming[role]:
                waiting.append(role)
    if circle := sorted(str(role) for role, count in incoming.items() if count):
        shown = ", ".join(circle[:5]) + (", ..." if len(circle) > 5 else "")
        raise InvalidPolicy(f"roles go in a circle: {shown}", hint="remove one of the grants between them")
    longest = max(length, key=lambda role: length[role])
    if length[longest] > MAX_ROLE_LINKS:
        chain = [longest]
        while chain[-1] in before:
            chain.append(before[chain[-1]])
        raise InvalidPolicy(
            f"a chain of {length[longest]} grants between roles, at most {MAX_ROLE_LINKS} are followed: "
            + " < ".join(str(role) for role in reversed(chain)),
            hint="grant the inner role directly",
        )
