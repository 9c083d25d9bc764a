"""The config record: a space's model, and the four changes it can go through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from lexicons.errors import InvalidChange, InvalidRecord
from lexicons.ids import CONFIG
from lexicons.measures import utf8_length
from lexicons.models import ModelKey

MAX_PREFIX_BYTES: Final = 200  # garden.engram.config
NOMIC_PREFIXES: Final = ("search_document: ", "search_query: ")  # what nomic-embed-text was trained with


@dataclass(frozen=True, slots=True)
class Config:
    """What an authority's config record declares. `next` never equals `model`."""

    model: ModelKey
    created_at: str
    next: ModelKey | None = None
    document_prefix: str = ""
    query_prefix: str = ""

    @classmethod
    def declare(
        cls,
        model: ModelKey,
        *,
        created_at: str,
        document_prefix: str | None = None,
        query_prefix: str | None = None,
    ) -> Self:
        """Declare a model, replacing everything before it; `nomic-embed-text*` gets its own prefixes."""
        if document_prefix is None and query_prefix is None and model.model.startswith("nomic-embed-text"):
            document_prefix, query_prefix = NOMIC_PREFIXES
        return cls(
            model,
            created_at,
            document_prefix=_prefix("documentPrefix", document_prefix or ""),
            query_prefix=_prefix("queryPrefix", query_prefix or ""),
        )

    def with_next(self, model: ModelKey) -> Config:
        """Announce the model to change to; raise `InvalidChange` when it is the present one."""
        if model == self.model:
            raise InvalidChange("the next model is the same as the present one")
        return replace(self, next=model)

    def promote(self) -> Config:
        """Make the next model the model; raise `InvalidChange` without one."""
        if self.next is None:
            raise InvalidChange("there is no next model to promote")
        return replace(self, model=self.next, next=None)

    def cancel(self) -> Config:
        """Drop the next model; raise `InvalidChange` without one."""
        if self.next is None:
            raise InvalidChange("there is no next model to cancel")
        return replace(self, next=None)

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> Self:
        """Read a config record; raise `InvalidRecord`."""
        model = ModelKey.from_record(value)
        created_at = value.get("createdAt")
        if not isinstance(created_at, str):
            raise InvalidRecord("createdAt", "must be a string")
        following = value.get("next")
        if following is not None and not isinstance(following, Mapping):
            raise InvalidRecord("next", "must be an object")
        after = _model(following, "next") if following is not None else None
        return cls(
            model,
            created_at,
            next=None if after == model else after,
            document_prefix=_prefix("documentPrefix", value.get("documentPrefix", "")),
            query_prefix=_prefix("queryPrefix", value.get("queryPrefix", "")),
        )

    def to_record(self) -> dict[str, Any]:
        """Write the config record; empty optional fields are left out."""
        record: dict[str, Any] = {"$type": str(CONFIG), **self.model.to_record()}
        if self.document_prefix:
            record["documentPrefix"] = self.document_prefix
        if self.query_prefix:
            record["queryPrefix"] = self.query_prefix
        if self.next is not None:
            record["next"] = self.next.to_record()
        record["createdAt"] = self.created_at
        return record


def _model(value: Mapping[str, Any], field: str) -> ModelKey:
    try:
        return ModelKey.from_record(value)
    except InvalidRecord as error:
        raise error.under(field) from None


def _prefix(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidRecord(field, "must be a string")
    size = utf8_length(value)
    if size > MAX_PREFIX_BYTES:
        raise InvalidRecord(field, f"{size} bytes, at most {MAX_PREFIX_BYTES}")
    return value
