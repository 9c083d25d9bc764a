"""From settings to an embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

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
    """Make the embedder that `spec` names, without loading anything; raise `InvalidSpec`.

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
            from embedders.openai import OpenAIEmbedder

            return OpenAIEmbedder(spec, api_key=api_key)
        case _:
            assert_never(spec)
