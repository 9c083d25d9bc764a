"""A scope and filters as SQL select what they say, whatever the tree, the tags and the scope."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appview.memory import path_tags
from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Exact, Pattern, Scope, Subtree
from appview.memory.scope_sql import Condition, render
from appview.memory.values import Filters
from lexicons.datetimes import parse_micros
from lexicons.memories import normalise_path, read_tags
from lexicons.syntax import Did
from tests.appview.memory.support import ALICE, BOB, NOW, File, commit, memory, put, space_file

# Neighbours in sort order, wildcards of LIKE and GLOB, JSON and SQL syntax, NUL, more than one byte.
SEGMENTS = st.sampled_from(
    ["a", "a0", "a/b", "ab", "A", "%", "_", "*", "a.", "a-", '"', "'", "\0", "ä", "🌱"]
)
paths = st.lists(SEGMENTS, max_size=3).map(lambda segments: normalise_path("/" + "/".join(segments)))
keys = st.sampled_from(["kind", "trust", "owner", "space", "k"])
values = st.sampled_from(["1", "2", "", "a=b", "\0", "1\0", "'", str(ALICE), str(BOB)])
attributes = st.tuples(keys, values)
labels = st.sampled_from(["note", "Note", "no=te!", "", "\0", "/", "//x"])
authors = st.sampled_from([ALICE, BOB])
dates = st.sampled_from(["2020-01-01T00:00:00Z", "2026-11-30T09:15:00Z", "9999-01-01T00:00:00Z"])

facts = st.lists(
    st.tuples(authors, paths, st.lists(attributes, max_size=3), st.lists(labels, max_size=2), dates),
    max_size=8,
)
path_attributes = st.lists(
    st.tuples(paths, st.sampled_from(["kind", "trust", "k"]), values, st.booleans()), max_size=4
)
patterns: st.SearchStrategy[Pattern] = st.one_of(
    paths.map(Exact), paths.map(Subtree), attributes.map(lambda pair: Attribute(*pair))
)
scopes = st.builds(Scope, st.frozensets(patterns, max_size=5), st.frozensets(patterns, max_size=3))
tag_texts = st.one_of(labels, attributes.map("=".join), paths)
filters = st.builds(
    Filters,
    author=st.one_of(st.none(), authors),
    tags=st.lists(tag_texts, max_size=2).map(tuple),
    since=st.one_of(st.none(), dates.map(parse_micros)),
    path=st.one_of(st.none(), paths),
)


def select(file: File, condition: Condition) -> set[tuple[str, str]]:
    rows = file.connection.execute(
        f"SELECT f.author, f.rkey FROM facts AS f WHERE f.invalidated_at IS NULL{condition.clause}",  # noqa: S608
        condition.params,
    )
    return {tuple(row) for row in rows}


def fill(file: File, described: list[Any], given_by_paths: list[Any]) -> None:
    for path, key, value, protected in given_by_paths:
        path_tags.set_tag(file.writer(), path, key, value, protected)
    for number, (author, path, own, plain, created_at) in enumerate(described):
        tags = [path, *(f"{key}={value}" for key, value in own), *plain]
        value = memory("text", *tags, created_at=created_at)
        file.apply(commit(number, put(f"r{number}", value), author=author))


def effective(path: str, author: str, own: dict[str, str], given_by_paths: list[Any]) -> dict[str, str]:
    """Work out a fact's attributes the slow way: walk up from its path for every key."""
    given = {(path, key): (value, protected) for path, key, value, protected in given_by_paths}
    steps = [path]
    while steps[-1] != "/":
        steps.append(steps[-1].rpartition("/")[0] or "/")
    result = {}
    for key in {key for _, key in given} | set(own):
        if key in ("owner", "space"):
            continue
        inherited = [given[step, key] for step in steps if (step, key) in given]
        if key in own and key != "trust" and not any(protected for _, protected in inherited):
            result[key] = own[key]
        elif inherited:
            result[key] = inherited[0][0]
    return {**result, "owner": author}


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(facts, path_attributes, st.lists(st.tuples(scopes, filters), min_size=1, max_size=5))
def test_the_condition_selects_exactly_what_the_scope_covers_and_the_filters_leave(
    described: list[Any], given_by_paths: list[Any], questions: list[tuple[Scope, Filters]]
) -> None:
    with space_file() as file:
        fill(file, described, given_by_paths)
        assert file.check() == []
        for scope, narrowed in questions:
            expected = set()
            for number, (author, path, own, plain, created_at) in enumerate(described):
                tags = [path, *(f"{key}={value}" for key, value in own), *plain]
                topics = read_tags(tags)
                if (
                    scope.covers(
                        topics.path, effective(topics.path, author, dict(topics.attributes), given_by_paths)
                    )
                    and (narrowed.author is None or narrowed.author == author)
                    and set(narrowed.tags) <= set(tags)
                    and (narrowed.since is None or min(parse_micros(created_at), NOW) >= narrowed.since)
                    and (narrowed.path is None or Subtree(narrowed.path).covers(topics.path, {}))
                ):
                    expected.add((str(author), f"r{number}"))
            assert select(file, render(scope, narrowed)) == expected


