"""What an authority may write as its space's config. Pure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lexicons.configs import Config
from lexicons.datetimes import Datetime
from lexicons.errors import ContractError, InvalidChange
from publisher.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from lexicons.models import ModelKey
    from publisher.reembedding import Coverage
    from publisher.spaces import Space


def declaration(
    space: Space, key: ModelKey, *, document_prefix: str | None, query_prefix: str | None, replace: bool
) -> Config:
    """Declare a model; raise `Refused` where another one would be replaced without `replace`."""
    if space.config is not None and space.config.model != key and not replace:
        raise Refused(
            f"the space's model is {space.config.model}; what was published with it would not be found",
            "change it without a gap with --next and --promote, or replace it with --set --replace",
        )
    try:
        return Config.declare(
            key, created_at=now(), document_prefix=document_prefix, query_prefix=query_prefix
        )
    except ContractError as error:
        raise Refused(str(error)) from None


def changed(space: Space, change: Callable[[Config], Config]) -> Config:
    """Apply one of the config's changes; raise `Refused` where it makes no sense."""
    try:
        return change(space.declared())
    except InvalidChange as error:
        raise Refused(str(error), "see `engram-publisher model`") from None


def announced(space: Space, key: ModelKey) -> Config:
    """Announce the next model; raise `Refused` where it is the present one."""
    if key == space.declared().model:
        raise Refused(
            f"the next model is the same as the present one: {key}",
            "name the model to change to with --next-embedder or ENGRAM_NEXT_EMBEDDER "
            "(with --embedder, where the present one is not at hand)",
        )
    return changed(space, lambda config: config.with_next(key))


def promoted(space: Space, own: Coverage, *, force: bool) -> Config:
    """Make the next model the model; raise `Refused` where memories of the account would be lost unasked."""
    config = changed(space, Config.promote)
    if own.lacking and not force:
        raise Refused(
            f"{own.lacking} of this account's {own.memories} memories have no vector of {own.model} "
            "and would no longer be found",
            "give them one with `engram-publisher reembed --next-embedder <the next model>` "
            "(every author for its own), or lose them with --promote --force",
        )
    return config


def now() -> str:
    """Write the present moment as records have it."""
    return str(Datetime.from_micros(time.time_ns() // 1000))
