"""A space's model and the four changes it can go through; space URIs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexicons.catalog import garden
from lexicons.configs import MAX_PREFIX_BYTES, Config
from lexicons.data import decode, encode
from lexicons.errors import InvalidChange, InvalidRecord, InvalidSyntax
from lexicons.ids import CONFIG
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

NOW = "2026-11-30T09:15:00.000Z"
OLD, NEW = ModelKey("old", "sha256:1", 384), ModelKey("new", "sha256:2", 768)
keys = st.builds(
    ModelKey,
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    st.integers(1, 16_000),
)
prefixes = st.text(st.characters(codec="utf-8"), max_size=20)


@given(keys, st.none() | keys, prefixes, prefixes)
def test_a_config_survives_its_record(
    key: ModelKey, following: ModelKey | None, document: str, query: str
) -> None:
    config = Config.declare(key, created_at=NOW, document_prefix=document, query_prefix=query)
    if following is not None and following != key:
        config = config.with_next(following)
    record = decode(encode(config.to_record()))
    garden().validate_record(CONFIG, record, "self")
    assert Config.from_record(record) == config


def test_the_record_holds_what_is_set() -> None:
    plain = Config.declare(OLD, created_at=NOW)
    assert plain.to_record() == {
        "$type": "garden.engram.config",
        "model": "old",
        "modelDigest": "sha256:1",
        "dims": 384,
        "createdAt": NOW,
    }
    full = Config.declare(OLD, created_at=NOW, document_prefix="d: ", query_prefix="q: ").with_next(NEW)
    assert full.to_record() == {
        **plain.to_record(),
        "documentPrefix": "d: ",
        "queryPrefix": "q: ",
        "next": {"model": "new", "modelDigest": "sha256:2", "dims": 768},
    }


def test_declaring_replaces_everything() -> None:
    assert Config.declare(NEW, created_at=NOW) == Config(NEW, NOW, None, "", "")


def test_a_model_is_announced_promoted_or_cancelled() -> None:
    announced = Config.declare(OLD, created_at=NOW, document_prefix="d: ").with_next(NEW)
    assert (announced.model, announced.next) == (OLD, NEW)
    promoted = announced.promote()
    assert (promoted.model, promoted.next, promoted.document_prefix) == (NEW, None, "d: ")
    assert announced.cancel() == Config.declare(OLD, created_at=NOW, document_prefix="d: ")


def test_changes_without_sense_are_refused() -> None:
    config = Config.declare(OLD, created_at=NOW)
    with pytest.raises(InvalidChange, match="the same as the present one"):
        config.with_next(OLD)
    with pytest.raises(InvalidChange, match="no next model to promote"):
        config.promote()
    with pytest.raises(InvalidChange, match="no next model to cancel"):
        config.cancel()


def test_a_next_model_equal_to_the_present_one_means_nothing() -> None:
    record = {**Config.declare(OLD, created_at=NOW).to_record(), "next": OLD.to_record()}
    assert Config.from_record(record).next is None


@pytest.mark.parametrize("name", ["nomic-embed-text", "nomic-embed-text:v1.5"])
def test_nomic_gets_the_prefixes_it_was_trained_with(name: str) -> None:
    key = ModelKey(name, "sha256:1", 768)
    config = Config.declare(key, created_at=NOW)
    assert (config.document_prefix, config.query_prefix) == ("search_document: ", "search_query: ")
    config = Config.declare(key, created_at=NOW, query_prefix="q: ")
    assert (config.document_prefix, config.query_prefix) == ("", "q: ")
    assert Config.declare(OLD, created_at=NOW).document_prefix == ""


def test_prefixes_are_limited_in_bytes() -> None:
    Config.declare(OLD, created_at=NOW, document_prefix="é" * (MAX_PREFIX_BYTES // 2))
    with pytest.raises(InvalidRecord, match="documentPrefix: 201 bytes, at most 200"):
        Config.declare(OLD, created_at=NOW, document_prefix="é" * 100 + "a")
    with pytest.raises(InvalidRecord, match="queryPrefix: 202 bytes, at most 200"):
        Config.declare(OLD, created_at=NOW, query_prefix="é" * 101)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"model": None}, "model"),
        ({"dims": 0}, "dims"),
        ({"createdAt": None}, "createdAt"),
        ({"documentPrefix": 1}, "documentPrefix"),
        ({"queryPrefix": "a" * 201}, "queryPrefix"),
        ({"next": []}, "next"),
        ({"next": {"model": "m", "modelDigest": "d", "dims": 16_001}}, "next.dims"),
    ],
)
def test_a_record_that_is_wrong_is_refused_by_field(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        Config.from_record({**Config.declare(OLD, created_at=NOW).to_record(), **changes})
    assert caught.value.path == path


def test_a_public_space_is_named_by_its_config_record() -> None:
    uri = SpaceUri.public(Did("did:web:garden.test"))
    assert uri == "at://did:web:garden.test/garden.engram.config/self"
    assert (uri.authority, uri.space_kind) == ("did:web:garden.test", "public")
    assert SpaceUri(str(uri)) == uri


@pytest.mark.parametrize(
    "text",
    [
        "",
        "at://alice.test/garden.engram.config/self",
        "at://did:plc:abc/garden.engram.config/other",
        "at://did:plc:abc/garden.engram.memory/self",
        "at://did:plc:abc/garden.engram.config",
        "at://did:plc:abc/x/garden.engram.config/self",
        "at:///garden.engram.config/self",
        "https://did:plc:abc/garden.engram.config/self",
    ],
)
def test_what_names_no_space_is_refused(text: str) -> None:
    with pytest.raises(InvalidSyntax, match="space URI"):
        SpaceUri(text)