def test_everything_is_no_condition_at_all() -> None:
    assert render(EVERYTHING) == Condition()
    assert render(Scope(frozenset({Subtree("/"), Exact("/a"), Attribute("k", "v")}))) == Condition()
    assert render(EVERYTHING).clause == ""
    assert render(EVERYTHING, Filters(path="/")) == Condition()


def test_nothing_selects_nothing() -> None:
    with space_file() as file:
        file.apply(commit(1, put("a")))
        for scope in (NOTHING, Scope(frozenset({Subtree("/")}), frozenset({Subtree("/")}))):
            assert select(file, render(scope)) == set()


def test_values_are_bound_and_never_part_of_the_statement() -> None:
    evil = "') OR 1=1 --"
    scope = Scope(
        frozenset({Exact(f"/{evil}"), Subtree(f"/{evil}"), Attribute(evil, evil), Attribute("owner", evil)}),
        frozenset({Exact(f"/{evil}")}),
    )
    condition = render(scope, Filters(author=Did("did:plc:x"), tags=(evil,), path=f"/{evil}"))
    assert evil not in condition.sql
    assert condition.sql.count("?") == len(condition.params)


def test_the_statement_does_not_grow_with_the_scope() -> None:
    def scope(size: int) -> Scope:
        allow: set[Pattern] = set()
        for number in range(size):
            allow |= {Exact(f"/e{number}"), Subtree(f"/s{number}"), Attribute("k", str(number))}
        return Scope(frozenset(allow), frozenset({Exact(f"/d{number}") for number in range(size)}))

    small, large = render(scope(2)), render(scope(5_000))
    assert small.sql == large.sql
    with space_file() as file:
        file.apply(
            commit(
                1,
                put("exact", memory("x", "/e4999")),
                put("below", memory("x", "/s4999/deep")),
                put("tagged", memory("x", "k=4999")),
                put("outside", memory("x", "/e4999/deep", "k=5000")),
                put("denied", memory("x", "/d4999", "k=1")),
            )
        )
        assert {rkey for _, rkey in select(file, large)} == {"exact", "below", "tagged"}


def test_who_holds_a_subtree_does_not_see_its_neighbours() -> None:
    with space_file() as file:
        tree = ["/a", "/a/b", "/a/b/c", "/a0", "/a.", "/a-b", "/ab", "/A", "/A/b", "/"]
        file.apply(commit(1, *(put(f"r{n}", memory("x", path)) for n, path in enumerate(tree))))
        found = select(file, render(Scope(frozenset({Subtree("/a")}))))
        assert found == {(str(ALICE), "r0"), (str(ALICE), "r1"), (str(ALICE), "r2")}


def test_a_condition_takes_json_as_it_is_written() -> None:
    (param,) = render(Scope(frozenset({Exact("/b"), Exact("/a")}))).params
    assert isinstance(param, str)
    assert json.loads(param) == ["/a", "/b"]
