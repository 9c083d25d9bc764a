"""Memories and questions of any number, the same in every run.

Where the evaluation data is there, texts are made of its sentences and questions are its questions, so that
words are as common and as rare as people use them; every text has rare words and identifiers of its own
besides. Without it, words follow Zipf's law. Vectors lie in clusters, questions near them.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey
from tests.shared_data import shared_root

if TYPE_CHECKING:
    from numpy.typing import NDArray

CREATED_AT: Final = "2026-11-30T09:15:00.000Z"
CENTRES: Final = 500
SPREAD: Final = 0.6  # of a vector around its centre, in every dimension
FILTERS: Final = {"tenth": 10, "hundredth": 100, "thousandth": 1_000}  # tags that this share of memories has
CHUNK: Final = 20_000


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    vector: bytes  # f16le


class Corpus:
    """`count` memories of `dims` dimensions."""

    def __init__(self, count: int, dims: int, questions: int = 60) -> None:
        self.count, self.dims = count, dims
        self.model = ModelKey("bench", "sha256:bench", dims)
        self._chance = random.Random(7)
        self._numbers = np.random.default_rng(7)
        self._centres = self._numbers.standard_normal((CENTRES, dims)).astype(np.float32)
        self._sentences, asked = _people()
        self.vectors = np.concatenate(
            [self._near(min(CHUNK, count - start)) for start in range(0, count, CHUNK)]
        ).astype(np.float16)
        self.texts = [self.text() for _ in range(count)]
        near = self._near(questions).astype("<f2")
        self.questions = [
            Question(self._chance.choice(asked) if asked else self.text(), vector.tobytes())
            for vector in near
        ]
        self.identifiers = [
            Question(self._identifier(self._chance.randrange(count)), vector.tobytes()) for vector in near
        ]

    def text(self) -> str:
        """Two sentences, a fifth of whose words are exchanged for rare ones, and an identifier."""
        words = " ".join(self._chance.choices(self._sentences, k=2)).split()
        for place, word in enumerate(words):
            if len(word) > 4 and self._chance.random() < 0.2:
                words[place] = _rare(int(30_000 ** self._chance.random()))
        return f"{' '.join(words)} {self._identifier(self._chance.randrange(self.count))}"

    def memory(self, number: int) -> Memory:
        """Make the record of one of them."""
        labels = [f"{name}{number % share}" for name, share in FILTERS.items()]
        embedding = Embedding(self.model, self.vectors[number % self.count].tobytes())
        text = self.texts[number % self.count]
        return Memory(text, CREATED_AT, embedding, tags=(f"/p/{number % 97}", *labels))

    def nearest(self, vector: bytes, k: int) -> set[int]:
        """Find the nearest the obvious way, in single precision."""
        query = np.frombuffer(vector, "<f2").astype(np.float32)
        scores = np.concatenate(
            [
                self.vectors[start : start + CHUNK].astype(np.float32) @ query
                for start in range(0, self.count, CHUNK)
            ]
        )
        return set(np.argpartition(-scores, k)[:k].tolist())

    def _near(self, count: int) -> NDArray[np.float32]:
        noise = self._numbers.standard_normal((count, self.dims)).astype(np.float32)
        vectors = self._centres[self._numbers.integers(0, CENTRES, count)] + np.float32(SPREAD) * noise
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    @staticmethod
    def _identifier(number: int) -> str:
        return f"engram_{number % 5_000:x}_index.py" if number % 2 else f"ModelError{number % 7_000:x}"


def _people() -> tuple[list[str], list[str]]:
    root = shared_root()
    folder = root / "eval" / "locomo" if root is not None else None
    if folder is None or not (folder / "memories.jsonl").exists():
        chance = random.Random(3)
        return [_generated(chance, 22) for _ in range(3_000)], [_generated(chance, 9) for _ in range(300)]
    lines = (folder / "memories.jsonl").read_text(encoding="utf-8").splitlines()
    asked = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines], [json.loads(line)["query"] for line in asked]


def _generated(chance: random.Random, words: int) -> str:
    return " ".join(_rare(int(3_000 ** chance.random())) for _ in range(words))


def _rare(rank: int) -> str:
    return f"{'bcdfgklmnp'[rank % 10]}{'aeiou'[rank % 5]}{rank:x}ing"
