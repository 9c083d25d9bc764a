"""Effective attributes: worked examples, and the materialised table against a recursive view."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appview.memory import meta, path_tags
from appview.memory.apply import apply_updates
from appview.memory.errors import InvalidPathTag
from appview.memory.tags import PathTag, ancestors, inherit, origins, own_attributes
from tests.appview.memory.support import ALICE, File, commit, delete, memory, put, space_file

# The rules once more, in SQL: walk up from each live fact's path and keep, of each key, the value of the
# topmost path that protects it, or else the nearest.
VIEW: Final = """
WITH RECURSIVE up (fact_id, path_id, distance) AS (
    SELECT id, path_id, 0 FROM facts WHERE invalidated_at IS NULL
    UNION ALL
    SELECT up.fact_id, paths.parent_id, distance + 1 FROM up JOIN paths ON paths.id = up.path_id
    WHERE paths.parent_id IS NOT NULL
),
given AS (
    SELECT up.fact_id, t.key, t.value, up.distance, t.protected AS itself,
           max(t.protected) OVER (PARTITION BY up.fact_id, t.key) AS protected
    FROM up JOIN path_tags AS t ON t.path_id = up.path_id
),
inherited AS (
    SELECT fact_id, key, value, protected FROM given AS g
    WHERE distance = coalesce(
        (SELECT max(distance) FROM given WHERE fact_id = g.fact_id AND key = g.key AND itself),
        (SELECT min(distance) FROM given WHERE fact_id = g.fact_id AND key = g.key)
    )
)
SELECT fact_id, key, value FROM fact_tags AS own
WHERE NOT EXISTS (
    SELECT 1 FROM inherited AS i WHERE i.fact_id = own.fact_id AND i.key = own.key AND i.protected
)
UNION ALL
SELECT fact_id, key, value FROM inherited AS i
WHERE protected OR NOT EXISTS (
    SELECT 1 FROM fact_tags AS own WHERE own.fact_id = i.fact_id AND own.key = i.key
)
"""


def materialised(file: File) -> set[tuple[Any, ...]]:
    rows = file.connection.execute("SELECT fact_id, key, value FROM effective_tags")
    return {tuple(row) for row in rows}


def viewed(file: File) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in file.connection.execute(VIEW)}


def attributes(file: File, rkey: str) -> dict[str, str]:
    return dict(
        file.connection.execute(
            "SELECT e.key, e.value FROM effective_tags AS e JOIN facts AS f ON f.id = e.fact_id"
            " WHERE f.rkey = ? AND f.invalidated_at IS NULL",
            (rkey,),
        ).fetchall()
    )


def test_the_nearest_path_wins() -> None:
    levels = [[PathTag("k", "root")], [PathTag("k", "near"), PathTag("j", "1")], []]
    assert inherit(levels).effective({}) == {"k": "near", "j": "1"}


def test_the_facts_own_attribute_beats_an_inherited_one() -> None:
    assert inherit([[PathTag("k", "path")]]).effective({"k": "own"}) == {"k": "own"}


def test_a_protected_attribute_beats_the_facts_own() -> None:
    assert inherit([[PathTag("k", "path", protected=True)]]).effective({"k": "own"}) == {"k": "path"}


def test_no_path_below_gives_a_protected_key_another_value() -> None:
    top = [PathTag("k", "far", protected=True), PathTag("j", "far")]
    levels = [top, [PathTag("k", "near"), PathTag("j", "near")], [PathTag("k", "nearest", protected=True)]]
    assert inherit(levels).effective({"k": "own", "j": "own"}) == {"k": "far", "j": "own"}


def test_a_path_that_protects_gives_its_own_value_not_that_of_a_path_above() -> None:
    levels = [[PathTag("k", "far")], [PathTag("k", "near", protected=True)], [PathTag("k", "nearest")]]
    assert inherit(levels).effective({"k": "own"}) == {"k": "near"}


def test_a_file_that_was_filled_by_other_rules_is_derived_anew() -> None:
    with space_file() as file:
        path_tags.set_tag(file.writer(), "/a", "k", "v", protected=False)
        file.apply(commit(1, put("r", memory("x", "/a"))))
        before = meta.data_version(file.connection)
        path_tags.refresh(file.connection)
        assert (meta.data_version(file.connection), attributes(file, "r")) == (before + 1, {"k": "v"})
        file.connection.execute("UPDATE effective_tags SET value = 'old'")
        path_tags.refresh(file.connection)
        assert attributes(file, "r") == {"k": "old"}  # looked at once
        meta.write(file.connection, "inheritance", "0")
        path_tags.refresh(file.connection)
        assert (meta.data_version(file.connection), attributes(file, "r")) == (before + 2, {"k": "v"})


def test_a_record_cannot_say_who_owns_it_how_trusted_it_is_or_where_it_belongs() -> None:
    assert own_attributes({"owner": "x", "trust": "high", "space": "y", "kind": "rule"}) == {"kind": "rule"}


def test_a_path_gives_its_attributes_to_what_is_below_it_now_and_later() -> None:
    with space_file() as file:
        file.apply(commit(1, put("before", memory("x", "/a/b")), put("beside", memory("x", "/ab"))))
        path_tags.set_tag(file.writer(), "/a", "k", "v", protected=False)
        file.apply(commit(2, put("after", memory("x", "/a/c/d"))))
        assert attributes(file, "before") == attributes(file, "after") == {"k": "v"}
        assert attributes(file, "beside") == {}
        assert path_tags.remove_tag(file.writer(), "/a", "k") is True
        assert attributes(file, "before") == attributes(file, "after") == {}


def test_a_path_and_its_facts_can_change_in_one_transaction() -> None:
    with space_file() as file:
        writer = file.writer()
        apply_updates(writer, [commit(1, put("before", memory("x", "/a")))])
        path_tags.set_tag(writer, "/a", "k", "v", protected=False)
        apply_updates(writer, [commit(2, put("after", memory("x", "/a")))])
        assert attributes(file, "before") == attributes(file, "after") == {"k": "v"}
        path_tags.set_tag(writer, "/a", "k", "w", protected=False)
        assert attributes(file, "before") == attributes(file, "after") == {"k": "w"}


def test_a_path_can_say_how_trusted_its_facts_are() -> None:
    with space_file() as file:
        path_tags.set_tag(file.writer(), "/", "trust", "low", protected=False)
        file.apply(commit(1, put("a", memory("x", "trust=high"))))
        assert attributes(file, "a") == {"trust": "low"}


def test_the_last_value_of_a_key_counts() -> None:
    with space_file() as file:
        file.apply(commit(1, put("a", memory("x", "k=1", "k=2", "K=3", "k"))))
        assert attributes(file, "a") == {"k": "2"}


def test_a_path_with_an_attribute_stays_when_its_last_fact_goes() -> None:
    with space_file() as file:
        path_tags.set_tag(file.writer(), "/a/b", "k", "v", protected=False)
        file.apply(commit(1, put("r", memory("x", "/a/b/c"))))
        file.apply(commit(2, delete("r")))
        assert [row[0] for row in file.connection.execute("SELECT full_path FROM paths ORDER BY id")] == [
            "/",
            "/a",
            "/a/b",
        ]
        assert path_tags.remove_tag(file.writer(), "/a/b", "k") is True
        assert [row[0] for row in file.connection.execute("SELECT full_path FROM paths")] == ["/"]


def test_removing_what_was_not_given_says_so() -> None:
    with space_file() as file:
        assert path_tags.remove_tag(file.writer(), "/nowhere", "k") is False
        path_tags.set_tag(file.writer(), "/a", "k", "v", protected=False)
        assert path_tags.remove_tag(file.writer(), "/a", "other") is False


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ("a", "k", "v"),
        ("/a/", "k", "v"),
        ("//a", "k", "v"),
        ("/" + "a" * 128, "k", "v"),
        ("/a", "K", "v"),
        ("/a", "", "v"),
        ("/a", "k" * 33, "v"),
        ("/a", "owner", str(ALICE)),
        ("/a", "space", str(ALICE)),
        ("/a", "k", "v" * 127),
    ],
)
def test_an_attribute_that_cannot_be_is_refused(path: str, key: str, value: str) -> None:
    with space_file() as file, pytest.raises(InvalidPathTag):
        path_tags.set_tag(file.writer(), path, key, value, protected=False)


@pytest.mark.parametrize(
    ("path", "key", "value"), [("/" + "a" * 127, "k", "v"), ("/a", "k" * 32, ""), ("/a", "k", "v" * 126)]
)
def test_an_attribute_at_the_limit_is_taken(path: str, key: str, value: str) -> None:
    with space_file() as file:
        path_tags.set_tag(file.writer(), path, key, value, protected=False)
        assert file.check() == []


TAGS = st.dictionaries(
    st.tuples(st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab"]), st.sampled_from("kj")),
    st.tuples(st.sampled_from("12"), st.booleans()),
)


OWN = st.dictionaries(st.sampled_from("kjx"), st.just("own"))


@given(TAGS, OWN, st.sampled_from(["/", "/a", "/a/b/c", "/x"]))
def test_what_is_told_of_where_attributes_come_from_is_what_counts(
    given_tags: dict[tuple[str, str], tuple[str, bool]], own: dict[str, str], path: str
) -> None:
    tags = [(at, PathTag(key, value, hard)) for (at, key), (value, hard) in given_tags.items()]
    levels = [[tag for at, tag in tags if at == step] for step in ancestors(path)]
    found = origins(path, tags, own)
    assert {key: origin.value for key, origin in found.items()} == inherit(levels).effective(own)
    for key, origin in found.items():
        if origin.path is None:
            assert own[key] == origin.value
        else:
            assert given_tags[origin.path, key] == (origin.value, origin.protected)


PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/a/d", "/ab"])
KEYS = st.sampled_from(["k", "j", "trust"])
VALUES = st.sampled_from(["1", "2"])
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"), st.sampled_from("xyz"), PATHS, st.lists(st.tuples(KEYS, VALUES), max_size=2)
        ),
        st.tuples(st.just("delete"), st.sampled_from("xyz")),
        st.tuples(st.just("give"), PATHS, KEYS, VALUES, st.booleans()),
        st.tuples(st.just("take"), PATHS, KEYS),
    ),
    max_size=14,
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=120)
@given(steps)
def test_the_table_is_what_the_recursive_view_says_after_every_step(history: list[Any]) -> None:
    with space_file() as file:
        for number, step in enumerate(history):
            match step:
                case ("put", rkey, path, own):
                    value = memory("x", path, *(f"{key}={value}" for key, value in own))
                    file.apply(commit(number, put(rkey, value)))
                case ("delete", rkey):
                    file.apply(commit(number, delete(rkey)))
                case ("give", path, key, value, protected):
                    path_tags.set_tag(file.writer(), path, key, value, protected)
                case ("take", path, key):
                    path_tags.remove_tag(file.writer(), path, key)
            assert materialised(file) == viewed(file)
        assert file.check() == []
