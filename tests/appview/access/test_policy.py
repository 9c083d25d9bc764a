"""From rules to what a subject may do: roles, spaces, deny, and rules that do not go together."""

from __future__ import annotations

import pytest

from appview.access.enforcer import Enforcer
from appview.access.errors import InvalidPolicy
from appview.access.policy import MAX_ROLE_LINKS, Policy
from appview.access.subjects import EVERYONE, MEMBER, Account, Anonymous, Role, Token
from appview.control_rules import Rule
from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Scope, Subtree
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

ALICE, BOB, CAROL, DAVE, EVE, FRANK = (Account(Did("did:plc:" + letter * 24)) for letter in "abcdef")
GARDEN = SpaceUri.public(ALICE.did)
KITCHEN = SpaceUri.public(BOB.did)


def p(who: object, where: object, what: str, action: str = "read", effect: str = "allow") -> Rule:
    return Rule("p", (str(who), str(where), what, action, effect))


def g(who: object, role: str, where: object = "*") -> Rule:
    return Rule("g", (str(who), role, str(where)))


def policy(*rules: Rule) -> Policy:
    return Policy(rules)


class TestScope:
    def test_no_rules_mean_no_access(self) -> None:
        assert policy().scope(ALICE, GARDEN, "read") == NOTHING

    def test_rule_counts_for_its_subject_space_and_action_alone(self) -> None:
        rules = policy(p(ALICE, GARDEN, "path:/*"))
        assert rules.scope(ALICE, GARDEN, "read") == EVERYTHING
        assert rules.scope(BOB, GARDEN, "read") == NOTHING
        assert rules.scope(ALICE, KITCHEN, "read") == NOTHING
        assert rules.scope(ALICE, GARDEN, "write") == NOTHING

    def test_everyone_is_everyone(self) -> None:
        rules = policy(p("role:everyone", "*", "path:/*"))
        for subject in (ALICE, Token("ci"), Anonymous()):
            assert rules.scope(subject, GARDEN, "read") == EVERYTHING

    def test_role_given_to_everyone_is_everyones(self) -> None:
        rules = policy(g("role:everyone", "role:reader", GARDEN), p("role:reader", "*", "path:/a"))
        assert rules.scope(Anonymous(), GARDEN, "read") == Scope(frozenset({Exact("/a")}))
        assert rules.scope(Anonymous(), KITCHEN, "read") == NOTHING

    def test_role_is_held_in_its_space_alone(self) -> None:
        rules = policy(g(ALICE, "role:member", GARDEN), p("role:member", "*", "path:/*"))
        assert rules.scope(ALICE, GARDEN, "read") == EVERYTHING
        assert rules.scope(ALICE, KITCHEN, "read") == NOTHING
        assert rules.roles(ALICE, GARDEN) == {MEMBER, EVERYONE}

    def test_roles_are_inherited_across_rules_for_one_and_for_every_space(self) -> None:
        rules = policy(
            g(ALICE, "role:a"),
            g("role:a", "role:b", GARDEN),
            g("role:b", "role:c"),
            p("role:c", GARDEN, "path:/*"),
        )
        assert rules.scope(ALICE, GARDEN, "read") == EVERYTHING
        assert rules.roles(ALICE, KITCHEN) == {Role("a"), EVERYONE}

    def test_deny_beats_allow_wherever_it_comes_from(self) -> None:
        rules = policy(
            p("role:everyone", "*", "path:/*"),
            p(ALICE, GARDEN, "path:/secret/*", effect="deny"),
            p(ALICE, GARDEN, "path:/secret/mine"),
        )
        scope = rules.scope(ALICE, GARDEN, "read")
        assert scope == Scope(frozenset({Subtree("/")}), frozenset({Subtree("/secret")}))
        assert not scope.covers("/secret/mine", {})
        assert rules.scope(BOB, GARDEN, "read") == EVERYTHING

    def test_denied_whole_is_nothing(self) -> None:
        rules = policy(p("role:everyone", "*", "path:/*"), p("anonymous", "*", "path:/*", effect="deny"))
        assert rules.scope(Anonymous(), GARDEN, "read") == NOTHING
        assert rules.scope(ALICE, GARDEN, "read") == EVERYTHING

    def test_what_changes_nothing_is_left_out(self) -> None:
        rules = policy(
            *(p(ALICE, GARDEN, f"path:/a/{number}/*") for number in range(50)),
            *(p(ALICE, GARDEN, f"path:/a/{number}") for number in range(50)),
            p(ALICE, GARDEN, "path:/a"),
            p(ALICE, GARDEN, "path:/a/*"),
            p(ALICE, GARDEN, "path:/ab"),
            p(ALICE, GARDEN, "path:/ab/c/*"),
            p(ALICE, GARDEN, "tag:k=v"),
            p(ALICE, GARDEN, "path:/gone/x/*"),
            p(ALICE, GARDEN, "path:/gone/*", effect="deny"),
            p(ALICE, GARDEN, "path:/gone/y", effect="deny"),
        )
        assert rules.scope(ALICE, GARDEN, "read") == Scope(
            frozenset({Subtree("/a"), Exact("/ab"), Subtree("/ab/c"), Attribute("k", "v")}),
            frozenset({Subtree("/gone")}),
        )

    def test_same_pattern_allowed_and_denied_is_nothing(self) -> None:
        rules = policy(*(p(ALICE, GARDEN, "tag:k=v", effect=effect) for effect in ("allow", "deny")))
        assert rules.scope(ALICE, GARDEN, "read") == NOTHING


