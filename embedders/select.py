"""From settings to an embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from embedders.errors import ModelUnavailable
from embedders.hashing import HashingEmbedder
from embedders.spec import EmbedderSpec, FastembedSpec, FolderSpec, HashingSpec, OpenAISpec, parse_spec

if TYPE_CHECKING:
    from pathlib import Path

    from embedders.protocol import Embedder


def open_embedder(
    spec: EmbedderSpec | str,
    *,
    api_key: str | None = None,
    cache: Path | None = None,
    threads: int | None = None,
) -> Embedder:
    """Make the embedder that `spec` names, without loading anything; raise `InvalidSpec`, or
    `ModelUnavailable` where a package that it needs is not installed.

    `api_key` goes to an OpenAI-compatible endpoint; `cache` is where downloaded models are kept (default: the
    platform's cache folder); `threads` is for in-process models and gives way to the spec's own.
    """
    if isinstance(spec, str):
        spec = parse_spec(spec)
    match spec:
        case HashingSpec():
            return HashingEmbedder(spec.dims)
        case FastembedSpec() | FolderSpec():
            from embedders.fastembed import FastembedEmbedder

            return FastembedEmbedder(spec, cache=cache, threads=spec.threads or threads)
        case OpenAISpec():
            try:
                from embedders.openai import OpenAIEmbedder
            except ImportError as error:
                raise ModelUnavailable(
                    f"an embedding endpoint needs a package that is not installed: {error}",
                    "pip install httpx, or install 'garden-engram[publisher]' too",
                ) from error
            return OpenAIEmbedder(spec, api_key=api_key)
        case _:
            assert_never(spec)
