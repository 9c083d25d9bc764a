"""The vector indexes of a space: the only module that knows how vectors are laid out.

An index has one row a fact: rowid = fact id, a float32 vector of length 1. It is a `vec0` table, or, for
models wider than vec0 takes, a plain table that is read from end to end. The distance is L2: on vectors of
length 1 the cosine is `1 - distance² / 2`, and equal vectors have distance 0 exactly. An index holds usable
vectors of one model only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import sqlite_vec

from appview.memory.inserts import insert_many
from lexicons.embeddings import ENCODING
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from appview.sqlite import Connection
    from lexicons.embeddings import Embedding

Role = Literal["active", "next"]
ROLES: Final[tuple[Role, ...]] = ("active", "next")
MAX_K: Final = 4_096  # sqlite-vec, the most neighbours a query may ask for
MAX_VEC0_DIMS: Final = 8_192  # sqlite-vec, a vector column
CHUNK_ROWS: Final = 1_024  # rows a chunk; larger chunks search faster and write no slower
MAX_CHUNK_BYTES: Final = 8 * 1024 * 1024  # of one chunk's vectors: a wide model gets fewer rows a chunk
CHUNK_STEP: Final = 8  # sqlite-vec, chunk_size must be a multiple of it
MAP_BYTES: Final = 1 << 30  # a search reads every vector: reading mapped pages halves its time


def prepare(connection: Connection) -> None:
    """Make a connection able to read vector indexes."""
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    connection.enable_load_extension(False)
    connection.execute(f"PRAGMA mmap_size = {MAP_BYTES}")


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """One index of the open file."""

    number: int
    model_id: int
    key: ModelKey

    @property
    def table(self) -> str:
        """Name of its table."""
        return f"facts_vec_{self.number}"

    @property
    def is_wide(self) -> bool:
        """Whether its model is wider than vec0 takes."""
        return self.key.dims > MAX_VEC0_DIMS

    @property
    def column(self) -> str:
        """Definition of its vector column."""
        if self.is_wide:
            return f"embedding BLOB NOT NULL CHECK (length(embedding) = {4 * self.key.dims})"
        return f"embedding float[{self.key.dims}]"

    def insert(self, connection: Connection, rows: Sequence[tuple[int, bytes]]) -> None:
        """Add (fact id, float32 unit vector) rows."""
        insert_many(connection, f"{self.table} (rowid, embedding)", rows)

    def delete(self, connection: Connection, fact_ids: Iterable[int]) -> None:
        """Remove facts; those it does not hold are passed over."""
        connection.executemany(
            f"DELETE FROM {self.table} WHERE rowid = ?",  # noqa: S608
            [(fact_id,) for fact_id in fact_ids],
        )

    def vector(self, connection: Connection, fact_id: int) -> bytes | None:
        """Read the float32 unit vector of a fact it holds."""
        row = connection.execute(f"SELECT embedding FROM {self.table} WHERE rowid = ?", (fact_id,)).fetchone()  # noqa: S608
        return None if row is None else bytes(row[0])

    def nearest_sql(self, allowed: str = "") -> str:
        """Write the query for the nearest facts; rows are fact id, distance.

        Parameters: the query vector (float32, length 1), k (at most `MAX_K`), then those of `allowed`, a
        query of fact ids that the search keeps to. Without one every fact is searched.
        """
        if self.is_wide:
            within = f" WHERE v.rowid IN ({allowed})" if allowed else ""
            return (
                "WITH q (vector, k) AS (VALUES (?, ?))"  # noqa: S608
                " SELECT v.rowid, vec_distance_L2(v.embedding, q.vector) AS distance"
                f" FROM q CROSS JOIN {self.table} AS v{within} ORDER BY distance LIMIT (SELECT k FROM q)"
            )
        within = f" AND rowid IN ({allowed})" if allowed else ""
        return f"SELECT rowid, distance FROM {self.table} WHERE embedding MATCH ? AND k = ?{within}"  # noqa: S608

    def ids_sql(self) -> str:
        """Write the query for the ids of the facts it holds."""
        return f"SELECT rowid FROM {self.table}{'' if self.is_wide else '_rowids'}"  # noqa: S608

    def fits_its_table(self, connection: Connection) -> bool:
        """Tell whether its table is there and as wide as its model."""
        row = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (self.table,)).fetchone()
        return row is not None and self.column in row[0]


def cosine(distance: float) -> float:
    """Turn an index's distance into the cosine of the angle."""
    return 1.0 - distance * distance / 2.0


