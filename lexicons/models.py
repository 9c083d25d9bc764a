"""The identity of an embedding model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from lexicons.errors import InvalidRecord
from lexicons.measures import utf8_length

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MODEL_BYTES: Final = 256  # garden.engram.defs#model
MAX_DIGEST_BYTES: Final = 256  # garden.engram.defs#model
MAX_DIMS: Final = 16_000  # garden.engram.defs#model


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A model as the triple (model, digest, dims); vectors compare only where all three are equal."""

    model: str
    digest: str
    dims: int

    def __post_init__(self) -> None:
        for field, value, limit in (
            ("model", self.model, MAX_MODEL_BYTES),
            ("modelDigest", self.digest, MAX_DIGEST_BYTES),
        ):
            if not isinstance(value, str) or not value:
                raise InvalidRecord(field, "must be a string that is not empty")
            size = utf8_length(value)
            if size > limit:
                raise InvalidRecord(field, f"{size} bytes, at most {limit}")
        if isinstance(self.dims, bool) or not isinstance(self.dims, int) or not 1 <= self.dims <= MAX_DIMS:
            raise InvalidRecord("dims", f"must be an integer from 1 to {MAX_DIMS}")

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> Self:
        """Read `{model, modelDigest, dims}` (other fields are ignored); raise `InvalidRecord`."""
        # What is absent or of another type is refused by the constructor.
        return cls(value.get("model"), value.get("modelDigest"), value.get("dims"))  # type: ignore[arg-type]

    def to_record(self) -> dict[str, Any]:
        """Write `{model, modelDigest, dims}`."""
        return {"model": self.model, "modelDigest": self.digest, "dims": self.dims}

    def __str__(self) -> str:
        return f"{self.model} ({self.digest}, {self.dims} dims)"
