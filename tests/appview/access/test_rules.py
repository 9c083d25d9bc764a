"""Rules are read whole or refused with the reason."""

from __future__ import annotations

import pytest

from appview.access.errors import InvalidRule
from appview.access.rules import Grant, Permission, format_object, parse_object, parse_rule
from appview.access.subjects import (
    EVERYONE,
    MEMBER,
    Account,
    Anonymous,
    InvalidName,
    Role,
    Token,
    parse_grantee,
    parse_subject,
)
from appview.control_rules import Rule
from appview.memory.scope import Attribute, Exact, Subtree
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

ALICE = Did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
SPACE = SpaceUri.public(ALICE)


def p(*fields: str) -> Rule:
    return Rule("p", fields)


class TestSubjects:
    @pytest.mark.parametrize(
        ("text", "subject"),
        [
            (str(ALICE), Account(ALICE)),
            ("did:web:agent.example", Account(Did("did:web:agent.example"))),
            ("token:ci-runner", Token("ci-runner")),
            ("anonymous", Anonymous()),
            ("role:member", MEMBER),
        ],
    )
    def test_are_written_as_they_are_read(self, text: str, subject: object) -> None:
        assert parse_grantee(text) == subject
        assert str(subject) == text

    @pytest.mark.parametrize(
        "text",
        [
            "role:member",  # a credential never is a role
            "Role:member",
            "ROLE:member",
            " role:member",
            "r\u043ele:member",  # a Cyrillic o
            "rol\u0435:member",
            "",
            "alice",
            "alice.test",
            "token:",
            "token:role:member",
            "token:A",
            "token:a b",
            "token:-a",
            "token:" + "a" * 65,
            "did:plc",
            "did:plc:a b",
            "anonymous ",
            "Anonymous",
        ],
    )
    def test_what_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidName):
            parse_subject(text)

    @pytest.mark.parametrize("name", ["", "A", "a b", "x,y", "a" * 65, "\u0430", "a\n", "member:"])
    def test_role_name_out_of_form_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidName):
            Role(name)

    def test_longest_names_are_taken(self) -> None:
        assert Token("a" * 64).name == Role("a" * 64).name == "a" * 64

    def test_no_token_name_can_look_like_a_role_or_an_account(self) -> None:
        for name in ("role:member", str(ALICE), "anonymous:x"):
            with pytest.raises(InvalidName):
                Token(name)


