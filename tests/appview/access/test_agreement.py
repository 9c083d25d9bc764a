"""The compiled scope, Casbin's `enforce` and a plain oracle agree on every question."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, get_args

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from appview.access.enforcer import Enforcer
from appview.access.errors import InvalidPolicy
from appview.access.policy import Policy
from appview.access.rules import Permission
from appview.access.subjects import MEMBER, Account, Action, Anonymous, Role, Subject, Token
from appview.control_rules import Rule
from appview.memory.scope import Attribute, Exact, Pattern, Scope, Subtree
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DIDS: Final = [Did("did:plc:" + letter * 24) for letter in "abc"]
SPACES: Final = [SpaceUri.public(did) for did in DIDS[:2]]
SUBJECTS: Final[list[Subject]] = [*map(Account, DIDS), Token("ci"), Anonymous()]
ROLES: Final = ["role:everyone", "role:member", "role:reader", "role:x", "role:y"]
SEGMENTS: Final = ["a", "b", "ab", "A", "\u00e9", "..", "a b", "*", "%2f", "self"]
ATTRIBUTES: Final = [("kind", "x"), ("kind", "y"), ("kind", ""), ("trust", "x"), ("owner", str(DIDS[0]))]

paths = st.lists(st.sampled_from(SEGMENTS), max_size=4).map(lambda segments: "/" + "/".join(segments))
readable_paths = st.lists(st.sampled_from(["a", "b", "ab", "A", "\u00e9", "a b", "self"]), max_size=4).map(
    lambda segments: "/" + "/".join(segments)
)
objects = st.one_of(
    readable_paths.map(lambda path: f"path:{path}"),
    readable_paths.map(lambda path: "path:/*" if path == "/" else f"path:{path}/*"),
    st.sampled_from(ATTRIBUTES).map(lambda pair: f"tag:{pair[0]}={pair[1]}"),
)
grantees = st.sampled_from([*map(str, SUBJECTS), *ROLES])
domains = st.sampled_from(["*", *map(str, SPACES)])
actions = st.sampled_from(get_args(Action))
permissions = st.tuples(grantees, domains, objects, actions, st.sampled_from(["allow", "allow", "deny"])).map(
    lambda fields: Rule("p", fields)
)
grants = (
    st.tuples(grantees, st.sampled_from(ROLES[1:]), domains)
    .filter(lambda fields: fields[0] != fields[1])
    .map(lambda fields: Rule("g", fields))
)
rule_sets = st.tuples(
    st.lists(permissions, max_size=12, unique=True), st.lists(grants, max_size=8, unique=True)
).map(lambda parts: [*parts[0], *parts[1]])
attribute_sets = st.lists(st.sampled_from(ATTRIBUTES), max_size=3).map(dict)


def oracle(
    rules: Sequence[Rule], subject: str, space: str, action: str, path: str, attributes: Mapping[str, str]
) -> bool:
    """Decide by the words of the documentation, on the text of the rules, with no index and no cache."""
    holds = {subject, "role:everyone"}
    while True:
        more = {
            rule.fields[1]
            for rule in rules
            if rule.ptype == "g" and rule.fields[0] in holds and rule.fields[2] in ("*", space)
        }
        if more <= holds:
            break
        holds |= more
    effects = set()
    for rule in rules:
        if rule.ptype != "p":
            continue
        who, where, thing, what, effect = rule.fields
        if who not in holds or where not in ("*", space) or what != action:
            continue
        kind, _, rest = thing.partition(":")
        if kind == "tag":
            key, _, value = rest.partition("=")
            matches = key in attributes and attributes[key] == value
        elif rest.endswith("/*"):
            root = [segment for segment in rest[:-2].split("/") if segment]
            matches = [segment for segment in path.split("/") if segment][: len(root)] == root
        else:
            matches = path == rest
        if matches:
            effects.add(effect)
    return effects == {"allow"}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rules=rule_sets,
    facts=st.lists(st.tuples(paths, attribute_sets), min_size=1, max_size=5),
    space=st.sampled_from(SPACES),
    action=actions,
)
def test_scope_casbin_and_oracle_agree(
    rules: list[Rule], facts: list[tuple[str, dict[str, str]]], space: SpaceUri, action: Action
) -> None:
    try:
        policy = Policy(rules)
    except InvalidPolicy:
        assume(False)
    enforcer = Enforcer(policy)
    for subject in SUBJECTS:
        scope = policy.scope(subject, space, action)
        for path, attributes in facts:
            expected = oracle(rules, str(subject), str(space), action, path, attributes)
            assert scope.covers(path, attributes) == expected
            assert enforcer.enforce(subject, space, action, path, attributes) == expected
            deciding = policy.deciding(subject, space, action, path, attributes)
            assert (bool(deciding) and all(permission.allow for permission in deciding)) == expected
            assert not (scope.is_nothing and expected)
            assert expected or not scope.is_everything


near_paths = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3).map(lambda parts: "/" + "/".join(parts))
patterns: st.SearchStrategy[Pattern] = st.one_of(
    near_paths.map(Exact),
    near_paths.map(Subtree),
    st.sampled_from([Attribute("k", "v"), Attribute("k", "w"), Attribute("l", "v")]),
)
PROBES: Final = [
    "/" + "/".join(parts)
    for length in range(5)
    for parts in itertools.product(["a", "b", "ab"], repeat=length)
]


@settings(max_examples=300, deadline=None)
@given(allow=st.frozensets(patterns, max_size=5), deny=st.frozensets(patterns, max_size=4))
def test_what_is_left_out_of_a_scope_changes_no_answer(
    allow: frozenset[Pattern], deny: frozenset[Pattern]
) -> None:
    rules = [
        Permission(Anonymous(), None, pattern, "read", allowed).to_rule()
        for allowed, side in ((True, allow), (False, deny))
        for pattern in side
    ]
    plain, compact = Scope(allow, deny), Policy(rules).scope(Anonymous(), SPACES[0], "read")
    for path in PROBES:
        for attributes in ({}, {"k": "v"}, {"k": "w", "l": "v"}):
            assert compact.covers(path, attributes) == plain.covers(path, attributes)
    assert len(compact.allow) <= len(allow)
    assert len(compact.deny) <= len(deny)


@settings(max_examples=100, deadline=None)
@given(rules=rule_sets, space=st.sampled_from(SPACES))
def test_writers_are_those_who_may_write_and_are_named(rules: list[Rule], space: SpaceUri) -> None:
    try:
        policy = Policy(rules)
    except InvalidPolicy:
        assume(False)
    named = {
        rule.fields[0] for rule in rules if rule.fields[1 if rule.ptype == "p" else 2] in ("*", str(space))
    }
    expected = {
        did for did in DIDS if str(did) in named and not policy.scope(Account(did), space, "write").is_nothing
    }
    assert policy.writers(space) == expected


@settings(max_examples=150, deadline=None)
@given(given_roles=st.lists(grants, max_size=8, unique=True), space=st.sampled_from(SPACES))
def test_members_are_those_whom_casbin_gives_what_members_have(
    given_roles: list[Rule], space: SpaceUri
) -> None:
    probe = Rule("p", ("role:member", "*", "path:/", "read", "allow"))
    try:
        policy = Policy([*given_roles, probe])
    except InvalidPolicy:
        assume(False)
    enforcer = Enforcer(policy)
    named = {rule.fields[0] for rule in given_roles if rule.fields[2] in ("*", str(space))}
    members = {did for did in DIDS if enforcer.enforce(Account(did), space, "read", "/", {})}
    assert policy.holders(MEMBER, space) == {did for did in members if str(did) in named}
    for did in policy.holders(MEMBER, space):
        direct = Rule("g", (str(did), "role:member", str(space)))
        without = Enforcer(Policy([*(rule for rule in given_roles if rule != direct), probe]))
        stays = without.enforce(Account(did), space, "read", "/", {})
        assert (did in policy.inheritors(MEMBER, space)) is stays


@settings(max_examples=150, deadline=None)
@given(rules=rule_sets, more=rule_sets, keep=st.integers(0, 20))
def test_policy_that_was_changed_is_the_policy_from_nothing(
    rules: list[Rule], more: list[Rule], keep: int
) -> None:
    after = [*rules[:keep], *(rule for rule in more if rule not in rules[:keep])]
    try:
        known = Policy(rules)
        fresh = Policy(after)
    except InvalidPolicy:
        assume(False)

    def said() -> tuple[object, ...]:
        scopes = {subject: known.scope(subject, SPACES[0], "read") for subject in SUBJECTS}
        return dict(known.statements), scopes, {space: known.authors(space) for space in SPACES}

    before = said()
    changed = known.changed([rule for rule in rules if rule not in rules[:keep]], after)
    assert list(changed.statements) == list(fresh.statements)
    for subject in SUBJECTS:
        for space in SPACES:
            assert changed.roles(subject, space) == fresh.roles(subject, space)
            for action in get_args(Action):
                assert changed.scope(subject, space, action) == fresh.scope(subject, space, action)
    for space in SPACES:
        assert changed.writers(space) == fresh.writers(space)
        assert changed.holders(Role("member"), space) == fresh.holders(Role("member"), space)
        assert changed.authors(space) == fresh.authors(space)
    # Who still asks the one before is not disturbed.
    assert before == said()


@settings(max_examples=150, deadline=None)
@given(rules=rule_sets, more=rule_sets)
def test_a_change_is_refused_exactly_where_the_rules_after_it_would_be(
    rules: list[Rule], more: list[Rule]
) -> None:
    try:
        known = Policy(rules)
    except InvalidPolicy:
        assume(False)
    outcomes = []
    for attempt in (lambda: known.changed([], more), lambda: Policy([*rules, *more])):
        try:
            attempt()
            outcomes.append("")
        except InvalidPolicy as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
