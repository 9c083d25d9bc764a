"""Between a change of the rules and the index that follows it: what the index still holds by rights that are
gone.

Rules decide what is indexed, and ingest takes out what they do not let in any more, but not in the same
moment. A reader must not see the difference. Whose right to write in a space is gone is left out of what
readers see from the moment of the change. Where a right has shrunk and is not gone, only the index knows
which records that concerns: readers of that space wait until it has followed, for `SETTLE_SECONDS` at most;
then they are told to come again, until `REFUSE_SECONDS` after the change: an index that has not followed by
then cannot, and must not keep its space out of reach for good.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.access.errors import NotFollowed
from appview.memory.scope import reads_attributes
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from appview.access.policy import Authors, Policy
    from appview.control import Control
    from appview.memory.scope import Scope
    from lexicons.spaces import SpaceUri

SETTLE_SECONDS: Final = 1.0  # ours: after a change, how long readers wait for the index to follow
REFUSE_SECONDS: Final = 30.0  # ours: after a change, how long readers are refused while it has not
_NOBODY: Final[frozenset[Did]] = frozenset()


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one moment."""

    version: int
    policy: Policy


class Withheld:
    """What readers are not shown of what the index holds. One a process."""

    def __init__(self, control: Control, rules: Rules) -> None:
        # Wakes whoever makes the index follow. None where nobody does, so that there is nothing to wait for.
        self.wake: Callable[[], None] | None = None
        self._control = control
        self._rules = rules
        self._changed_at = asyncio.get_running_loop().time()
        self._followed: Rules | None = None
        self._news = asyncio.Event()  # the index has followed
        self._known: dict[SpaceUri, tuple[frozenset[Did], bool]] = {}  # authors; whether readers wait

    def change(self, rules: Rules) -> None:
        """Take note of the rules that are in force from now on."""
        self._rules = rules
        self._changed_at = asyncio.get_running_loop().time()
        self._known.clear()

    def follow(self, rules: Rules) -> None:
        """Take note that the index holds nothing any more that these rules do not let in."""
        self._followed = rules
        self._known.clear()
        self._news.set()
        self._news = asyncio.Event()

    async def authors(self, space: SpaceUri) -> frozenset[Did]:
        """Name the authors of whom readers of a space are shown nothing, by the rules of this moment.

        Raises `NotFollowed` where the index may hold what readers must not see, and is late.
        """
        while True:
            rules = self._rules
            authors, waits = self._known.get(space) or await self._look(space, rules)
            if not waits or self.wake is None:
                return authors
            if not await self._settled(self.wake):
                if asyncio.get_running_loop().time() < self._changed_at + REFUSE_SECONDS:
                    raise NotFollowed("the space's index does not follow its rules yet")
                return authors

    async def _settled(self, wake: Callable[[], None]) -> bool:
        """Wait for the index; False where that takes too long."""
        wake()
        news = self._news
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._changed_at + SETTLE_SECONDS):
                await news.wait()
                return True
        return False

    async def _look(self, space: SpaceUri, rules: Rules) -> tuple[frozenset[Did], bool]:
        now = rules.policy.authors(space)
        held = [] if _may_all(now) else await self._control.authors(space)
        authors = frozenset(Did(did) for did in held if now.of(did).is_nothing) or _NOBODY
        shrunk = self.wake is not None and self._has_shrunk(held, now, space, rules)
        if self._rules is rules:
            self._known[space] = (authors, shrunk)
        return authors, shrunk

    def _has_shrunk(self, held: Iterable[str], now: Authors, space: SpaceUri, rules: Rules) -> bool:
        """Tell whether the index may hold what an author wrote by a larger right than it has now."""
        if self._followed is not None and self._followed.version >= rules.version:
            return False
        partly = {did: scope for did in held if _is_part(scope := now.of(did))}
        if not partly or self._followed is None:
            return bool(partly)
        before = self._followed.policy.authors(space)
        # Most may write the same, and that is dear to compare where it is thousands of patterns.
        changes = {(before.of(did), scope) for did, scope in partly.items()}
        return any(old != new or reads_attributes(new) for old, new in changes)


def _may_all(authors: Authors) -> bool:
    """Tell whether every account may write everything: nobody's right is gone, or has shrunk."""
    return authors.others.is_everything and all(each.is_everything for each in authors.named.values())


def _is_part(scope: Scope) -> bool:
    return not scope.is_everything and not scope.is_nothing
