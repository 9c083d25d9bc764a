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


def now() -> str:
    """Write the present moment as records have it."""
    return str(Datetime.from_micros(time.time_ns() // 1000))
