"""Who is followed, and where each may write."""

from __future__ import annotations

from appview.control_rules import Rule
from appview.http.lanes import Standing
from appview.ingest.roster import Roster, build
from appview.memory.scope import EVERYTHING, NOTHING, Scope
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

ALICE, BOB, CAROL = Did("did:plc:alice"), Did("did:plc:bob"), Did("did:plc:carol")
GARDEN, SHED, BARN = (SpaceUri.public(did) for did in (ALICE, BOB, CAROL))


def roster(writers: dict[SpaceUri, set[Did]], scopes: dict[tuple[Did, SpaceUri], Scope]) -> Roster:
    rules = [Rule("g", (str(ALICE), "role:member", str(BARN))), Rule("p", ("role:x", "*", "path:/*"))]
    return build(
        writers, rules, lambda space: writers[space], lambda did, space: scopes.get((did, space), EVERYTHING)
    )


def test_every_writer_of_a_known_space_is_followed_there() -> None:
    made = roster({GARDEN: {ALICE, BOB}, SHED: {BOB}}, {})
    assert made.pairs == {(GARDEN, ALICE), (GARDEN, BOB), (SHED, BOB)}
    assert set(made.of(BOB)) == {GARDEN, SHED}
    assert made.of(CAROL) == {}


def test_one_who_may_write_nothing_is_not() -> None:
    made = roster({GARDEN: {ALICE, BOB}}, {(BOB, GARDEN): NOTHING})
    assert made.pairs == {(GARDEN, ALICE)}
    assert BOB not in made.followed


def test_an_authority_is_followed_even_where_it_writes_nothing_or_its_space_is_not_known() -> None:
    made = roster({GARDEN: {BOB}}, {})
    assert made.followed == {ALICE, BOB, CAROL}  # Carol's space is only spoken of by a rule
    assert {space for space, _ in made.pairs} == {GARDEN}


def test_whom_rules_name_stands_above_whoever_declares_a_space_and_that_above_strangers() -> None:
    dave = Did("did:plc:dave")
    rules = [
        Rule("g", (str(ALICE), "role:authority", str(GARDEN))),
        Rule("p", ("role:everyone", str(GARDEN), "path:/*", "write", "allow")),
        Rule("g", (str(BOB), "role:authority", str(SHED))),
        Rule("p", (str(CAROL), str(SHED), "path:/*", "read", "allow")),
    ]
    spaces = {GARDEN: {ALICE, dave}, SHED: {BOB}}
    made = build(spaces, rules, lambda space: spaces[space], lambda _did, _space: EVERYTHING)
    assert {
        name: made.standing(did) for name, did in zip("abcd", (ALICE, BOB, CAROL, dave), strict=True)
    } == {
        "a": Standing.AUTHORITY,
        "b": Standing.MEMBER,
        "c": Standing.MEMBER,
        "d": Standing.STRANGER,
    }, "Dave is followed because he wrote where everyone may"


def test_whom_the_rules_of_all_spaces_name_is_a_member() -> None:
    made = build([], [Rule("g", (str(BOB), "role:member", "*"))], lambda _: [], lambda *_: EVERYTHING)
    assert made.standing(BOB) is Standing.MEMBER
