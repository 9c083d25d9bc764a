"""Spaces that an author has only just got to write to: filled from the whole repo, while the repo goes on.

The author's other spaces do not wait. What the repo changes meanwhile is held here for the new space, and is
applied after the repo as it was. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appview.memory.values import RepoUpdate
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

MAX_HELD_BYTES: Final = 8_000_000  # records of one author; beyond, the repo is fetched anew
MAX_HELD_COMMITS: Final = 2_000


@dataclass(slots=True)
class _Author:
    spaces: set[SpaceUri] = field(default_factory=set)
    since: str | None = None  # the last rev that went by before anything was held
    held: list[Mapping[SpaceUri, RepoUpdate]] = field(default_factory=list)
    bytes: int = 0


class Pending:
    """For each author, the spaces to be filled and what is held for them."""

    def __init__(self) -> None:
        self._authors: dict[Did, _Author] = {}

    @property
    def authors(self) -> frozenset[Did]:
        """Who has a space to be filled."""
        return frozenset(self._authors)

    def spaces(self, did: Did) -> frozenset[SpaceUri]:
        """Which spaces are to be filled from this author's repo."""
        author = self._authors.get(did)
        return frozenset(author.spaces) if author is not None else frozenset()

    def begin(self, did: Did, space: SpaceUri, rev: str | None) -> None:
        """Hold back a space; `rev` is the last rev of the repo that was handed on."""
        author = self._authors.setdefault(did, _Author(since=rev))
        if space not in author.spaces:
            # What was held does not go back far enough for this space.
            author.spaces.add(space)
            author.since, author.bytes = rev, 0
            author.held.clear()

    def hold(self, did: Did, updates: Mapping[SpaceUri, RepoUpdate], size: int) -> None:
        """Keep one commit's updates. Too many of them are given up: a later fetch will have them."""
        author = self._authors[did]
        revs = [update.rev for update in updates.values()]
        if not revs:
            return
        author.held.append(updates)
        author.bytes += size
        if author.bytes > MAX_HELD_BYTES or len(author.held) > MAX_HELD_COMMITS:
            author.held.clear()
            author.since, author.bytes = revs[0], 0

    def reaches(self, did: Did, rev: str) -> bool:
        """Tell whether the repo as of `rev` and what is held leave no hole between them."""
        author = self._authors.get(did)
        return author is None or author.since is None or rev >= author.since

    def finish(self, did: Did) -> list[Mapping[SpaceUri, RepoUpdate]]:
        """Give what was held, in order, and hold nothing back any more."""
        author = self._authors.pop(did, None)
        return author.held if author is not None else []

    def drop(self, did: Did, space: SpaceUri | None = None) -> None:
        """Forget an author, or one space of it."""
        author = self._authors.get(did)
        if author is None:
            return
        author.spaces.discard(space) if space is not None else author.spaces.clear()
        if not author.spaces:
            del self._authors[did]
