"""A memory before it is published, checked against every limit before anything is spent on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lexicons.datetimes import Datetime
from lexicons.errors import ContractError
from lexicons.memories import MAX_TAG_GRAPHEMES, SPACE_ATTRIBUTE, check_new
from lexicons.syntax import Did, Tid
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
            raise Refused(f"{error}{self._about_links()}") from None

    def _about_links(self) -> str:
        """Say why a link is refused that names a record of an account with a long DID."""
        for tag in self.tags:
            relation, _, target = tag.partition("=")
            did, slash, rkey = target.partition("/")
            if slash and Did.is_valid(did) and Tid.is_valid(rkey) and len(tag) > MAX_TAG_GRAPHEMES:
                most = MAX_TAG_GRAPHEMES - (len(tag) - len(did))
                return (
                    f"; {relation}= can name a record of an account whose DID has at most {most} characters,"
                    f" this one has {len(did)}: mention the record in the text, as at://..."
                )
        return ""

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
