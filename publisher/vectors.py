"""Vectors for a space: the embedder is the one whose model is the space's, or nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedders.errors import EmbedderBusy, EmbedderError
from lexicons.embeddings import Embedding
from lexicons.errors import UnusableVector
from lexicons.memories import text_to_embed
from publisher.errors import ModelTrouble, PublisherError, Temporary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedders.protocol import Embedder
    from lexicons.configs import Config
    from lexicons.models import ModelKey
    from publisher.drafts import Draft


@dataclass(frozen=True, slots=True)
class Vectors:
    """What one memory carries: its vector and, during a change of model, the next one's."""

    embedding: Embedding
    following: Embedding | None = None


class Vectoriser:
    """The configured embedders, matched to a space's models by their keys."""

    def __init__(self, embedders: Sequence[Embedder]) -> None:
        self.embedders = tuple(embedders)

    async def embed(self, drafts: Sequence[Draft], config: Config) -> list[Vectors]:
        """Embed drafts for a space; raise `ModelTrouble` or `Temporary`."""
        texts = [text_to_embed(config.document_prefix, draft.text, draft.tags) for draft in drafts]
        current, following = await self.matching(config)
        made = await self._embeddings(current, config.model, texts)
        if following is None or config.next is None:
            return [Vectors(each) for each in made]
        later = await self._embeddings(following, config.next, texts)
        return [Vectors(*pair) for pair in zip(made, later, strict=True)]

    async def made_with(
        self, model: ModelKey, texts: Sequence[str], *, following: bool = False
    ) -> list[Embedding]:
        """Embed texts with one model; `following` looks at the second embedder first.

        Raise `ModelTrouble` where no configured embedder has that model.
        """
        found: list[ModelKey] = []
        for embedder in reversed(self.embedders) if following else self.embedders:
            found.append(await self.key(embedder))
            if found[-1] == model:
                return await self._embeddings(embedder, model, list(texts))
        have = " and ".join(map(str, found)) if found else "none is configured"
        which, option = (
            ("next model", "--next-embedder or ENGRAM_NEXT_EMBEDDER")
            if following
            else ("model", "--embedder or ENGRAM_EMBEDDER")
        )
        raise ModelTrouble(
            f"the space's {which} is {model}; the embedder's is {have}", f"name it with {option}"
        )

    async def matching(self, config: Config) -> tuple[Embedder, Embedder | None]:
        """Find the embedder of the space's model and, where one is configured, of its next model."""
        current: Embedder | None = None
        following: Embedder | None = None
        found: list[ModelKey] = []
        for embedder in self.embedders:
            if current is not None and config.next is None:
                break  # a second model is loaded for a change of model alone
            key = await self.key(embedder)
            found.append(key)
            if key == config.model:
                current = embedder
            elif key == config.next:
                following = embedder
        if current is None:
            have = " and ".join(map(str, found)) if found else "none is configured"
            raise ModelTrouble(
                f"the space's model is {config.model}; the embedder's is {have}",
                "choose the space's model with --embedder or ENGRAM_EMBEDDER",
            )
        if config.next is not None and following is None and len(self.embedders) > 1:
            have = " and ".join(str(key) for key in found if key != config.model)
            raise ModelTrouble(
                f"the space's next model is {config.next}; the second embedder's is {have or 'the same'}",
                "choose the next model with --next-embedder or ENGRAM_NEXT_EMBEDDER",
            )
        return current, following

    async def key(self, embedder: Embedder) -> ModelKey:
        """Identify an embedder's model; raise `ModelTrouble` or `Temporary`."""
        try:
            return await embedder.key()
        except EmbedderError as error:
            raise translated(error) from error

    async def close(self) -> None:
        """Let go of the models."""
        for embedder in self.embedders:
            await embedder.close()

    async def _embeddings(self, embedder: Embedder, key: ModelKey, texts: list[str]) -> list[Embedding]:
        try:
            vectors = await embedder.embed_documents(texts)
            return [Embedding.of(key, vector) for vector in vectors]
        except EmbedderError as error:
            raise translated(error) from error
        except UnusableVector as error:
            raise ModelTrouble(f"{key.model} gave no usable vector: {error}") from error


def translated(error: EmbedderError) -> PublisherError:
    """Turn an embedder's error into the publisher's."""
    kind = Temporary if isinstance(error, EmbedderBusy) else ModelTrouble
    return kind(error.message, error.hint)
