"""Spaces to search in, and slow oracles."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from appview.memory.values import Delete, Put, RepoUpdate
from appview.search.analysis import ANALYSIS
from appview.search.fusion import Fused, Weights
from appview.search.keyword import COMMON_FACTS, COMMON_SHARE, FIELD_WEIGHTS, K1, PIVOT_WORDS, B
from lexicons.configs import Config
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from appview.memory.store import SpaceStore
    from appview.search.fusion import Method, Ranked

AUTHORITY, ALICE, BOB = Did("did:plc:authority"), Did("did:plc:alice"), Did("did:plc:bob")
SPACE = SpaceUri.public(AUTHORITY)
DIMS = 4
MODEL = ModelKey("m", "sha256:m", DIMS)
CREATED_AT = "2026-11-30T09:15:00.000Z"
CONFIG = Config(MODEL, CREATED_AT)
NOW = 1_800_000_000_000_000  # 2027-01-15, after CREATED_AT


@dataclass(frozen=True)
class Doc:
    """A memory to index."""

    text: str
    tags: tuple[str, ...] = ()
    source: str | None = None
    vector: Sequence[float] = (1.0, 0.0, 0.0, 0.0)
    author: Did = ALICE
    created_at: str = CREATED_AT


def halves(*values: float) -> bytes:
    """Encode a query vector."""
    return Embedding.of(ModelKey("q", "sha256:q", len(values)), values).vector


def put(rkey: str, doc: Doc, model: ModelKey = MODEL) -> Put:
    memory = Memory(doc.text, doc.created_at, Embedding.of(model, doc.vector), None, doc.tags, doc.source)
    return Put(rkey, f"bafy{sha256(repr(memory).encode()).hexdigest()[:16]}", memory)


class Filler:
    """Writes documents to a store under record keys that count up: k0000, k0001, ..."""

    def __init__(self, store: SpaceStore) -> None:
        self.store = store
        self.commits = 0
        self.records = 0

    async def add(self, *docs: Doc | str, model: ModelKey = MODEL) -> list[str]:
        """Index documents in one commit an author; answer their record keys."""
        written = [doc if isinstance(doc, Doc) else Doc(doc) for doc in docs]
        keys = [f"k{self.records + number:04}" for number in range(len(written))]
        self.records += len(written)
        by_author: dict[Did, list[Put]] = {}
        for key, doc in zip(keys, written, strict=True):
            by_author.setdefault(doc.author, []).append(put(key, doc, model))
        await self.store.apply([self._commit(author, puts) for author, puts in by_author.items()])
        return keys

    async def replace(self, rkey: str, doc: Doc) -> None:
        await self.store.apply([self._commit(doc.author, [put(rkey, doc)])])

    async def delete(self, *rkeys: str, author: Did = ALICE) -> None:
        await self.store.apply([self._commit(author, [Delete(rkey) for rkey in rkeys])])

    def _commit(self, author: Did, changes: Iterable[Put | Delete]) -> RepoUpdate:
        self.commits += 1
        return RepoUpdate(author, str(Tid.from_micros(1_000_000 + self.commits)), tuple(changes))


def bm25(docs: Sequence[Doc], terms: Iterable[str]) -> list[float]:
    """Score documents for terms, the obvious way."""
    columns = [ANALYSIS.document(doc.text, doc.tags, doc.source) for doc in docs]
    counts: list[dict[str, float]] = []
    for document in columns:
        count: dict[str, float] = Counter()
        fields = (document.text, document.tags, document.source)
        for field, weight in zip(fields, FIELD_WEIGHTS, strict=False):
            for term in field.split():
                count[term] += float(weight)
        counts.append(count)
    lengths = [len(document.exact.split()) for document in columns]
    frequencies = {term: sum(term in count for count in counts) for term in set(terms)}
    common = max(COMMON_SHARE * len(docs), COMMON_FACTS)
    asked = {term for term, frequency in frequencies.items() if frequency}
    asked = {term for term in asked if frequencies[term] <= common} or asked
    scores = []
    for count, length in zip(counts, lengths, strict=True):
        score = 0.0
        for term in asked:
            rarity = math.log(1 + (len(docs) - frequencies[term] + 0.5) / (frequencies[term] + 0.5))
            weight = count[term]
            score += rarity * weight * (K1 + 1) / (weight + K1 * (1 - B + B * length / PIVOT_WORDS))
        scores.append(score)
    return scores


def cosine(a: bytes, b: bytes) -> float:
    """Measure two f16le vectors, the obvious way."""
    key = ModelKey("q", "sha256:q", len(a) // 2)
    left, right = Embedding(key, a).unit_vector(), Embedding(key, b).unit_vector()
    return math.fsum(x * y for x, y in zip(left, right, strict=True))


def fused_of(
    keyword: Mapping[int, float] | None,
    vector: Mapping[int, float] | None,
    weights: Weights = Weights(),  # noqa: B008 - a frozen value
    method: Method = "convex",
) -> Fused:
    """Fuse what arms gave by id; what is missing of one is unknown."""
    ids = list(keyword if keyword is not None else vector or {})
    arms = [
        None if arm is None else np.array([arm.get(id_, math.nan) for id_ in ids], np.float64)
        for arm in (keyword, vector)
    ]
    return Fused.of(np.array(ids, np.int64), *arms, weights, method)


def fuse(
    keyword: Mapping[int, float] | None,
    vector: Mapping[int, float] | None,
    weights: Weights,
    method: Method = "convex",
) -> list[Ranked]:
    """Fuse what arms gave by id, and write all out."""
    return fused_of(keyword, vector, weights, method).ranked()
