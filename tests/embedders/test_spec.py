"""Embedders are named by a text that is read strictly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from embedders.errors import InvalidSpec, ModelUnavailable
from embedders.fastembed import FastembedEmbedder
from embedders.hashing import HashingEmbedder
from embedders.openai import OpenAIEmbedder
from embedders.select import open_embedder
from embedders.spec import (
    DEFAULT_SPEC,
    EmbedderSpec,
    FastembedSpec,
    FolderSpec,
    HashingSpec,
    OpenAISpec,
    parse_spec,
)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("hashing-384", HashingSpec(384)),
        ("hashing-16000", HashingSpec(16000)),
        ("fastembed:BAAI/bge-small-en-v1.5", FastembedSpec("BAAI/bge-small-en-v1.5")),
        ("fastembed:BAAI/bge-small-en-v1.5;threads=4", FastembedSpec("BAAI/bge-small-en-v1.5", 4)),
        ("fastembed:/models/minilm", FolderSpec(Path("/models/minilm"))),
        ("fastembed:./minilm;name=MiniLM;pooling=cls", FolderSpec(Path("minilm"), "MiniLM", "cls")),
        ("fastembed:..", FolderSpec(Path(".."))),
        ("fastembed:~/minilm", FolderSpec(Path("~/minilm").expanduser())),
        (
            "openai:http://localhost:11434/v1#nomic-embed-text",
            OpenAISpec("http://localhost:11434/v1", "nomic-embed-text"),
        ),
        (
            "openai:https://api.example.com/v1/#org/model:tag;digest=2024-01;dims=512",
            OpenAISpec("https://api.example.com/v1", "org/model:tag", "2024-01", 512),
        ),
        (DEFAULT_SPEC, FastembedSpec("BAAI/bge-small-en-v1.5")),
    ],
)
def test_a_spec_is_read(text: str, spec: EmbedderSpec) -> None:
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bge-small",
        "hashing-0",
        "hashing-16001",
        "hashing-٣",
        "hashing-384;threads=2",
        "fastembed:",
        "fastembed:model;threads=0",
        "fastembed:model;threads=257",
        "fastembed:model;pooling=mean",
        "fastembed:./folder;pooling=max",
        "fastembed:./folder;name=a;name=b",
        "fastembed:./folder;name=",
        "fastembed:./folder;nonsense",
        "fastembed:./folder;nonsense=1",
        "fastembed:./folder;name=" + "x" * 257,
        "openai:localhost:11434#m",
        "openai:ftp://host/v1#m",
        "openai:https://host/v1",
        "openai:https://host/v1#",
        "openai:https://host/v1?a=b#m",
        "openai:https://host:0/v1#m",
        "openai:https://host:99999/v1#m",
        "openai:https://host/v1#m;dims=16001",
        "openai:https://host/v1#m;digest=" + "x" * 257,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        parse_spec(text)


def test_a_secret_in_a_spec_is_refused_without_repeating_it() -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec("openai:https://user:hunter2@host/v1#m")
    assert "hunter2" not in str(caught.value)
    assert "ENGRAM_EMBEDDER_API_KEY" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hashing-8", HashingEmbedder),
        ("fastembed:any/model", FastembedEmbedder),
        ("fastembed:/no/such/folder", FastembedEmbedder),
        ("openai:http://localhost:1/v1#m", OpenAIEmbedder),
    ],
)
async def test_opening_loads_and_asks_nothing(text: str, kind: type) -> None:
    embedder = open_embedder(text)
    assert isinstance(embedder, kind)
    await embedder.close()


def test_an_endpoint_without_its_package_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "embedders.openai", raising=False)
    with pytest.raises(ModelUnavailable, match="httpx") as caught:
        open_embedder("openai:http://localhost:11434/v1#nomic-embed-text")
    assert "garden-engram[publisher]" in caught.value.hint
