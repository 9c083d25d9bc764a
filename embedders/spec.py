"""How an embedder is named in settings: `<kind>:<target>`, then options after semicolons.

    hashing-384
    fastembed:BAAI/bge-small-en-v1.5
    fastembed:/models/minilm;name=all-MiniLM-L6-v2
    openai:http://localhost:11434/v1#nomic-embed-text
    openai:https://api.example.com/v1#text-embedding-3-small;digest=2024-01;dims=512

A fastembed target that starts with `/`, `./`, `../` or `~` is a folder, anything else the name of a model.
A secret has no place here: the key of an endpoint comes from the environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from embedders.errors import InvalidSpec
from lexicons.models import MAX_DIGEST_BYTES, MAX_DIMS, MAX_MODEL_BYTES

DEFAULT_SPEC: Final = "fastembed:BAAI/bge-small-en-v1.5"
MAX_THREADS: Final = 256  # ours: beyond any machine this runs on

Pooling = Literal["mean", "cls", "last", "none"]
_HASHING = re.compile(r"hashing-(\d{1,5})", re.ASCII)
_FORMS: Final = "hashing-<dims>, fastembed:<model or folder>, openai:<base URL>#<model>"


@dataclass(frozen=True, slots=True)
class HashingSpec:
    """`hashing-<dims>`."""

    dims: int

    def __str__(self) -> str:
        return f"hashing-{self.dims}"


@dataclass(frozen=True, slots=True)
class FastembedSpec:
    """A model of fastembed's list, by name."""

    model: str
    threads: int | None = None

    def __str__(self) -> str:
        return f"fastembed:{self.model}"


@dataclass(frozen=True, slots=True)
class FolderSpec:
    """A folder with an ONNX model and its tokenizer, run by fastembed.

    `name` is the model's name in its key; `pooling` is how token vectors become one. Where they are not
    given, the folder's own files say.
    """

    folder: Path
    name: str | None = None
    pooling: Pooling | None = None
    threads: int | None = None

    def __str__(self) -> str:
        return f"fastembed:{self.folder}"


@dataclass(frozen=True, slots=True)
class OpenAISpec:
    """An endpoint that speaks `POST <base URL>/embeddings`; `digest` None: ask it as Ollama is asked."""

    base_url: str
    model: str
    digest: str | None = None
    dims: int | None = None

    def __str__(self) -> str:
        return f"openai:{self.base_url}#{self.model}"


EmbedderSpec = HashingSpec | FastembedSpec | FolderSpec | OpenAISpec


def parse_spec(text: str) -> EmbedderSpec:
    """Read the text that names an embedder; raise `InvalidSpec`."""
    head, *rest = text.strip().split(";")
    options = _Options(text, rest)
    kind, colon, target = head.partition(":")
    spec: EmbedderSpec
    if match := _HASHING.fullmatch(head):
        spec = HashingSpec(_whole(text, "dims", match[1], MAX_DIMS))
    elif kind == "fastembed" and target:
        spec = _fastembed(target, options)
    elif kind == "openai" and target:
        spec = _openai(text, target, options)
    else:
        known = f"unknown kind {kind!r}" if colon else "expected a kind"
        raise InvalidSpec(f"not an embedder: {text!r} ({known})", f"use one of: {_FORMS}")
    options.finish()
    return spec


def _fastembed(target: str, options: _Options) -> FastembedSpec | FolderSpec:
    threads = options.whole("threads", MAX_THREADS)
    if not target.startswith(("/", "./", "../", "~")) and target not in (".", ".."):
        return FastembedSpec(target, threads)
    pooling = options.text("pooling", 8)
    if pooling is not None and pooling not in get_args(Pooling):
        raise InvalidSpec(f"unknown pooling {pooling!r}", f"use one of: {', '.join(get_args(Pooling))}")
    folder = Path(target).expanduser()
    return FolderSpec(folder, options.text("name", MAX_MODEL_BYTES), pooling, threads)  # type: ignore[arg-type]


def _openai(text: str, target: str, options: _Options) -> OpenAISpec:
    base_url, _, model = target.partition("#")
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query:
        raise InvalidSpec(f"not an http(s) URL: {base_url!r}", f"use one of: {_FORMS}")
    if parts.username is not None or parts.password is not None:
        raise InvalidSpec("a URL with a password in it", "set ENGRAM_EMBEDDER_API_KEY instead")
    if not model or len(model.encode()) > MAX_MODEL_BYTES:
        raise InvalidSpec(f"no model after # in {text!r}", f"use one of: {_FORMS}")
    digest, dims = options.text("digest", MAX_DIGEST_BYTES), options.whole("dims", MAX_DIMS)
    return OpenAISpec(base_url.rstrip("/"), model, digest, dims)


class _Options:
    """The `key=value` pairs of a spec; each may be taken once, and all must be."""

    def __init__(self, spec: str, parts: list[str]) -> None:
        self._spec = spec
        self._values: dict[str, str] = {}
        for part in parts:
            key, equals, value = part.partition("=")
            if not equals or not value or key in self._values:
                raise InvalidSpec(f"an option must be key=value, once: {part!r}", f"in {spec!r}")
            self._values[key] = value

    def text(self, key: str, limit: int) -> str | None:
        value = self._values.pop(key, None)
        if value is not None and len(value.encode()) > limit:
            raise InvalidSpec(f"{key}: {len(value.encode())} bytes, at most {limit}")
        return value

    def whole(self, key: str, limit: int) -> int | None:
        value = self._values.pop(key, None)
        return None if value is None else _whole(self._spec, key, value, limit)

    def finish(self) -> None:
        if self._values:
            raise InvalidSpec(f"unknown option {next(iter(self._values))!r} in {self._spec!r}")


def _whole(spec: str, key: str, value: str, limit: int) -> int:
    if not (value.isascii() and value.isdigit()) or not 1 <= int(value[:6]) <= limit or len(value) > 6:
        reason = f"{key} must be a whole number from 1 to {limit}, not {value[:20]!r}"
        raise InvalidSpec(reason, f"in {spec!r}")
    return int(value)
