"""`hashing-<dims>`: words counted into buckets. No model, no network, the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lexicons.hashing import embed, model_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lexicons.models import ModelKey


class HashingEmbedder:
    """The offline model of the contract."""

    def __init__(self, dims: int) -> None:
        self._key = model_key(dims)

    async def key(self) -> ModelKey:
        """Identify the model."""
        return self._key

    async def embed_documents(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Embed texts, in their order."""
        return [tuple(embed(text, self._key.dims)) for text in texts]

    async def embed_query(self, text: str) -> tuple[float, ...]:
        """Embed one text."""
        return tuple(embed(text, self._key.dims))

    async def close(self) -> None:
        """Do nothing: nothing is held."""
