"""What a memory points to, and how a file keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.memory.links import MAX_LINKS, RELATIONS, Link, read_links
from appview.memory.stored import refresh_links
from tests.appview.memory.support import ALICE, BOB, commit, delete, memory, put, space_file

if TYPE_CHECKING:
    from appview.memory.store import SpaceStore
    from appview.sqlite import Connection

URI = "at://did:plc:bob/garden.engram.memory/3kabc"


def links(text: str = "", *tags: str) -> list[Link]:
    return list(read_links(ALICE, "me", text, tags))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [[/beds/north]]", [Link("path", "", "/beds/north")]),
        ("see [[/beds//north/]] [[/beds/north]]", [Link("path", "", "/beds/north")]),
        ("[[/]]", [Link("path", "", "/")]),
        ("[[/a b]] [[/東京]]", [Link("path", "", "/a b"), Link("path", "", "/東京")]),
        ("[[beds]] [/beds] [[ /beds]] [[/be\nds]] [[/a[b]]", []),
        (f"as {URI} says", [Link("mention", BOB, "3kabc")]),
        (f"({URI}), {URI}.", [Link("mention", BOB, "3kabc")]),
        (f"{URI}. {URI}x", [Link("mention", BOB, "3kabc"), Link("mention", BOB, "3kabcx")]),
        ("at://did:plc:bob/app.bsky.feed.post/3kabc", []),
        ("at://bob.example/garden.engram.memory/3kabc", []),
        ("at://did:plc:alice/garden.engram.memory/me", []),
    ],
)
def test_text_points_to_paths_and_memories(text: str, expected: list[Link]) -> None:
    assert links(text) == expected


@pytest.mark.parametrize("relation", sorted(RELATIONS))
def test_a_tag_names_a_relation(relation: str) -> None:
    assert links("", f"{relation}=3kabc") == [Link(relation, ALICE, "3kabc")]
    assert links("", f"{relation}=did:plc:bob/3kabc") == [Link(relation, BOB, "3kabc")]


@pytest.mark.parametrize(
    "tag",
    [
        "supersedes",
        "supersedes=",
        "supersedes=a b",
        "supersedes=bob/3kabc",
        "supersedes=/3kabc",
        "supersedes=did:plc:bob/",
        "Supersedes=3kabc",
        "precedes=3kabc",
        "supersedes=me",
        f"supersedes={URI}",
    ],
)
def test_what_reads_as_no_relation_is_a_plain_tag(tag: str) -> None:
    assert links("", tag) == []


def test_several_tags_of_one_relation_each_count() -> None:
    found = links("", "derived-from=a", "derived-from=b", "derived-from=a")
    assert [link.target for link in found] == ["a", "b"]


def test_the_first_links_count_tags_before_text() -> None:
    text = " ".join(f"[[/p{number}]]" for number in range(MAX_LINKS + 5))
    assert len(links(text)) == MAX_LINKS
    assert len(links(" ".join(f"[[/p{number}]]" for number in range(MAX_LINKS)))) == MAX_LINKS
    assert links(text, "caused-by=x")[0] == Link("caused-by", ALICE, "x")
    assert links(text, "caused-by=x")[-1] == Link("path", "", f"/p{MAX_LINKS - 2}")


@given(st.text(st.sampled_from("[]/at:did.plc gardenmory\0\U0001f331\n"), max_size=200), st.lists(st.text()))
def test_any_text_and_tags_are_read(text: str, tags: list[str]) -> None:
    found = read_links(ALICE, "me", text, tags)
    assert len(set(found)) == len(found) <= MAX_LINKS


def rows(connection: Connection) -> set[tuple[str, str, str, str]]:
    return {
        tuple(row)
        for row in connection.execute(
            "SELECT f.rkey, l.kind, l.target_author, l.target FROM fact_links AS l"
            " JOIN facts AS f ON f.id = l.fact_id AND f.invalidated_at IS NULL"
        )
    }


async def test_links_follow_the_record(store: SpaceStore) -> None:
    await store.apply([commit(1, put("a", memory("[[/x]]", "caused-by=b")))])
    assert await store.database.read(rows) == {("a", "path", "", "/x"), ("a", "caused-by", ALICE, "b")}
    await store.apply([commit(2, put("a", memory(f"now {URI}")))])
    assert await store.database.read(rows) == {("a", "mention", BOB, "3kabc")}
    await store.apply([commit(3, delete("a"))])
    assert await store.database.read(rows) == set()


def test_a_file_whose_links_another_version_read_is_read_again() -> None:
    with space_file() as file:
        file.apply(commit(1, put("a", memory("[[/x]]")), put("b", memory("plain"))))
        file.connection.execute("DELETE FROM fact_links")
        assert any("fact_links" in finding for finding in file.check())
        file.connection.execute("DELETE FROM meta WHERE key = 'links'")
        refresh_links(file.connection)
        assert file.check() == []
        assert rows(file.connection) == {("a", "path", "", "/x")}
        file.connection.execute("DELETE FROM fact_links")
        refresh_links(file.connection)  # of this version already: not looked at
        assert rows(file.connection) == set()
