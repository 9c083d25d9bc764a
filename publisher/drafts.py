"""A memory before it is published, checked against every limit before anything is spent on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lexicons.datetimes import Datetime
from lexicons.errors import ContractError
from lexicons.memories import SPACE_ATTRIBUTE, check_new
from lexicons.syntax import Tid
from publisher.errors import Refused


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory to publish. `created_at` and `rkey` are chosen at publishing where they are not given."""

    text: str
    tags: tuple[str, ...] = ()
    source: str | None = None
    created_at: str | None = None
    rkey: str | None = None

    def check(self) -> None:
        """Refuse what no reader would index; raise `Refused` with the limit and the actual size."""
        try:
            check_new(self.text, self.tags, self.source)
            if self.created_at is not None:
                Datetime(self.created_at)
            if self.rkey is not None:
                Tid(self.rkey)
        except ContractError as error:
            raise Refused(str(error)) from None

    def narrowed(self, authority: str) -> Draft:
        """Keep the memory to the space of one authority; raise `Refused` where no tag is left for that."""
        tag = f"{SPACE_ATTRIBUTE}={authority}"
        if tag in self.tags:
            return self
        others = [each for each in self.tags if each.startswith(f"{SPACE_ATTRIBUTE}=")]
        if others:
            raise Refused(f"tags: {others[0]} keeps the memory to another space")
        narrow = replace(self, tags=(*self.tags, tag))
        narrow.check()
        return narrow
