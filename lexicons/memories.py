"""The memory record, what its tags mean, and the text that is embedded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from lexicons.embeddings import Embedding
from lexicons.errors import InvalidRecord
from lexicons.ids import MEMORY

MAX_TEXT_BYTES: Final = 30_000  # garden.engram.memory
MAX_TEXT_GRAPHEMES: Final = 10_000  # garden.engram.memory
MAX_TAGS: Final = 16  # garden.engram.memory
MAX_TAG_BYTES: Final = 128  # garden.engram.memory
MAX_TAG_GRAPHEMES: Final = 64  # garden.engram.memory
MAX_SOURCE_BYTES: Final = 2_000  # garden.engram.memory
MAX_EMBEDDED_TEXT_BYTES: Final = 24_000  # what of the text is embedded

ROOT_PATH: Final = "/"
# Attributes that only the appview or a space's rules may set; a record that claims one is refused by writers
# and the claim is ignored by readers.
RESERVED_ATTRIBUTES: Final = frozenset({"owner", "trust"})
SPACE_ATTRIBUTE: Final = "space"  # narrows a memory to one space; routing, not an attribute
_ATTRIBUTE_KEY = re.compile(r"[a-z][a-z0-9_.-]{0,31}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory record's value. Vectors are held as published and not judged."""

    text: str
    created_at: str
    embedding: Embedding
    next_embedding: Embedding | None = None
    tags: tuple[str, ...] = ()
    source: str | None = None

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> Self:
        """Read a record that satisfies its lexicon; raise `InvalidRecord` where it does not."""
        text, created_at, source = value.get("text"), value.get("createdAt"), value.get("source")
        if not isinstance(text, str) or not isinstance(created_at, str):
            raise InvalidRecord("text" if not isinstance(text, str) else "createdAt", "must be a string")
        if source is not None and not isinstance(source, str):
            raise InvalidRecord("source", "must be a string")
        embedding = _embedding(value, "embedding")
        if embedding is None:
            raise InvalidRecord("embedding", "is required")
        tags = value.get("tags")
        return cls(
            text,
            created_at,
            embedding,
            _embedding(value, "nextEmbedding"),
            tuple(tags) if tags else (),
            source,
        )

    def to_record(self) -> dict[str, Any]:
        """Write the record, bytes as `bytes`; empty optional fields are left out."""
        record: dict[str, Any] = {"$type": str(MEMORY), "text": self.text, "createdAt": self.created_at}
        record["embedding"] = self.embedding.to_record()
        if self.next_embedding is not None:
            record["nextEmbedding"] = self.next_embedding.to_record()
        if self.tags:
            record["tags"] = list(self.tags)
        if self.source is not None:
            record["source"] = self.source
        return record


@dataclass(frozen=True, slots=True)
class Topics:
    """What a record's tags mean: its path, its attributes (the last of a key counts) and its labels."""

    path: str
    attributes: Mapping[str, str]
    labels: tuple[str, ...]


def read_tags(tags: Sequence[str]) -> Topics:
    """Sort a record's tags: the first that starts with `/` is the path, `key=value` with a valid key an
    attribute, everything else a label."""
    path: str | None = None
    attributes: dict[str, str] = {}
    labels: list[str] = []
    for tag in tags:
        if tag.startswith("/"):
            if path is None:
                path = normalise_path(tag)
            else:
                labels.append(tag)
            continue
        key, equals, value = tag.partition("=")
        if equals and _ATTRIBUTE_KEY.fullmatch(key):
            attributes[key] = value
        else:
            labels.append(tag)
    return Topics(path or ROOT_PATH, attributes, tuple(dict.fromkeys(labels)))


def normalise_path(path: str) -> str:
    """Write a path in its one form: no empty segments, no trailing `/`. Case is kept, dots mean nothing."""
    segments = [segment for segment in path.split("/") if segment]
    return "/" + "/".join(segments)


def is_attribute_key(key: str) -> bool:
    """Tell whether `key` may name an attribute: lower-case letter, then up to 31 of `a-z 0-9 _ . -`."""
    return _ATTRIBUTE_KEY.fullmatch(key) is not None


def text_to_embed(prefix: str, text: str, tags: Sequence[str] = ()) -> str:
    """Join what a memory's vector is made from: prefix, the first 24,000 bytes of text, the tags."""
    cut = text
    if len(text) * 4 > MAX_EMBEDDED_TEXT_BYTES:
        cut = text.encode()[:MAX_EMBEDDED_TEXT_BYTES].decode(errors="ignore")
    return prefix + cut + (f"\n\nTags: {', '.join(tags)}" if tags else "")


def _embedding(value: Mapping[str, Any], field: str) -> Embedding | None:
    inner = value.get(field)
    if inner is None:
        return None
    if not isinstance(inner, Mapping):
        raise InvalidRecord(field, "must be an object")
    return Embedding.from_record(inner)
