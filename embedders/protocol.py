"""What an embedder is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lexicons.models import ModelKey


class Embedder(Protocol):
    """Turns text into vectors with one model.

    Nothing is loaded or asked before the first call. Prefixes are the caller's: they belong to the space,
    not to the model. Vectors have `key().dims` finite numbers and any length. Methods raise `EmbedderError`.
    """

    async def key(self) -> ModelKey:
        """Identify the model, loading what is needed for that, once."""

    async def embed_documents(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Embed texts as documents, in their order."""

    async def embed_query(self, text: str) -> tuple[float, ...]:
        """Embed one text as a question."""

    async def close(self) -> None:
        """Let go of the model; the embedder cannot be used afterwards."""
