"""What is to be written, shared between authors: what a change costs, whose turn it is, who has enough open.

Costs are in characters to be analysed, up to two microseconds each, so that they add up to how long a
transaction takes at worst. Pure.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from appview.memory.complete import CHANGE_COST, cost
from appview.memory.values import RepoUpdate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from appview.memory.complete import Merge
    from appview.memory.values import Change, Update
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

# Ours: cost of what is written of one commit at once, 0.8 s at worst: 200 records of 1,900 characters.
MAX_PIECE: Final = 400_000
MAX_TRANSACTION: Final = 1_000_000  # ours: cost of what is written at once, where that goes quickly
MIN_TRANSACTION: Final = 100_000  # and where it does not, but for one piece
MAX_WHOLE: Final = 1_000_000  # ours: cost of a whole repo that is written at once; 2 s at worst
WRITE_SECONDS: Final = (
    0.4  # ours: how long a transaction is to take; whoever comes meanwhile waits for its end
)
AUTHOR_SHARE: Final = 600_000  # ours: open cost of an author, beyond which the author's commits wait
SPACE_SHARE: Final = 1_500_000  # ours: of a space, beyond which those of its authors with anything open wait
WHOLE: Final = 5_000_000  # ours: of everybody, beyond which those of all authors with anything open wait


@dataclass(slots=True)
class Piece:
    """What is written at once of what one commit changes in a space. `room`: what it takes of the shares.

    What is complete is not in memory: it takes no room, and is written alone: at once, or where that would
    take long, bit by bit; `merge` is how far that is.
    """

    update: Update
    cost: int
    room: int
    merge: Merge | None = None
    written: Callable[[], None] = lambda: None  # called when it is

    @property
    def is_complete(self) -> bool:
        """Tell whether it is all that an author has."""
        return isinstance(self.update, RepoUpdate) and self.update.complete


def pieces(update: Update) -> Iterator[Piece]:
    """Take an update apart into what is written at once; the last piece moves the author's rev."""
    if not isinstance(update, RepoUpdate):
        yield Piece(update, CHANGE_COST, CHANGE_COST)
        return
    if update.complete:
        yield Piece(update, min(MAX_PIECE, CHANGE_COST * (1 + len(update.changes))), 0)
        return
    part: list[Change] = []
    total = CHANGE_COST
    for change in update.changes:
        price = cost(change)
        if part and total + price > MAX_PIECE:
            yield Piece(replace(update, changes=tuple(part), partial=True), total, total)
            part, total = [], CHANGE_COST
        part.append(change)
        total += price
    whole = len(part) == len(update.changes)
    yield Piece(update if whole else replace(update, changes=tuple(part)), total, total)


class FairQueue:
    """Pieces of many authors: each author's in order, and of the authors the one who is due first.

    A piece is due when its author would be done with it if all who wait were served side by side, each as
    fast as the others. So who asks for little now and then hardly waits for who asks for much all the time,
    and nobody who waits is passed by for ever.
    """

    def __init__(self) -> None:
        self._lines: dict[Did, deque[Piece]] = {}
        self._due: list[tuple[float, int, Did]] = []
        self._now = 0.0  # what each author who waits all the time has had
        self._added = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, piece: Piece, *, first: bool = False) -> None:
        """Add a piece behind those of its author, or (one of which something is left) before them."""
        author = piece.update.author
        line = self._lines.get(author)
        if line is None:
            self._lines[author] = deque([piece])
            self._line_up(author, self._now + piece.cost)
        elif first:
            line.appendleft(piece)
        else:
            line.append(piece)

    def take(self, most: int, cost: int) -> list[Piece]:
        """Take what is due first: one piece, and more up to so many and so much; what is complete, alone."""
        taken: list[Piece] = []
        while self._due and len(taken) < most:
            due, _, author = self._due[0]
            line = self._lines[author]
            piece = line[0]
            if taken and (piece.cost > cost or piece.is_complete):
                break
            heappop(self._due)
            line.popleft()
            taken.append(piece)
            cost -= piece.cost
            self._now += piece.cost / len(self._lines)
            if line:
                self._line_up(author, due + line[0].cost)
            else:
                del self._lines[author]
            if piece.is_complete:
                break
        return taken

    def _line_up(self, author: Did, due: float) -> None:
        self._added += 1
        heappush(self._due, (due, self._added, author))


class TransactionSize:
    """How much to write in one transaction of a space: as much as goes quickly."""

    def __init__(self) -> None:
        self.cost = MAX_PIECE

    def took(self, cost: int, seconds: float) -> None:
        """Learn from a transaction."""
        if seconds > WRITE_SECONDS:
            self.cost = max(MIN_TRANSACTION, min(self.cost, int(cost * WRITE_SECONDS / seconds)))
        elif cost * 2 > self.cost:
            self.cost = min(MAX_TRANSACTION, self.cost * 2)


class Shares:
    """Who has how much open: taken, and not written yet."""

    def __init__(self) -> None:
        self.total = 0
        self._authors: dict[Did, Counter[SpaceUri]] = {}
        self._spaces: Counter[SpaceUri] = Counter()

    def open(self, author: Did, space: SpaceUri, cost: int) -> None:
        """Take note that something was taken."""
        if not cost:
            return
        self._authors.setdefault(author, Counter())[space] += cost
        self._spaces[space] += cost
        self.total += cost

    def close(self, author: Did, space: SpaceUri, cost: int) -> None:
        """Take note that it was written."""
        if not cost:
            return
        self.total -= cost
        own = self._authors[author]
        for counts, key in ((own, space), (self._spaces, space)):
            counts[key] -= cost
            if not counts[key]:
                del counts[key]
        if not own:
            del self._authors[author]

    def is_full(self, author: Did) -> bool:
        """Tell whether an author has enough open. Who has nothing open never has."""
        own = self._authors.get(author)
        return own is not None and (
            self.total >= WHOLE
            or own.total() >= AUTHOR_SHARE
            or any(self._spaces[space] >= SPACE_SHARE for space in own)
        )