class TestObjects:
    @pytest.mark.parametrize(
        ("text", "pattern"),
        [
            ("path:/", Exact("/")),
            ("path:/*", Subtree("/")),
            ("path:/a", Exact("/a")),
            ("path:/a/*", Subtree("/a")),
            ("path:/Work/tomatoes \u00e9t\u00e9/*", Subtree("/Work/tomatoes \u00e9t\u00e9")),
            ("path:/family \U0001f468\u200d\U0001f469", Exact("/family \U0001f468\u200d\U0001f469")),
            ("path:/100%", Exact("/100%")),
            ("path:/..a/...", Exact("/..a/...")),
            ("tag:kind=secret", Attribute("kind", "secret")),
            ("tag:kind=", Attribute("kind", "")),
            ("tag:kind=a=b, c", Attribute("kind", "a=b, c")),
            (f"tag:owner={ALICE}", Attribute("owner", ALICE)),
            ("path:/" + "a" * 127, Exact("/" + "a" * 127)),
            ("tag:k=" + "v" * 126, Attribute("k", "v" * 126)),
        ],
    )
    def test_are_written_as_they_are_read(self, text: str, pattern: object) -> None:
        assert parse_object(text) == pattern
        assert format_object(parse_object(text)) == text

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("path:", "must start with /"),
            ("path:*", "must start with /"),
            ("path:a/b", "must start with /"),
            ("path:/a/", "empty segments"),
            ("path://a", "empty segments"),
            ("path:/a//b", "empty segments"),
            ("path:/a//*", "empty segments"),
            ("path://*", "empty segments"),
            ("path:/work/../x", "no meaning"),
            ("path:/./x", "no meaning"),
            ("path:/x/..", "no meaning"),
            ("path:/a/*/b", "only at the end"),
            ("path:/a*", "only at the end"),
            ("path:/a/**", "only at the end"),
            ("path:/*/*", "only at the end"),
            ("path:/a%2fb", "percent-encoding"),
            ("path:/a%2F%2e%2e", "percent-encoding"),
            ("path:/a\\b", "divided by / only"),
            ("path:/a\x00b", "invisible"),
            ("path:/a\nb", "invisible"),
            ("path:/a\u202eb", "invisible"),
            ("path:/a\u200bb", "invisible"),
            ("path:/a\ud800b", "invisible"),
            ("path:/a /b", "white space"),
            ("path:/ a", "white space"),
            ("path:/" + "a" * 128, "129 bytes"),
            ("tag:kind", "key=value"),
            ("tag:=x", "key=value"),
            ("tag:Kind=x", "key=value"),
            ("tag:k k=x", "key=value"),
            ("tag: kind=x", "key=value"),
            ("tag:kind= x", "white space"),
            ("tag:kind=x\x00", "invisible"),
            ("tag:k=" + "v" * 127, "129 bytes"),
            ("tag:space=did:plc:aaaa", "where a memory goes"),
            ("tag:owner=alice", "DID"),
            ("/a/*", "unknown object"),
            ("Path:/a", "unknown object"),
            ("label:x", "unknown object"),
            ("*", "unknown object"),
            ("", "unknown object"),
        ],
    )
    def test_trick_is_refused_with_the_reason(self, text: str, reason: str) -> None:
        with pytest.raises(ValueError, match=reason):
            parse_object(text)


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "statement"),
        [
            (
                p(str(ALICE), str(SPACE), "path:/a/*", "read", "deny"),
                Permission(Account(ALICE), SPACE, Subtree("/a"), "read", allow=False),
            ),
            (
                p("role:everyone", "*", "path:/*", "admin", "allow"),
                Permission(EVERYONE, None, Subtree("/"), "admin"),
            ),
            (
                p("anonymous", "*", "tag:kind=secret", "delete", "deny"),
                Permission(Anonymous(), None, Attribute("kind", "secret"), "delete", allow=False),
            ),
            (Rule("g", (str(ALICE), "role:member", str(SPACE))), Grant(Account(ALICE), MEMBER, SPACE)),
            (Rule("g", ("role:everyone", "role:member", "*")), Grant(EVERYONE, MEMBER, None)),
            (Rule("g", ("token:ci", "role:operator", "*")), Grant(Token("ci"), Role("operator"), None)),
        ],
    )
    def test_are_written_as_they_are_read(self, rule: Rule, statement: Permission | Grant) -> None:
        assert parse_rule(rule) == statement
        assert statement.to_rule() == rule

    @pytest.mark.parametrize(
        ("rule", "reason"),
        [
            (p(str(ALICE), str(SPACE), "path:/a", "read", "alow"), "unknown effect 'alow'"),
            (p(str(ALICE), str(SPACE), "path:/a", "read", "Deny"), "unknown effect"),
            (p(str(ALICE), str(SPACE), "path:/a", "reed", "allow"), "unknown action 'reed'"),
            (p(str(ALICE), str(SPACE), "path:/a", "*", "allow"), "unknown action"),
            (p(str(ALICE), str(SPACE), "path:/a", "read"), "expected p, subject"),
            (p(str(ALICE), str(SPACE), "path:/a", "read", "allow", "x"), "expected p, subject"),
            (p(str(ALICE), str(ALICE), "path:/a", "read", "allow"), "space URI"),
            (p(str(ALICE), "", "path:/a", "read", "allow"), "space URI"),
            (p(str(ALICE), str(SPACE) + "/", "path:/a", "read", "allow"), "space URI"),
            (p(str(ALICE), "at://*/garden.engram.config/self", "path:/a", "read", "allow"), "space URI"),
            (p(str(ALICE), "*", "file:/a", "read", "allow"), "unknown object"),
            (p("alice", "*", "path:/a", "read", "allow"), "not a subject"),
            (p("Role:x", "*", "path:/a", "read", "allow"), "looks like a role"),
            (p("role:", "*", "path:/a", "read", "allow"), "role name"),
            (Rule("g", (str(ALICE), "member", "*")), "not a subject"),
            (Rule("g", (str(ALICE), "token:member", "*")), "not a role"),
            (Rule("g", (str(ALICE), str(ALICE), "*")), "not a role"),
            (Rule("g", (str(ALICE), "role:everyone", "*")), "everyone has"),
            (Rule("g", ("role:a", "role:a", "*")), "itself"),
            (Rule("g", (str(ALICE), "role:a")), "expected g, subject"),
            (Rule("g2", (str(ALICE), "role:a", "*")), "p or g"),
            (Rule("", ()), "p or g"),
        ],
    )
    def test_misspelt_rule_is_refused_with_the_reason(self, rule: Rule, reason: str) -> None:
        with pytest.raises(InvalidRule, match=reason) as caught:
            parse_rule(rule)
        assert caught.value.rule == str(rule)
