"""The `hashing-<dims>` model: vectors without a model, for tests and machines that have none.

Texts that share words get similar vectors, nothing more. Lower-case, split into runs of letters and numbers
(Unicode categories L* and N*), count each word in the bucket of its FNV-1a hash, scale to length 1.
"""

from __future__ import annotations

import re
from typing import Final

from lexicons.embeddings import normalise
from lexicons.models import ModelKey

DIGEST: Final = "sha256:hashing"
_OFFSET: Final = 0x811C9DC5  # FNV-1a, 32 bit
_PRIME: Final = 0x01000193  # FNV-1a, 32 bit
_WORD = re.compile(r"[^\W_]+")  # `\w` is L*, N* and the underscore
_NAME = re.compile(r"hashing-(0|[1-9][0-9]{0,9})", re.ASCII)


def model_key(dims: int) -> ModelKey:
    """Name the model of that many dimensions; raise `InvalidRecord` beyond 1 to 16,000."""
    return ModelKey(f"hashing-{dims}", DIGEST, dims)


def parse_name(model: str) -> ModelKey | None:
    """Read a model's name: None where it is another kind of model; raise `InvalidRecord` for its dims."""
    match = _NAME.fullmatch(model)
    return model_key(int(match[1])) if match else None


def embed(text: str, dims: int) -> tuple[float, ...]:
    """Embed a text as `dims` numbers of length 1. A text without words is `1, 0, 0, ...`."""
    counts = [0.0] * dims
    found = words(text)
    for word in found:
        counts[_fnv1a(word.encode("utf-8", "surrogatepass")) % dims] += 1.0
    if not found:
        counts[0] = 1.0
    return normalise(counts)


def words(text: str) -> list[str]:
    """Split a text into what is counted."""
    return _WORD.findall(text.lower())


def _fnv1a(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value
