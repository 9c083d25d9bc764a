"""The words of a question -> a vector of the space's model, where the service has that model.

`hashing-*` models are always there. One more is there when the operator configured it. A vector is only ever
made with exactly the space's model; where there is none the answer is None, and the caller of this decides.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from embedders.errors import EmbedderError
from lexicons.embeddings import encode_f16le, normalise
from lexicons.errors import UnusableVector
from lexicons.hashing import embed as hashing_embed
from lexicons.hashing import model_key as hashing_key

if TYPE_CHECKING:
    from embedders.protocol import Embedder
    from lexicons.models import ModelKey

CACHED_VECTORS: Final = 256  # ours: at most 8 MB, at 16,000 dimensions
DEADLINE_SECONDS: Final = 5.0  # ours: half of what a query may take
RETRY_SECONDS: Final = 30.0  # ours: how long a model that failed to load is left alone
HASHING_PREFIX: Final = "hashing-"

_log = structlog.get_logger("appview.xrpc")


class EmbedderFailed(Exception):
    """The service has the model, but it gave no vector in time."""


class QueryEmbedder:
    """Embeds questions. `start` begins to load the model; `close` lets go of it."""

    def __init__(self, embedder: Embedder | None, *, deadline: float = DEADLINE_SECONDS) -> None:
        self._embedder = embedder
        self._deadline = deadline
        self._vectors: OrderedDict[tuple[ModelKey, str], bytes] = OrderedDict()
        self._loading: asyncio.Task[ModelKey | None] | None = None
        self._running: dict[tuple[ModelKey, str], asyncio.Task[bytes]] = {}
        self._failed_at: float | None = None

    def start(self) -> None:
        """Begin to load the configured model, in the background."""
        if self._embedder is not None and self._loading is None:
            self._loading = asyncio.create_task(self._load(self._embedder))

    async def close(self) -> None:
        """Stop loading and let go of the model."""
        tasks = [*self._running.values(), *([self._loading] if self._loading else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._embedder is not None:
            await self._embedder.close()

    async def hosts(self, model: ModelKey) -> bool:
        """Tell whether questions can be embedded with `model`, waiting for one that is being loaded."""
        if _is_hashing(model):
            return True
        return await self._configured_key() == model

    async def vector(self, model: ModelKey, text: str) -> bytes:
        """Embed `text`, prefix included, with a model that is hosted: f16le of a unit vector.

        Raises `EmbedderFailed`.
        """
        key = (model, text)
        if (known := self._vectors.get(key)) is not None:
            self._vectors.move_to_end(key)
            return known
        if _is_hashing(model):
            return self._keep(key, encode_f16le(hashing_embed(text, model.dims)))
        return await self._ask(model, text)

    def _keep(self, key: tuple[ModelKey, str], vector: bytes) -> bytes:
        self._vectors[key] = vector
        while len(self._vectors) > CACHED_VECTORS:
            self._vectors.popitem(last=False)
        return vector

    async def _ask(self, model: ModelKey, text: str) -> bytes:
        if self._embedder is None:
            raise EmbedderFailed
        # A model in the process cannot be stopped half-way: past the deadline its task ends by itself, and
        # whoever asks the same joins it or finds its vector.
        task = self._running.get((model, text))
        if task is None:
            task = asyncio.create_task(self._embed(self._embedder, model, text))
            self._running[(model, text)] = task
            task.add_done_callback(lambda done: self._end((model, text), done))
        try:
            async with asyncio.timeout(self._deadline):
                return await asyncio.shield(task)
        except (TimeoutError, EmbedderError, UnusableVector) as error:
            _log.warning("question not embedded", model=model.model, reason=type(error).__name__)
            raise EmbedderFailed from None

    async def _embed(self, embedder: Embedder, model: ModelKey, text: str) -> bytes:
        return self._keep((model, text), encode_f16le(normalise(await embedder.embed_query(text))))

    def _end(self, key: tuple[ModelKey, str], task: asyncio.Task[bytes]) -> None:
        """Forget a task, and take its error, so that one nobody waits for is not reported as lost."""
        del self._running[key]
        if not task.cancelled():
            task.exception()

    async def _configured_key(self) -> ModelKey | None:
        if self._embedder is None:
            return None
        loop = asyncio.get_running_loop()
        if self._failed_at is not None and loop.time() - self._failed_at >= RETRY_SECONDS:
            self._failed_at, self._loading = None, None
        self.start()
        if self._loading is None:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deadline):
                return await asyncio.shield(self._loading)
        return None

    async def _load(self, embedder: Embedder) -> ModelKey | None:
        try:
            key = await embedder.key()
        except EmbedderError as error:
            _log.error("embedder not loaded", reason=str(error), hint=getattr(error, "hint", ""))
            self._failed_at = asyncio.get_running_loop().time()
            return None
        _log.info("embedder loaded", model=key.model, dims=key.dims)
        return key


def _is_hashing(model: ModelKey) -> bool:
    return model.model.startswith(HASHING_PREFIX) and model == hashing_key(model.dims)