class TestDeciding:
    def test_shows_the_rules_that_deny_or_else_those_that_allow(self) -> None:
        allow, deny = p("role:everyone", "*", "path:/*"), p(ALICE, GARDEN, "tag:k=v", effect="deny")
        rules = policy(allow, deny, p(ALICE, GARDEN, "path:/other"))
        shown = [statement.to_rule() for statement in rules.deciding(ALICE, GARDEN, "read", "/x", {})]
        assert shown == [allow]
        shown = [statement.to_rule() for statement in rules.deciding(ALICE, GARDEN, "read", "/x", {"k": "v"})]
        assert shown == [deny]
        assert rules.deciding(ALICE, GARDEN, "admin", "/x", {}) == []


class TestWriters:
    def test_are_accounts_that_a_rule_names_and_that_may_write_something(self) -> None:
        rules = policy(
            p("role:member", "*", "path:/*", "write"),
            p("role:everyone", "*", "path:/*", "read"),
            g(ALICE, "role:member", GARDEN),
            g("token:ci", "role:member", GARDEN),
            g(CAROL, "role:guest", GARDEN),
            p(BOB, "*", "path:/b/*", "write"),
        )
        assert rules.writers(GARDEN) == {ALICE.did, BOB.did}
        assert rules.writers(KITCHEN) == {BOB.did}

    def test_denied_whole_is_no_writer(self) -> None:
        rules = policy(
            p("role:member", "*", "path:/*", "write"),
            g(ALICE, "role:member", GARDEN),
            p(ALICE, GARDEN, "path:/*", "write", "deny"),
        )
        assert rules.writers(GARDEN) == frozenset()

    def test_holders_of_a_role_in_a_space_are_accounts_in_order(self) -> None:
        rules = policy(
            g(BOB, "role:member", GARDEN),
            g(ALICE, "role:member", GARDEN),
            g("role:x", "role:member", GARDEN),
            g(CAROL, "role:y"),
            g("role:y", "role:x", GARDEN),
            g(DAVE, "role:member"),
            g(ALICE, "role:member"),
            g(EVE, "role:authority", GARDEN),
            p(FRANK, GARDEN, "path:/*"),
        )
        assert rules.holders(MEMBER, GARDEN) == {ALICE.did, BOB.did, CAROL.did, DAVE.did}
        assert rules.holders(MEMBER, KITCHEN) == {ALICE.did, DAVE.did}
        assert rules.inheritors(MEMBER, GARDEN) == {ALICE.did, CAROL.did, DAVE.did}

    def test_where_everyone_holds_a_role_those_are_found_whom_rules_name(self) -> None:
        rules = policy(
            g("role:everyone", "role:member", GARDEN), p(ALICE, "*", "path:/*"), p(BOB, KITCHEN, "path:/*")
        )
        assert rules.holders(MEMBER, GARDEN) == {ALICE.did}
        assert rules.holders(MEMBER, KITCHEN) == set()


def chain(links: int, where: object = "*") -> list[Rule]:
    return [g(f"role:r{number}", f"role:r{number + 1}", where) for number in range(links)]


class TestRolesThatDoNotGoTogether:
    @pytest.mark.parametrize("length", [2, 3, 50])
    def test_circle_is_refused(self, length: int) -> None:
        with pytest.raises(InvalidPolicy, match="circle: role:r"):
            policy(*chain(length - 1), g(f"role:r{length - 1}", "role:r0"))

    def test_circle_that_closes_in_one_space_is_refused(self) -> None:
        with pytest.raises(InvalidPolicy, match="circle"):
            policy(g("role:a", "role:b"), g("role:b", "role:a", GARDEN))

    def test_opposite_directions_in_two_spaces_are_no_circle(self) -> None:
        rules = policy(g("role:a", "role:b", KITCHEN), g("role:b", "role:a", GARDEN), g(ALICE, "role:a"))
        assert rules.roles(ALICE, KITCHEN) == {Role("a"), Role("b"), EVERYONE}
        assert rules.roles(ALICE, GARDEN) == {Role("a"), EVERYONE}

    def test_two_ways_to_one_role_are_no_circle(self) -> None:
        policy(g("role:a", "role:b"), g("role:a", "role:c"), g("role:b", "role:d"), g("role:c", "role:d"))

    def test_longest_chain_is_followed_to_its_end_by_casbin_too(self) -> None:
        rules = policy(
            g(ALICE, "role:r0"), *chain(MAX_ROLE_LINKS), p(f"role:r{MAX_ROLE_LINKS}", "*", "path:/*")
        )
        assert rules.scope(ALICE, GARDEN, "read") == EVERYTHING
        assert Enforcer(rules).enforce(ALICE, GARDEN, "read", "/", {})

    def test_longer_chain_is_refused(self) -> None:
        with pytest.raises(
            InvalidPolicy, match=rf"{MAX_ROLE_LINKS + 1} grants between roles.*role:r0 < role:r1"
        ):
            policy(*chain(MAX_ROLE_LINKS + 1))

    def test_chain_that_is_long_in_one_space_is_refused(self) -> None:
        half = MAX_ROLE_LINKS // 2 + 1
        rules = chain(2 * half)
        here = [g(rule.fields[0], rule.fields[1], GARDEN) for rule in rules[half:]]
        with pytest.raises(InvalidPolicy, match="grants between roles"):
            policy(*rules[:half], *here)

    def test_thousand_roles_are_quick_to_check(self) -> None:
        rules = [g(f"role:r{n}", f"role:r{n + k}") for n in range(0, 995, 5) for k in range(1, 5)]
        assert policy(*rules).roles(ALICE, GARDEN) == {EVERYONE}
