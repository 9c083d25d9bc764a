"""Vectors of an evaluation's texts, kept on disk so that a second run embeds nothing.

One file a model, named by the hash of its key: records of equal length, each the SHA-256 of a text in its
part (a document or a question) and its vector as it would be published (f16le, length 1). Records are only
appended; one that was cut off by a crash is dropped when the file is opened again.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal, Protocol

from lexicons.embeddings import encode_f16le, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from appview.evaluation.judged import JudgedQuery
    from embedders.protocol import Embedder
    from lexicons.models import ModelKey

Part = Literal["document", "question"]
BATCH: Final = 64  # texts embedded between two writes to disk
HASH_BYTES: Final = 32  # SHA-256


class Vectors(Protocol):
    """The vectors of questions, all of one model."""

    @property
    def model(self) -> ModelKey:
        """Whose they are."""
        ...

    def of(self, query: JudgedQuery) -> bytes:
        """Give the f16le vector of a question."""
        ...


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors that were made of the words of questions."""

    file: VectorFile
    prefix: str

    @property
    def model(self) -> ModelKey:
        """Whose they are."""
        return self.file.model

    def of(self, query: JudgedQuery) -> bytes:
        """Give the f16le vector of a question that `VectorFile.fill` has been given with the prefix."""
        return self.file.find("question", self.prefix + query.text)


@dataclass(frozen=True, slots=True)
class Brought:
    """Vectors that questions bring themselves where they are of the model; others are embedded."""

    model: ModelKey
    others: Embedded | None

    def of(self, query: JudgedQuery) -> bytes:
        """Give the f16le vector of a question."""
        if query.vector is not None and query.model == self.model:
            return query.vector
        if self.others is None:
            raise AssertionError("a question without a vector, and nothing to make one")
        return self.others.of(query)


class VectorFile:
    """The known vectors of one model. Make one with `VectorFile.open`."""

    def __init__(self, path: Path, model: ModelKey, known: dict[bytes, bytes]) -> None:
        self._path = path
        self._known = known
        self.model = model

    @classmethod
    def open(cls, folder: Path, model: ModelKey) -> VectorFile:
        """Open the model's file in a folder, or begin it."""
        folder.mkdir(parents=True, exist_ok=True)
        name = sha256(f"{model.model}\n{model.digest}\n{model.dims}".encode()).hexdigest()[:32]
        path = folder / f"{name}.vectors"
        size = HASH_BYTES + 2 * model.dims
        data = path.read_bytes() if path.exists() else b""
        whole = len(data) // size * size
        if whole < len(data):
            with path.open("r+b") as file:
                file.truncate(whole)
        known = {
            data[start : start + HASH_BYTES]: data[start + HASH_BYTES : start + size]
            for start in range(0, whole, size)
        }
        return cls(path, model, known)

    def find(self, part: Part, text: str) -> bytes:
        """Give the f16le vector of a text that `fill` has been given."""
        return self._known[_name(part, text)]

    async def fill(self, embedder: Embedder, part: Part, texts: Iterable[str]) -> int:
        """Embed the texts that are not known yet; answer how many those were. Raises `EmbedderError`."""
        missing = {name: text for text in texts if (name := _name(part, text)) not in self._known}
        # Texts of a length embed together faster, and the longest come first: what is to fail, fails early.
        names = sorted(missing, key=lambda name: -len(missing[name]))
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            self._keep(batch, await _embed(embedder, part, [missing[name] for name in batch]))
        return len(names)

    def _keep(self, names: Sequence[bytes], vectors: Sequence[Sequence[float]]) -> None:
        made = [encode_f16le(normalise(vector)) for vector in vectors]
        with self._path.open("ab") as file:
            file.write(b"".join([name + vector for name, vector in zip(names, made, strict=True)]))
        self._known.update(zip(names, made, strict=True))


async def _embed(embedder: Embedder, part: Part, texts: list[str]) -> Sequence[Sequence[float]]:
    if part == "document":
        return await embedder.embed_documents(texts)
    return [await embedder.embed_query(text) for text in texts]


def _name(part: Part, text: str) -> bytes:
    return sha256(f"{part}\n{text}".encode()).digest()
