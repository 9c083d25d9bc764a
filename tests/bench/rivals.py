"""What one would use instead, on the same texts and vectors. Each is skipped, with a note, where it is not
installed: `pip install --group rivals`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pysqlite3
import sqlite_vec

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.corpus import Corpus, Question

CANDIDATES = 100  # of each way, as many as ours


class Rival(Protocol):
    """Answers with numbers of memories, best first."""

    name: str

    def search(self, question: Question, mode: str) -> list[int]:
        """Find ten."""
        ...


def fuse(*parts: dict[int, float]) -> list[int]:
    """Min-max fusion, half and half."""
    scores: dict[int, float] = {}
    for part in parts:
        low, high = min(part.values(), default=0.0), max(part.values(), default=0.0)
        for number, score in part.items():
            scores[number] = scores.get(number, 0.0) + (score - low) / ((high - low) or 1.0)
    return sorted(scores, key=lambda number: -scores[number])[:10]


class Plain:
    """FTS5 with `porter`, every word ORed, and `vec0` of float32."""

    name = "fts5+sqlite-vec"

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        self._connection = connection = pysqlite3.connect(folder / "plain.db", isolation_level=None)
        connection.enable_load_extension(True)
        sqlite_vec.load(connection)
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61')")
        connection.execute(f"CREATE VIRTUAL TABLE near USING vec0 (embedding float[{corpus.dims}])")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(corpus.texts, 1))
        connection.executemany(
            "INSERT INTO near (rowid, embedding) VALUES (?, ?)",
            (
                (number, vector.astype(np.float32).tobytes())
                for number, vector in enumerate(corpus.vectors, 1)
            ),
        )
        connection.execute("COMMIT")

    def search(self, question: Question, mode: str) -> list[int]:
        keyword: dict[int, float] = {}
        near: dict[int, float] = {}
        if mode != "vector":
            words = " OR ".join('"{}"'.format(word.replace('"', "")) for word in question.text.split())
            sql = "SELECT rowid - 1, -rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
            keyword = dict(self._connection.execute(sql, (words, CANDIDATES)).fetchall())
        if mode != "keyword":
            wide = np.frombuffer(question.vector, "<f2").astype(np.float32).tobytes()
            sql = "SELECT rowid - 1, -distance FROM near WHERE embedding MATCH ? AND k = ?"
            near = dict(self._connection.execute(sql, (wide, CANDIDATES)).fetchall())
        return fuse(keyword, near)


class TantivyFaiss:
    """Tantivy with English stems, and FAISS: flat, or IVF with 8-bit vectors from 50,000 on."""

    name = "tantivy+faiss"

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        import faiss
        import tantivy

        self._tantivy = tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", stored=True, fast=True)
        builder.add_text_field("text", tokenizer_name="en_stem")
        (folder / "tantivy").mkdir()
        self._words = tantivy.Index(builder.build(), path=str(folder / "tantivy"))
        writer = self._words.writer(128_000_000, 1)
        for number, text in enumerate(corpus.texts):
            writer.add_document(tantivy.Document(number=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._words.reload()
        self._searcher = self._words.searcher()
        vectors = corpus.vectors.astype(np.float32)
        if corpus.count < 50_000:
            self._near: Any = faiss.IndexFlatIP(corpus.dims)
        else:
            lists = int(corpus.count**0.5)
            self._near = faiss.index_factory(corpus.dims, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
            self._near.nprobe = 16
            self._near.train(vectors[: 64 * lists])
        self._near.add(vectors)

    def search(self, question: Question, mode: str) -> list[int]:
        keyword: dict[int, float] = {}
        near: dict[int, float] = {}
        if mode != "vector":
            plain = "".join(letter if letter.isalnum() else " " for letter in question.text)
            query = self._words.parse_query(plain, ["text"])
            for score, address in self._searcher.search(query, CANDIDATES).hits:
                keyword[self._searcher.doc(address)["number"][0]] = score
        if mode != "keyword":
            wide = np.frombuffer(question.vector, "<f2").astype(np.float32).reshape(1, -1)
            scores, numbers = self._near.search(wide, CANDIDATES)
            near = dict(zip(numbers[0].tolist(), scores[0].tolist(), strict=True))
        return fuse(keyword, near)


class Lance:
    """LanceDB: its full text search with English stems, and its vectors (an IVF-PQ index from 50,000 on)."""

    name = "lancedb"

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        os.environ.setdefault("LANCEDB_CONFIG_DIR", str(folder))
        import lancedb
        import pyarrow as pa

        vectors = corpus.vectors.astype(np.float32)
        table = pa.table(
            {
                "number": pa.array(range(corpus.count)),
                "text": corpus.texts,
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), corpus.dims),
            }
        )
        self._table = lancedb.connect(folder / "lance").create_table("memories", table)
        self._table.create_fts_index("text")
        if corpus.count >= 50_000:
            self._table.create_index(metric="cosine", vector_column_name="vector")

    def search(self, question: Question, mode: str) -> list[int]:
        keyword: dict[int, float] = {}
        near: dict[int, float] = {}
        plain = "".join(letter if letter.isalnum() else " " for letter in question.text)
        if mode != "vector":
            found = (
                self._table.search(plain, query_type="fts")
                .select(["number", "_score"])
                .limit(CANDIDATES)
                .to_arrow()
            )
            keyword = dict(zip(found["number"].to_pylist(), found["_score"].to_pylist(), strict=True))
        if mode != "keyword":
            wide = np.frombuffer(question.vector, "<f2").astype(np.float32)
            search = self._table.search(wide, query_type="vector").distance_type("cosine")
            found = search.refine_factor(4).select(["number", "_distance"]).limit(CANDIDATES).to_arrow()
            near = {
                number: -distance
                for number, distance in zip(
                    found["number"].to_pylist(), found["_distance"].to_pylist(), strict=True
                )
            }
        return fuse(keyword, near)


RIVALS = (Plain, TantivyFaiss, Lance)
