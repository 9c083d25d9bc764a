"""From proven updates to disk, in groups.

Updates gather in a batch for `LINGER` at most. A batch is dealt out to the spaces it changes; each space
writes what has been dealt to it, of what has come meanwhile as much in one transaction as goes quickly, so
that under load the transactions grow by themselves and a space that takes long delays no other. Of what
waits in a space its authors have their turns (see `fairness`). When all of a batch, and of every batch before
it, is written, the repos' new state and then the sources' cursors are due in control.db.

Invariants:
- A cursor that is on disk is never ahead of the updates it stands for, nor of the repos' state they made: a
  crash anywhere costs a replay, and a replay changes nothing.
- What a space's file was when it was written is noted before the cursor that stands for it, and never ahead
  of the file: an older copy is told by that (see `repairs`).
- A store that fails (disk full, read-only) keeps its updates and is tried again; meanwhile only so much more
  is taken. A space whose file is beyond use is set apart and stops nobody else.
- One update that a store cannot take is left out and counted; the others of its group are not.
- The updates of one author are written in order, each in one transaction; but a very large one, of a commit
  or of a whole repo, in several, between which others go: the author's rev moves with the last.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from appview.errors import StoreError
from appview.ingest.backoff import Backoff
from appview.ingest.fairness import MAX_WHOLE, FairQueue, Piece, Shares, TransactionSize, pieces
from appview.memory.complete import Merge
from appview.memory.values import RepoUpdate
from appview.sqlite import is_beyond_use

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from appview.clock import Clock
    from appview.control import Control, RepoRow
    from appview.ingest.backoff import Random
    from appview.memory.pool import SpacePool
    from appview.memory.values import Applied, Update
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

LINGER: Final = 0.02  # seconds a first update waits for company
CHECKPOINT_SECONDS: Final = 0.5  # between writes of repos and cursors; what a crash replays
MAX_UPDATES: Final = 1_000  # updates in a transaction
# Beyond what authors share: reached only by so many authors that little of each is too much.
MAX_OPEN_UPDATES: Final = 10 * MAX_UPDATES  # updates that are not written yet
MAX_OPEN_BYTES: Final = 32 * 1024 * 1024  # of records that are not written yet
PARALLEL_SPACES: Final = 4  # space files written at once
RETRY: Final = Backoff(base=0.25, cap=30.0)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Batch:
    """What was taken together. `repos` and `positions` are as they are after the batch's updates; `left`
    counts what of it is not written."""

    pieces: dict[SpaceUri, list[Piece]] = field(default_factory=dict)
    repos: dict[Did, RepoRow] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    count: int = 0
    bytes: int = 0
    left: int = 0
    forced: bool = False
    written: asyncio.Event = field(default_factory=asyncio.Event)

    def wrote(self) -> None:
        """Take note that a piece is written."""
        self.left -= 1


class Committer:
    """Takes updates in order and writes them. `run` must be running."""

    def __init__(
        self,
        control: Control,
        pool: SpacePool,
        clock: Clock,
        *,
        random: Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self.written: dict[str, int] = {}  # how far each source is on disk
        self.failing: str | None = None  # why nothing can be written at the moment
        self.freed: Callable[[], None] = lambda: None  # called when something was written
        # Awaited before the cursor may pass what a file could not take.
        self.broken: Callable[[SpaceUri, StoreError], Awaitable[None]] = _ignore
        self._control = control
        self._pool = pool
        self._clock = clock
        self._random = random
        self._sleep = sleep
        self._batch = Batch()
        self._open: deque[Batch] = deque()  # dealt out, oldest first
        self._dealt: dict[SpaceUri, FairQueue] = {}
        self._shares = Shares()
        self._open_updates = 0  # of updates that are not written yet
        self._open_bytes = 0
        self._news = asyncio.Event()  # something to write
        self._urgent = asyncio.Event()  # something that a caller may be looking for
        self._full = asyncio.Event()  # do not linger
        self._room = asyncio.Event()
        self._room.set()
        self._slots = asyncio.Semaphore(PARALLEL_SPACES)
        self._repos: dict[Did, RepoRow] = {}  # whose updates are written; not yet in control.db
        self._positions: dict[str, int] = {}
        self._waiters: list[asyncio.Event] = []
        self._behind = asyncio.Event()  # control.db is
        self._at_once = asyncio.Event()  # somebody waits for it
        self._checkpoint_due = 0.0

    @property
    def open(self) -> tuple[int, int]:
        """How many updates are not written yet, and about how many bytes they hold."""
        return self._open_updates, self._open_bytes

    async def room(self) -> None:
        """Wait until another update may be added."""
        await self._room.wait()

    def is_full(self, author: Did) -> bool:
        """Tell whether so much of an author is not written yet that more of it should wait."""
        return self._shares.is_full(author)

    def add(self, updates: Mapping[SpaceUri, Update], size: int) -> None:
        """Add one commit's updates; `size` is about how many bytes they hold."""
        batch = self._batch
        for space, update in updates.items():
            for piece in pieces(update):
                piece.written = batch.wrote
                batch.pieces.setdefault(space, []).append(piece)
                self._shares.open(update.author, space, piece.room)
        if updates:
            batch.count += len(updates)
            batch.bytes += size
            self._open_updates += len(updates)
            self._open_bytes += size
            self._news.set()
            self._urgent.set()
        if batch.count >= MAX_UPDATES:
            self._full.set()
        self._regulate()

    def note(self, row: RepoRow) -> None:
        """Note a repo's state after what was added so far."""
        self._batch.repos[row.did] = row
        self._news.set()

    def reached(self, source: str, position: int) -> None:
        """Note that everything of a source up to `position` was added, or needs nothing."""
        self._batch.positions[source] = position
        self._news.set()

    async def flush(self) -> None:
        """Wait until everything added so far, and the cursor for it, is on disk."""
        batch = self._batch
        batch.forced = True
        for event in (self._news, self._urgent, self._full):
            event.set()
        await batch.written.wait()

    async def run(self) -> None:
        """Write until cancelled. What is in memory then is in the sources too, behind the cursor."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_control(), name="checkpoints")
            while True:
                await self._gather()
                batch, self._batch = self._batch, Batch()
                for event in (self._news, self._urgent, self._full):
                    event.clear()
                self._open.append(batch)
                batch.left = sum(map(len, batch.pieces.values()))
                for space, dealt in batch.pieces.items():
                    if space not in self._dealt:
                        self._dealt[space] = FairQueue()
                        group.create_task(self._keep_space(space), name=f"write {space}")
                    for piece in dealt:
                        self._dealt[space].add(piece)
                self._advance()

    async def _gather(self) -> None:
        """Wait for something to write, and a little longer for more."""
        loop = asyncio.get_running_loop()
        await self._news.wait()
        with suppress(TimeoutError):
            # Positions alone are no hurry: a crash would only read again what concerned nobody.
            async with asyncio.timeout_at(max(loop.time() + LINGER, self._checkpoint_due)):
                await self._urgent.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await self._full.wait()

    async def _keep_space(self, space: SpaceUri) -> None:
        """Write what is dealt to a space until there is no more."""
        dealt, size = self._dealt[space], TransactionSize()
        loop = asyncio.get_running_loop()
        while dealt:
            taken = dealt.take(MAX_UPDATES, size.cost)
            started = loop.time()
            await self._write_space(space, taken, size.cost)
            size.took(sum(piece.cost for piece in taken), loop.time() - started)
            for piece in taken:
                if piece.merge is not None:
                    dealt.add(piece, first=True)
                else:
                    piece.written()
                    self._shares.close(piece.update.author, space, piece.room)
            self._advance()
            self.freed()
        del self._dealt[space]

    def _advance(self) -> None:
        """Let control.db follow as far as every space has come."""
        while self._open and self._open[0].left == 0:
            batch = self._open.popleft()
            self._repos |= batch.repos
            self._positions |= batch.positions
            self._open_updates -= batch.count
            self._open_bytes -= batch.bytes
            if batch.forced:
                self._waiters.append(batch.written)
                self._at_once.set()
            if batch.forced or batch.repos or batch.positions:
                self._behind.set()
        self._regulate()

    def _regulate(self) -> None:
        if self._open_updates >= MAX_OPEN_UPDATES or self._open_bytes >= MAX_OPEN_BYTES:
            self._room.clear()
        else:
            self._room.set()

    async def _keep_control(self) -> None:
        """Write repos and cursors now and then, and when somebody waits for it."""
        loop = asyncio.get_running_loop()
        while True:
            await self._behind.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._checkpoint_due):
                    await self._at_once.wait()
            for event in (self._behind, self._at_once):
                event.clear()
            waiters, self._waiters = self._waiters, []
            repos, self._repos = self._repos, {}
            positions, self._positions = self._positions, {}
            await self.insist(partial(self._checkpoint, list(repos.values()), positions))
            self._checkpoint_due = loop.time() + CHECKPOINT_SECONDS
            for waiter in waiters:
                waiter.set()

    async def _checkpoint(self, repos: list[RepoRow], positions: dict[str, int]) -> None:
        written = dict(self._pool.written)
        if written:
            await self._control.files.put(written)
            self._pool.noted(written)
        if repos:
            await self._control.put_repos(repos)
        for source, position in positions.items():
            await self._control.set_cursor(source, position, self._clock())
            self.written[source] = position

    async def _write_space(self, space: SpaceUri, taken: list[Piece], most: int) -> None:
        """Write pieces; one that is complete whole, or where that would take long, a part and then about
        `most` at a time: it has a `merge` while it goes on."""
        updates, first = [piece.update for piece in taken], taken[0]

        async def apply() -> None:
            merge, first.merge = first.merge, None  # after a failure it begins anew
            part: int | None = None
            if isinstance(first.update, RepoUpdate) and first.update.complete:
                part = MAX_WHOLE if merge is None else most
                merge = merge or Merge(first.update)
            async with self._slots, self._pool.use(space) as store:
                try:
                    self._count(await store.apply(updates, merge, part))
                except StoreError:
                    raise
                except Exception:  # an update that no store can take must not stop the others
                    log.exception("a store refuses a batch", space=space, updates=len(updates))
                    await self._one_by_one(store.apply, updates)
                else:
                    first.merge = merge if merge is not None and not merge.is_over else None

        try:
            await self.insist(apply)
        except StoreError as error:
            await self._set_apart(space, error)

    async def _one_by_one(
        self, apply: Callable[[list[Update]], Awaitable[Applied]], updates: list[Update]
    ) -> None:
        for update in updates:
            try:
                self._count(await apply([update]))
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - see above
                self.outcomes["refused by the store"] += 1
                log.error("an update is left out", author=update.author, error=repr(error))

    async def insist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it, again and again while the disk fails."""
        attempt = 0
        while True:
            try:
                await work()
            except StoreError as error:
                if is_beyond_use(error):
                    raise
                attempt += 1
                self.failing = str(error)
                wait = RETRY.seconds(attempt, self._random)
                log.error("cannot write, trying again", error=str(error), retry_in=round(wait, 2))
                await self._sleep(wait)
            else:
                if attempt:
                    self.failing = None
                    log.info("writing again", attempts=attempt)
                return

    async def _set_apart(self, space: SpaceUri, error: StoreError) -> None:
        self.outcomes["space set apart"] += 1
        log.error("a space's file cannot be used", space=space, error=str(error))
        await self.insist(partial(self.broken, space, error))

    def _count(self, applied: Applied) -> None:
        for name in ("created", "updated", "deleted", "unchanged"):
            self.outcomes[name] += getattr(applied, name)
        for reason, number in applied.skipped.items():
            self.outcomes[f"skipped: {reason}"] += number


async def _ignore(_space: SpaceUri, _error: StoreError) -> None:
    """Leave a space set apart."""
