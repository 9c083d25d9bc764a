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
        for field, value in (("text", self.text), ("source", self.source or ""), *_named(self.tags)):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Refused(f"{field}: not valid Unicode text", "give it as UTF-8") from None
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
        narrow = replace(self, tags=(*self.tags, tag))
        narrow.check()
        return narrow


def _named(tags: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(f"tags[{index}]", tag) for index, tag in enumerate(tags)]
