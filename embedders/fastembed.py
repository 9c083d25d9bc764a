"""Models that run in this process through fastembed: its own list by name, or a folder on disk.

Everything that computes runs in one worker thread, so that the event loop stays free and a model is loaded
once. The digest is the SHA-256 of the model file. A download shows its progress on standard error.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from embedders.errors import BadAnswer, EmbedderError, ModelUnavailable
from embedders.folders import ModelFolder, read_folder
from embedders.spec import FastembedSpec, FolderSpec
from lexicons.errors import ContractError
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import TypeVar

    T = TypeVar("T")

BATCH: Final = 8  # texts a run; padding to the longest doubles the work of 32 where lengths differ
DEFAULT_THREADS: Final = 1  # measured on two cores: a second thread makes small models slower
CACHE_VARIABLE: Final = "FASTEMBED_CACHE_PATH"  # fastembed's own
_registering = threading.Lock()  # fastembed's list of custom models belongs to the whole process
TELEMETRY_SWITCHES: Final = ("HF_HUB_DISABLE_TELEMETRY", "ORT_DISABLE_TELEMETRY")


class FastembedEmbedder:
    """One model, loaded by the first call that needs it."""

    def __init__(
        self, spec: FastembedSpec | FolderSpec, *, cache: Path | None = None, threads: int | None = None
    ) -> None:
        self._spec = spec
        self._cache = cache
        self._threads = threads or spec.threads or DEFAULT_THREADS
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="embed")
        self._model: Any = None
        self._key: ModelKey | None = None

    async def key(self) -> ModelKey:
        """Load the model, where it is not yet loaded, and identify it."""
        return await self._run(self._loaded)

    async def embed_documents(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Embed texts as documents, in their order."""
        return await self._run(self._documents, list(texts)) if texts else []

    async def embed_query(self, text: str) -> tuple[float, ...]:
        """Embed one text as a question."""
        return await self._run(self._query, text)

    async def close(self) -> None:
        """Let go of the model. Work under way ends by itself; nobody waits for a download to finish."""
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._model = None

    async def _run(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work, *args)

    def _documents(self, texts: list[str]) -> list[tuple[float, ...]]:
        key = self._loaded()
        # A batch is padded to its longest text: neighbours in length waste the least.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        sorted_texts = [texts[index] for index in order]
        made = self._vectors(
            lambda: self._model.passage_embed(sorted_texts, batch_size=BATCH), len(texts), key
        )
        vectors: list[tuple[float, ...]] = [()] * len(texts)
        for index, vector in zip(order, made, strict=True):
            vectors[index] = vector
        return vectors

    def _query(self, text: str) -> tuple[float, ...]:
        key = self._loaded()
        return self._vectors(lambda: self._model.query_embed(text), 1, key)[0]

    def _vectors(
        self, embed: Callable[[], Iterable[Any]], count: int, key: ModelKey
    ) -> list[tuple[float, ...]]:
        try:
            vectors = [tuple(map(float, vector)) for vector in embed()]
        except Exception as error:
            raise BadAnswer(f"{key.model} failed: {error}") from error
        if len(vectors) != count or any(len(vector) != key.dims for vector in vectors):
            raise BadAnswer(f"{key.model} did not give {key.dims} numbers for each of {count} texts")
        if not all(math.isfinite(sum(vector)) for vector in vectors):
            raise BadAnswer(f"{key.model} gave a vector that is not finite")
        return vectors

    def _loaded(self) -> ModelKey:
        if self._key is None:
            try:
                self._key = self._load()
            except EmbedderError:
                raise
            except ImportError as error:
                raise ModelUnavailable(
                    f"fastembed is not installed: {error}", "pip install 'garden-engram[publisher]'"
                ) from error
            except ContractError as error:
                raise ModelUnavailable(f"{self._spec} cannot name a model: {error}") from error
            except Exception as error:
                raise ModelUnavailable(f"{self._spec} cannot be loaded: {error}", self._hint()) from error
        return self._key

    def _load(self) -> ModelKey:
        # What an agent remembers is nobody else's business: the runtime reports home from its import on.
        for switch in TELEMETRY_SWITCHES:
            os.environ.setdefault(switch, "1")
        from fastembed import TextEmbedding

        if isinstance(self._spec, FolderSpec):
            folder = read_folder(self._spec)
            registered = _register(TextEmbedding, folder)
            place = str(folder.path)  # as the cache too: nothing is downloaded, and no other folder is made
            model = TextEmbedding(
                registered, cache_dir=place, specific_model_path=place, threads=self._threads
            )
            name, file = folder.name, folder.path / folder.model_file
        else:
            listed = {each["model"].lower(): each for each in TextEmbedding.list_supported_models()}
            found = listed.get(self._spec.model.lower())
            if found is None:
                raise ModelUnavailable(
                    f"fastembed has no model {self._spec.model!r}",
                    "a folder is written with a slash, as in fastembed:./model; the names are in fastembed's "
                    "list of supported models",
                )
            model = TextEmbedding(found["model"], cache_dir=str(self._cache_folder()), threads=self._threads)
            inner: Any = model.model  # its folder has no public name
            name, file = found["model"], inner._model_dir / found["model_file"]
        digest = sha256_of(file)
        dims = len(next(iter(model.passage_embed(["dims"]))))
        self._model = model
        return ModelKey(name, f"sha256:{digest}", dims)

    def _cache_folder(self) -> Path | str:
        if self._cache is not None:
            return self._cache
        if chosen := os.environ.get(CACHE_VARIABLE):
            return chosen
        import platformdirs

        return platformdirs.user_cache_path("garden-engram", appauthor=False) / "models"

    def _hint(self) -> str:
        if isinstance(self._spec, FolderSpec):
            return "the folder needs an ONNX model, tokenizer.json, tokenizer_config.json and config.json"
        return (
            "the first use downloads the model; on a machine without a network name a folder, "
            "as in fastembed:/path/to/folder"
        )


def _register(text_embedding: Any, folder: ModelFolder) -> str:
    from fastembed.common.model_description import ModelSource, PoolingType

    pooling = {
        "mean": PoolingType.MEAN,
        "cls": PoolingType.CLS,
        "last": PoolingType.LAST_TOKEN,
        "none": PoolingType.DISABLED,
    }[folder.pooling]
    name = f"folder:{folder.path}:{folder.model_file}:{folder.pooling}"
    with _registering:
        known = {each["model"].lower() for each in text_embedding.list_supported_models()}
        if name.lower() not in known:
            text_embedding.add_custom_model(
                model=name,
                pooling=pooling,
                normalization=True,
                sources=ModelSource(hf=name),
                dim=folder.dims,
                model_file=folder.model_file,
            )
    return name


def sha256_of(file: Path) -> str:
    """Compute the SHA-256 of a file, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
