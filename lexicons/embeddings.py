"""The `f16le` embedding: records, query parameters and unit vectors.

A vector travels as little-endian IEEE 754 binary16, two bytes a dimension, rounded to nearest even.
Writers normalise before they encode; readers normalise again, because binary16 loses a little.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from lexicons.errors import InvalidRecord, UnusableVector
from lexicons.models import MAX_DIMS, ModelKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENCODING: Final = "f16le"
MAX_VECTOR_BYTES: Final = 2 * MAX_DIMS  # garden.engram.defs#embedding
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector with the model that made it, as published: `vector` is `2 * key.dims` bytes of f16le."""

    key: ModelKey
    vector: bytes
    encoding: str = ENCODING

    @classmethod
    def of(cls, key: ModelKey, values: Sequence[float]) -> Self:
        """Normalise and encode `key.dims` numbers; raise `UnusableVector`."""
        if len(values) != key.dims:
            raise UnusableVector(f"{len(values)} dimensions, the model has {key.dims}")
        return cls(key, encode_f16le(normalise(values)))

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> Self:
        """Read a decoded record's embedding object; raise `InvalidRecord`. The vector is not judged."""
        vector, encoding = value.get("vector"), value.get("encoding")
        if not isinstance(vector, bytes):
            raise InvalidRecord("vector", "must be bytes")
        if not isinstance(encoding, str):
            raise InvalidRecord("encoding", "must be a string")
        return cls(ModelKey.from_record(value), vector, encoding)

    def to_record(self) -> dict[str, Any]:
        """Write the embedding object of a record, bytes as `bytes`."""
        return {**self.key.to_record(), "encoding": self.encoding, "vector": self.vector}

    def unit_vector(self) -> tuple[float, ...]:
        """Read the vector at length 1; raise `UnusableVector`."""
        if self.encoding != ENCODING:
            raise UnusableVector(f"unknown encoding: {self.encoding[:40]!r}")
        return decode_unit_vector(self.vector, self.key.dims)


def encode_f16le(values: Sequence[float]) -> bytes:
    """Encode numbers as f16le, unchanged but for rounding; raise `UnusableVector` where one does not fit."""
    try:
        return struct.pack(f"<{len(values)}e", *values)
    except (OverflowError, struct.error) as error:
        raise UnusableVector(f"a value does not fit binary16: {error}") from None


def decode_f16le(data: bytes) -> tuple[float, ...]:
    """Decode f16le to numbers; raise `UnusableVector` on an odd length."""
    if len(data) % 2:
        raise UnusableVector(f"{len(data)} bytes is not a whole number of binary16 values")
    return struct.unpack(f"<{len(data) // 2}e", data)


def normalise(values: Sequence[float]) -> tuple[float, ...]:
    """Scale to length 1; raise `UnusableVector` for NaN, infinity and the zero vector."""
    length = math.hypot(*values)
    if not math.isfinite(length):
        raise UnusableVector("the vector holds NaN or infinity")
    if length == 0.0:
        raise UnusableVector("the vector is zero")
    if length < sys.float_info.min:  # so small that the length itself has lost digits
        return normalise([value * 2.0**600 for value in values])
    return tuple([value / length for value in values])


def decode_unit_vector(data: bytes, dims: int) -> tuple[float, ...]:
    """Decode f16le of exactly `dims` dimensions to a vector of length 1; raise `UnusableVector`."""
    if len(data) != 2 * dims:
        raise UnusableVector(f"{len(data)} bytes, {dims} dimensions take {2 * dims}")
    return normalise(struct.unpack(f"<{dims}e", data))


def encode_query_vector(data: bytes) -> str:
    """Write f16le bytes as a query parameter: base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_query_vector(text: str) -> bytes:
    """Read a query parameter's f16le bytes; raise `UnusableVector` for anything but base64url."""
    bare = text.rstrip("=")
    if not _BASE64URL.fullmatch(bare) or len(text) - len(bare) > 2:
        raise UnusableVector("the vector is not base64url")
    try:
        return urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        raise UnusableVector("the vector is not base64url") from None
