"""Accounts that no rule names and that write where everyone may: noticed by their events, then followed.

An event proves nothing, so all it leads to is a look at the account's whole repo, as for a member. Whoever
has something in such a space is remembered by that (as a pair to be filled, in control.db) and followed from
then on; whoever has not is forgotten, and not looked at again for a while. Whoever is followed for another
reason may write there too.

Invariants: where no space is open to everyone an event costs nothing but a look at the version of the rules;
what is written after a rule is judged by that rule, followed yet or not; only so many strangers are followed,
and, by the same rules, an account is looked at in vain at most once in `AGAIN`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from appview.ingest.car import read_car
from appview.ingest.claims import ClaimEvent
from appview.ingest.errors import Rejected
from appview.ingest.route import judge_memory, targets
from appview.memory.values import Put
from lexicons.ids import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from appview.access.policy import Authors
    from appview.access.withheld import Rules
    from appview.clock import Clock
    from appview.ingest.frames import CommitEvent
    from appview.memory.scope import Scope
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

MAX_STRANGERS: Final = 10_000  # ours: that are followed, or are about to be
AGAIN: Final = 600 * 1_000_000  # microseconds after a look in vain
_PREFIX: Final = f"{MEMORY}/"


class Strangers:
    """Who is noticed, and where everyone may write. `rules` gives those of the moment."""

    def __init__(self, rules: Callable[[], Rules], clock: Clock) -> None:
        self.refused = 0  # for want of room
        self._rules = rules
        self._clock = clock
        self._spaces: tuple[SpaceUri, ...] = ()
        self._open: dict[SpaceUri, Authors] = {}
        self._version: int | None = None  # of the rules that say so
        self._followed = 0
        self._noticed: dict[Did, None] = {}
        self._in_vain: OrderedDict[Did, int] = OrderedDict()

    @property
    def noticed(self) -> bool:
        """Whether somebody is to be followed."""
        return bool(self._noticed)

    def writers(
        self,
        spaces: Iterable[SpaceUri],
        pairs: Iterable[tuple[SpaceUri, Did]],
        named: frozenset[Did],
        unexplained: Iterable[Did],
    ) -> dict[SpaceUri, set[Did]]:
        """Tell who may be writing to spaces that are open to everyone: whom rules name somewhere, who had a
        pair there, and of whom is not known why they are noted: because they were noticed, as a rule."""
        self._spaces, self._version = tuple(spaces), None
        everywhere = {*named, *self._noticed, *unexplained}
        self._noticed.clear()
        found = {space: set(everywhere) for space in self._opened()}
        for space, did in pairs:
            if space in found:
                found[space].add(did)
        self._followed = len(set().union(*found.values()) - named)
        return found

    def notice(self, did: Did, event: CommitEvent | ClaimEvent) -> bool:
        """Look at what an account that is not followed claims to have written: is it to be followed?"""
        opened = self._opened()
        if not opened or did in self._noticed or self._was_in_vain(did):
            return did in self._noticed
        scopes = {space: authors.of(did) for space, authors in opened.items()}
        if not any(_would_go(did, rkey, block, scopes) for rkey, block in _memories(event)):
            return False
        if self._followed + len(self._noticed) >= MAX_STRANGERS:
            self.refused += 1
            return False
        self._noticed[did] = None
        return True

    def dismiss(self, did: Did) -> None:
        """Note that a look at an account was in vain."""
        self._in_vain[did] = self._clock()
        self._in_vain.move_to_end(did)
        while len(self._in_vain) > MAX_STRANGERS:
            self._in_vain.popitem(last=False)

    def _opened(self) -> Mapping[SpaceUri, Authors]:
        """Give the spaces where everyone may write by the rules of this moment."""
        rules = self._rules()
        if rules.version != self._version:
            self._version = rules.version
            found = {space: rules.policy.authors(space) for space in self._spaces}
            found = {space: authors for space, authors in found.items() if not authors.others.is_nothing}
            if found != self._open:
                self._in_vain.clear()  # what was in vain may count now
            self._open = found
        return self._open

    def _was_in_vain(self, did: Did) -> bool:
        at = self._in_vain.get(did)
        return at is not None and 0 <= self._clock() - at < AGAIN


def _memories(event: CommitEvent | ClaimEvent) -> Iterator[tuple[str, bytes | None]]:
    """Read the memories that an event claims were written: record key and bytes, None where it has none."""
    if isinstance(event, ClaimEvent):
        if event.collection == MEMORY and event.cid is not None:
            yield event.rkey, event.record
        return
    written = [op for op in event.ops if op.cid is not None and op.path.startswith(_PREFIX)]
    try:
        blocks: Mapping[bytes, bytes] = read_car(event.blocks).blocks if written else {}
    except Rejected:
        return
    for op in written:
        block = blocks.get(op.cid or b"")
        if block is not None:
            yield op.path.removeprefix(_PREFIX), block


def _would_go(did: Did, rkey: str, block: bytes | None, scopes: Mapping[SpaceUri, Scope]) -> bool:
    if block is None:
        return True
    judged = judge_memory(rkey, "", block)
    return isinstance(judged.change, Put) and bool(targets(did, judged.topics, scopes))