def find(connection: Connection, role: Role) -> VectorIndex | None:
    """Find the index of a role."""
    row = connection.execute(
        "SELECT v.number, m.id, m.model, m.digest, m.dims FROM vector_indexes AS v"
        " JOIN models AS m ON m.id = v.model_id WHERE v.role = ?",
        (role,),
    ).fetchone()
    return None if row is None else VectorIndex(row[0], row[1], ModelKey(row[2], row[3], row[4]))


def create(connection: Connection, role: Role, key: ModelKey) -> VectorIndex:
    """Make the empty index of a role that has none."""
    used = {row[0] for row in connection.execute("SELECT number FROM vector_indexes")}
    index = VectorIndex(
        next(number for number in (1, 2, 3) if number not in used), model_id(connection, key), key
    )
    if index.is_wide:
        connection.execute(f"CREATE TABLE {index.table} (id INTEGER PRIMARY KEY, {index.column}) STRICT")
    else:
        rows = min(CHUNK_ROWS, MAX_CHUNK_BYTES // (4 * key.dims)) // CHUNK_STEP * CHUNK_STEP
        connection.execute(
            f"CREATE VIRTUAL TABLE {index.table} USING vec0 ({index.column}, chunk_size={rows})"
        )
    connection.execute("INSERT INTO vector_indexes VALUES (?, ?, ?)", (role, index.number, index.model_id))
    return index


def drop(connection: Connection, role: Role) -> None:
    """Remove the index of a role, if it has one."""
    index = find(connection, role)
    if index is not None:
        connection.execute("DELETE FROM vector_indexes WHERE role = ?", (role,))
        connection.execute(f"DROP TABLE {index.table}")


def promote(connection: Connection) -> None:
    """Make the next index the active one and remove the one before it."""
    drop(connection, "active")
    connection.execute("UPDATE vector_indexes SET role = 'active' WHERE role = 'next'")


def model_id(connection: Connection, key: ModelKey) -> int:
    """Find or add a model's number."""
    triple = (key.model, key.digest, key.dims)
    connection.execute(
        "INSERT INTO models (model, digest, dims) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", triple
    )
    row = connection.execute(
        "SELECT id FROM models WHERE model = ? AND digest = ? AND dims = ?", triple
    ).fetchone()
    return int(row[0])


def unit_vectors(embeddings: Sequence[Embedding], dims: int) -> list[bytes | None]:
    """Read f16le vectors to float32 at length 1, as an index takes them; None for one that is not usable."""
    result: list[bytes | None] = [None] * len(embeddings)
    fitting = [
        position
        for position, embedding in enumerate(embeddings)
        if embedding.encoding == ENCODING and len(embedding.vector) == 2 * dims
    ]
    if not fitting:
        return result
    halves = np.frombuffer(b"".join([embeddings[position].vector for position in fitting]), dtype="<f2")
    with np.errstate(invalid="ignore"):
        vectors = halves.reshape(len(fitting), dims).astype(np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        usable = np.isfinite(lengths) & (lengths > 0)
        lengths[~usable] = 1.0
        vectors /= lengths[:, None].astype(np.float32)
    data = vectors.tobytes()
    width = 4 * dims
    for row, position in enumerate(fitting):
        if usable[row]:
            result[position] = data[row * width : (row + 1) * width]
    return result
