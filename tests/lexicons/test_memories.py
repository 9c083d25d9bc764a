"""A memory and its record, what its tags mean, what is embedded of it, and what a writer is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexicons.catalog import garden
from lexicons.data import decode, encode, from_json, to_json
from lexicons.embeddings import Embedding
from lexicons.errors import InvalidRecord
from lexicons.hashing import embed, model_key
from lexicons.ids import MEMORY
from lexicons.memories import (
    MAX_EMBEDDED_TEXT_BYTES,
    Memory,
    check_new,
    is_attribute_key,
    is_blank,
    normalise_path,
    read_tags,
    text_to_embed,
)
from tests.shared_data import cases, read_json

NOW = "2026-11-30T09:15:00.000Z"
KEY = model_key(4)
EMBEDDING = Embedding.of(KEY, embed("compost", 4))
FAMILY = "👩‍👩‍👦‍👦"  # 25 bytes, one grapheme

characters = st.characters(codec="utf-8")
tags = st.lists(st.text(characters, max_size=12), max_size=16).map(tuple)


@given(st.text(characters, max_size=60), tags, st.none() | st.text(characters, max_size=20), st.booleans())
def test_a_memory_survives_its_record(
    text: str, labels: tuple[str, ...], source: str | None, changing: bool
) -> None:
    memory = Memory(text, NOW, EMBEDDING, EMBEDDING if changing else None, labels, source)
    record = memory.to_record()
    garden().validate_record(MEMORY, record, require_type=True)
    assert Memory.from_record(decode(encode(record))) == memory
    assert Memory.from_record(from_json(to_json(record))) == memory


def test_empty_fields_are_left_out_of_a_record() -> None:
    assert Memory("a", NOW, EMBEDDING).to_record() == {
        "$type": "garden.engram.memory",
        "text": "a",
        "createdAt": NOW,
        "embedding": EMBEDDING.to_record(),
    }


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"text": None}, "text"),
        ({"createdAt": 1}, "createdAt"),
        ({"source": 1}, "source"),
        ({"tags": "abc"}, "tags"),
        ({"tags": [1]}, "tags"),
        ({"embedding": None}, "embedding"),
        ({"embedding": []}, "embedding"),
        ({"embedding": {}}, "embedding.vector"),
        ({"embedding": {**EMBEDDING.to_record(), "dims": 0}}, "embedding.dims"),
        ({"nextEmbedding": {**EMBEDDING.to_record(), "model": ""}}, "nextEmbedding.model"),
    ],
)
def test_a_record_that_is_wrong_is_refused_by_field(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        Memory.from_record({**Memory("a", NOW, EMBEDDING).to_record(), **changes})
    assert caught.value.path == path


# Tags


def test_tags_are_a_path_attributes_and_labels() -> None:
    topics = read_tags(
        ["garden", "/projects//tomatoes/", "kind=fact", "/second", "kind=lesson", "Kind=x", "garden"]
    )
    assert topics.path == "/projects/tomatoes"
    assert topics.attributes == {"kind": "lesson"}
    assert topics.labels == ("garden", "/second", "Kind=x")
    assert topics.space is None


def test_without_a_path_a_memory_lies_at_the_root() -> None:
    assert read_tags([]).path == "/"
    assert read_tags(["a/b"]).path == "/"
    assert read_tags(["/", "/b"]).path == "/"


def test_an_attribute_may_be_empty_and_may_hold_equals_signs() -> None:
    assert read_tags(["a=", "b=c=d", "=e", "ü=f", "g h=i"]).attributes == {"a": "", "b": "c=d"}


@pytest.mark.parametrize("key", ["a", "a" * 32, "a0_.-"])
def test_a_key_of_an_attribute(key: str) -> None:
    assert is_attribute_key(key)
    assert read_tags([f"{key}=v"]).attributes == {key: "v"}


@pytest.mark.parametrize("key", ["", "a" * 33, "0a", "A", "ä", "a b", "a\n", "-a"])
def test_what_is_no_key_makes_a_label(key: str) -> None:
    assert not is_attribute_key(key)
    assert read_tags([f"{key}=v"]).labels == (f"{key}=v",)


@pytest.mark.parametrize("authority", ["did:plc:abc", "nonsense", ""])
def test_a_memory_may_be_for_one_space(authority: str) -> None:
    assert read_tags([f"space={authority}"]).space == authority


@given(st.lists(st.text(st.sampled_from("/ab=.é\x00 "), max_size=8), max_size=8))
def test_every_tag_has_one_meaning(labels: list[str]) -> None:
    topics = read_tags(labels)
    assert topics.path == normalise_path(topics.path)
    for tag in labels:
        key, equals, _ = tag.partition("=")
        ways = [
            tag.startswith("/") and normalise_path(tag) == topics.path,
            tag in topics.labels,
            bool(equals) and key in topics.attributes,
        ]
        assert any(ways)
    assert all(label in labels for label in topics.labels)
    assert len(set(topics.labels)) == len(topics.labels)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/", "/"),
        ("", "/"),
        ("///", "/"),
        ("a/b", "/a/b"),
        ("/a//b/", "/a/b"),
        ("/A/b", "/A/b"),
        ("/a/../b/.", "/a/../b/."),
        ("/a%2fb", "/a%2fb"),
        ("/a/*", "/a/*"),
        ("/ a / b", "/ a / b"),
        ("/a\x00/b\n\x7f\x85", "/a/b"),
        ("/a/\x00/b", "/a/b"),
        ("/" + "a/" * 63, "/" + "a/" * 62 + "a"),
    ],
)
def test_a_path_has_one_form(path: str, normal: str) -> None:
    assert normalise_path(path) == normal


@given(st.text(st.sampled_from("/a\x00.* é"), max_size=20))
def test_the_form_of_a_path_is_final(path: str) -> None:
    normal = normalise_path(path)
    assert normalise_path(normal) == normal
    assert normal.startswith("/")
    assert normal == "/" or not normal.endswith("/")
    assert "//" not in normal
    assert "\x00" not in normal


# What is embedded


@pytest.mark.parametrize("case", cases(lambda: read_json("interop/engram/go.json")["embedText"]), ids=str)
def test_embeds_what_other_implementations_embed(case: dict[str, Any]) -> None:
    assert text_to_embed(case["prefix"], case["text"], case["tags"] or ()) == case["want"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a" * 24_000, 24_000),
        ("a" * 24_001, 24_000),
        ("é" * 12_000, 12_000),
        ("a" + "é" * 12_000, 12_000),
        ("aa" + "漢" * 8_000, 8_001),
        ("a" + "🌱" * 6_000, 6_000),
    ],
)
def test_a_long_text_is_cut_between_characters(text: str, kept: int) -> None:
    assert text_to_embed("", text) == text[:kept]
    assert text_to_embed("p: ", text, ["a", "b"]) == f"p: {text[:kept]}\n\nTags: a, b"


@given(
    st.text(characters, max_size=30), st.integers(MAX_EMBEDDED_TEXT_BYTES - 40, MAX_EMBEDDED_TEXT_BYTES + 4)
)
def test_the_cut_keeps_as_much_as_fits(tail: str, length: int) -> None:
    text = "a" * length + tail
    kept = text_to_embed("", text)
    assert text.startswith(kept)
    assert len(kept.encode()) <= MAX_EMBEDDED_TEXT_BYTES
    if kept != text:
        assert len(text[: len(kept) + 1].encode()) > MAX_EMBEDDED_TEXT_BYTES


# What a writer is told


@pytest.mark.parametrize(
    "text", ["", " ", "\t\r\n", "\u00a0\u2003\u3000", "\x00", "\u200b\ufeff\u00ad", "\u2028 \x1b"]
)
def test_a_text_that_shows_nothing_is_blank(text: str) -> None:
    assert is_blank(text)
    with pytest.raises(InvalidRecord, match="text: is blank"):
        check_new(text)


@pytest.mark.parametrize("text", ["a", " . ", "\x00a", "🌱", "漢", "\u0301", "0"])
def test_a_text_that_shows_something_is_not_blank(text: str) -> None:
    assert not is_blank(text)
    check_new(text)


@pytest.mark.parametrize(
    ("text", "labels", "source"),
    [
        ("a" * 10_000, (), None),
        ("é" * 10_000, (), None),
        (FAMILY * 1_200, (), None),
        ("a\r\n" * 5_000, (), None),
        ("a", ("a",) * 16, None),
        ("a", ("a" * 64, "é" * 64, FAMILY * 5), None),
        ("a", ("/projects/tomatoes", "kind=fact", "space=did:plc:abc", "owner-team=x", "owner"), None),
        ("a", (), "s" * 2_000),
        ("a", (), ""),
    ],
)
def test_a_new_memory_within_the_limits(text: str, labels: tuple[str, ...], source: str | None) -> None:
    check_new(text, labels, source)
    garden().validate_record(MEMORY, Memory(text, NOW, EMBEDDING, None, labels, source).to_record())


@pytest.mark.parametrize(
    ("text", "labels", "source", "message"),
    [
        ("a" * 30_001, (), None, "text: 30001 bytes, at most 30000"),
        (FAMILY * 1_201, (), None, "text: 30025 bytes, at most 30000"),
        ("a" * 10_001, (), None, "text: 10001 graphemes, at most 10000"),
        ("é" * 10_001, (), None, "text: 10001 graphemes, at most 10000"),
        ("a\ud800", (), None, "text: holds a lone surrogate"),
        ("a", ("a",) * 17, None, "tags: 17 tags, at most 16"),
        ("a", ("b", "a" * 65), None, "tags[1]: 65 graphemes, at most 64"),
        ("a", (FAMILY * 5 + "aaaa",), None, "tags[0]: 129 bytes, at most 128"),
        ("a", ("",), None, "tags[0]: is blank"),
        ("a", ("\u200b",), None, "tags[0]: is blank"),
        ("a", ("/a\x00b",), None, "tags[0]: holds a control character"),
        ("a", ("a\nb",), None, "tags[0]: holds a control character"),
        ("a", ("\udfff",), None, "tags[0]: holds a lone surrogate"),
        ("a", ("owner=did:plc:abc",), None, "tags[0]: the attribute owner is reserved"),
        ("a", ("trust=high",), None, "tags[0]: the attribute trust is reserved"),
        ("a", ("trust=",), None, "tags[0]: the attribute trust is reserved"),
        ("a", ("Owner =me",), None, "tags[0]: the attribute owner is reserved"),
        ("a", ("space=alice.test",), None, "tags[0]: space= must name the DID"),
        ("a", ("Space=did:plc:abc",), None, "tags[0]: space= must name the DID"),
        ("a", (), "s" * 2_001, "source: 2001 bytes, at most 2000"),
        ("a", (), "\ud800", "source: holds a lone surrogate"),
    ],
)
def test_a_new_memory_beyond_them_is_refused(
    text: str, labels: tuple[str, ...], source: str | None, message: str
) -> None:
    with pytest.raises(InvalidRecord) as caught:
        check_new(text, labels, source)
    assert str(caught.value).startswith(message)


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=18), st.none() | st.text(max_size=20))
def test_what_a_writer_may_publish_satisfies_the_lexicon(
    text: str, labels: list[str], source: str | None
) -> None:
    try:
        check_new(text, labels, source)
    except InvalidRecord:
        return
    record = Memory(text, NOW, EMBEDDING, None, tuple(labels), source).to_record()
    garden().validate_record(MEMORY, decode(encode(record)), require_type=True)
