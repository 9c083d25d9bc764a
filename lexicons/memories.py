"""The memory record: its value, what its tags mean, the text that is embedded, and what writers refuse."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from lexicons.embeddings import Embedding
from lexicons.errors import InvalidRecord
from lexicons.ids import MEMORY
from lexicons.measures import exceeds_bytes, exceeds_graphemes, grapheme_count, utf8_length
from lexicons.syntax import Did

MAX_TEXT_BYTES: Final = 30_000  # garden.engram.memory
MAX_TEXT_GRAPHEMES: Final = 10_000  # garden.engram.memory
MAX_TAGS: Final = 16  # garden.engram.memory
MAX_TAG_BYTES: Final = 128  # garden.engram.memory
MAX_TAG_GRAPHEMES: Final = 64  # garden.engram.memory
MAX_SOURCE_BYTES: Final = 2_000  # garden.engram.memory
MAX_EMBEDDED_TEXT_BYTES: Final = 24_000  # what of the text is embedded

ROOT_PATH: Final = "/"
# Attributes that only the appview or a space's rules may set. Writers refuse a tag that claims one; readers
# leave the claim out of a fact's attributes.
RESERVED_ATTRIBUTES: Final = frozenset({"owner", "trust"})
SPACE_ATTRIBUTE: Final = "space"  # narrows a memory to one space; routing, never a fact's attribute
_ATTRIBUTE_KEY = re.compile(r"[a-z][a-z0-9_.-]{0,31}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_INVISIBLE: Final = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})  # Unicode categories: spaces, controls, formats


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
        tags = value.get("tags", [])
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidRecord("tags", "must be an array of strings")
        return cls(text, created_at, embedding, _embedding(value, "nextEmbedding"), tuple(tags), source)

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
    """What a record's tags mean: its path, its attributes (the last of a key counts) and its labels.

    The attributes are what the record claims: `RESERVED_ATTRIBUTES` and `space` are among them, and are for
    the reader to leave out.
    """

    path: str
    attributes: Mapping[str, str]
    labels: tuple[str, ...]

    @property
    def space(self) -> str | None:
        """The authority whose space alone this memory is for, as written: compare it, it may be no DID.

        What is no DID equals no authority, so that a misspelt narrowing keeps a memory out of every space
        rather than letting it into all.
        """
        return self.attributes.get(SPACE_ATTRIBUTE)


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
    """Write a path in its one form: `/`, no empty segments, no trailing `/`, no control characters.

    Everything else is part of a name: case, dots (`.` and `..` lead nowhere), spaces, `%2f`, `*`.
    """
    segments = [segment for segment in _CONTROL.sub("", path).split("/") if segment]
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
    try:
        return Embedding.from_record(inner)
    except InvalidRecord as error:
        raise error.under(field) from None


def is_blank(text: str) -> bool:
    """Tell whether a text shows nothing: only spaces, control and format characters (NUL, zero-width, BOM).

    Such a text is never indexed. Variation selectors and combining marks count as shown.
    """
    return all(unicodedata.category(char) in _INVISIBLE for char in text)


def check_new(text: str, tags: Sequence[str] = (), source: str | None = None) -> None:
    """Refuse what a writer must not publish; raise `InvalidRecord` with the limit and the actual size.

    Stricter than the lexicon: readers take every record that satisfies it, but a writer can still be told.
    """
    _check_text("text", text, MAX_TEXT_BYTES, MAX_TEXT_GRAPHEMES)
    if is_blank(text):
        raise InvalidRecord("text", "is blank")
    if len(tags) > MAX_TAGS:
        raise InvalidRecord("tags", f"{len(tags)} tags, at most {MAX_TAGS}")
    for position, tag in enumerate(tags):
        _check_tag(f"tags[{position}]", tag)
    if source is not None:
        _check_text("source", source, MAX_SOURCE_BYTES)


def _check_tag(field: str, tag: str) -> None:
    _check_text(field, tag, MAX_TAG_BYTES, MAX_TAG_GRAPHEMES)
    if is_blank(tag):
        raise InvalidRecord(field, "is blank")
    if _CONTROL.search(tag):
        raise InvalidRecord(field, "holds a control character")
    key, equals, value = tag.partition("=")
    key = key.strip().lower()  # `Owner =` is no attribute, but it would be read as one
    if equals and key in RESERVED_ATTRIBUTES:
        raise InvalidRecord(field, f"the attribute {key} is reserved: a record cannot set it")
    if equals and key == SPACE_ATTRIBUTE and not (tag.startswith("space=") and Did.is_valid(value)):
        raise InvalidRecord(field, "space= must name the DID of a space's authority")


def _check_text(field: str, text: str, max_bytes: int, max_graphemes: int | None = None) -> None:
    if exceeds_bytes(text, max_bytes):
        raise InvalidRecord(field, f"{utf8_length(text)} bytes, at most {max_bytes}")
    if max_graphemes is not None and exceeds_graphemes(text, max_graphemes):
        raise InvalidRecord(field, f"{grapheme_count(text)} graphemes, at most {max_graphemes}")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidRecord(field, "holds a lone surrogate, which is no character")
