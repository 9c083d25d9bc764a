"""Who is followed, and where each may write."""

from __future__ import annotations

from appview.control_rules import Rule
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
