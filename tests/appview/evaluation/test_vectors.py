"""Vectors kept between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.evaluation.vectors import VectorFile
from lexicons.embeddings import encode_f16le, normalise
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MODEL = ModelKey("counting", "sha256:x", 2)


class CountingEmbedder:
    """Tells a text's length, and remembers what it was asked."""

    def __init__(self) -> None:
        self.documents: list[str] = []
        self.questions: list[str] = []

    async def key(self) -> ModelKey:
        return MODEL

    async def embed_documents(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        self.documents += texts
        return [(float(len(text)), 1.0) for text in texts]

    async def embed_query(self, text: str) -> tuple[float, ...]:
        self.questions.append(text)
        return (1.0, float(len(text)))

    async def close(self) -> None:
        return None


async def test_a_text_is_embedded_once_and_found_in_the_next_run(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    assert await VectorFile.open(tmp_path, MODEL).fill(embedder, "document", ["ab", "c", "ab"]) == 2
    again = VectorFile.open(tmp_path, MODEL)
    assert await again.fill(embedder, "document", ["ab", "c", "def"]) == 1
    assert sorted(embedder.documents) == ["ab", "c", "def"]
    assert again.find("document", "ab") == encode_f16le(normalise([2.0, 1.0]))


async def test_a_question_is_not_a_document(tmp_path: Path) -> None:
    embedder, vectors = CountingEmbedder(), VectorFile.open(tmp_path, MODEL)
    await vectors.fill(embedder, "document", ["ab"])
    await vectors.fill(embedder, "question", ["ab"])
    assert vectors.find("question", "ab") != vectors.find("document", "ab")


async def test_models_do_not_share_vectors(tmp_path: Path) -> None:
    await VectorFile.open(tmp_path, MODEL).fill(CountingEmbedder(), "document", ["ab"])
    other = VectorFile.open(tmp_path, ModelKey("counting", "sha256:y", 2))
    with pytest.raises(KeyError):
        other.find("document", "ab")


@pytest.mark.parametrize("lost", [1, 35])
async def test_a_record_that_was_cut_off_is_made_again(tmp_path: Path, lost: int) -> None:
    await VectorFile.open(tmp_path, MODEL).fill(CountingEmbedder(), "document", ["ab", "c"])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-lost])
    embedder, vectors = CountingEmbedder(), VectorFile.open(tmp_path, MODEL)
    assert await vectors.fill(embedder, "document", ["ab", "c"]) == 1
    assert VectorFile.open(tmp_path, MODEL).find("document", "c") == vectors.find("document", "c")
