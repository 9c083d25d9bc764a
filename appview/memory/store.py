"""One space's memory: a file that is written by commits and read through scopes.

Everything a caller does is one transaction. Reads see one state, writes happen wholly or not at all, and
what a write did is on disk when it answers.
"""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Self, TypeVar

import structlog

from appview.memory import keywords, meta, path_tags, reads, rights, vectors
from appview.memory.apply import apply_updates, records_of
from appview.memory.check import check
from appview.memory.configure import configure
from appview.memory.hidden import hidden_authors, without
from appview.memory.mend import mend, restore
from appview.memory.paths import PathTree
from appview.memory.rights import is_writable
from appview.memory.scope import EVERYTHING
from appview.memory.stored import authors_of, filled_of, refresh_links, versions_of
from appview.memory.strength import reinforce
from appview.memory.superseding import STANDING, Superseding, mark
from appview.memory.values import Filters
from appview.memory.writer import Writer
from appview.occasional import Occasional
from appview.sqlite import Database, look_into, newest_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from appview.control_files import FileState
    from appview.memory.analyser import Analyser
    from appview.memory.apply import Outcome
    from appview.memory.complete import Merge
    from appview.memory.reads import Placed, Position
    from appview.memory.scope import Scope
    from appview.memory.strength import Recall
    from appview.memory.superseding import Succession
    from appview.memory.tags import PathTag
    from appview.memory.values import Applied, Change, Fact, PathNode, RepoUpdate, SpaceStatus, Update
    from appview.memory.writer import Version
    from appview.sqlite import Connection
    from lexicons.configs import Config
    from lexicons.models import ModelKey
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import AtUri, Did

T = TypeVar("T")
MIGRATIONS: Final = files("appview.memory") / "migrations"
NEWEST_SCHEMA: Final = newest_schema(MIGRATIONS)
MAX_NARROWED: Final = 64  # ours, scopes that are remembered narrowed by what nobody is shown
READERS: Final = 3  # connections a file: questions on two cores and one long read
NO_FILTERS: Final = Filters()
NO_LIMIT: Final = -1  # to SQLite
log = structlog.get_logger("appview.memory")


def examine(path: Path, space: SpaceUri) -> FileState | None:
    """Tell which file a space has, without opening it for anybody: None where there is none, or an empty one.

    Raises `StoreMismatch` for one that is not the space's, or a newer program's, and `StoreError`.
    """
    if not path.exists():
        return None
    return look_into(path, lambda connection: meta.examine(connection, space, NEWEST_SCHEMA))


class SpaceStore:
    """The open file of a space. Make one with `SpaceStore.open`, end it with `close`."""

    def __init__(
        self,
        space: SpaceUri,
        database: Database,
        analyser: Analyser,
        clock: Callable[[], int],
        state: FileState,
        config: Config | None,
        hidden: frozenset[Did],
        skipped: Occasional | None = None,
    ) -> None:
        self.space = space
        self.database = database
        self.state = state
        self.superseding = Superseding()
        self._analyser = analyser
        self._clock = clock
        self._config = config
        self._hidden = hidden
        self._narrowed: dict[tuple[Scope, frozenset[Did]], Scope] = {}
        self._skipped = skipped or Occasional()
        self.wrote: Callable[[], None] = lambda: None  # called when `state` has changed

    @classmethod
    async def open(
        cls,
        path: Path,
        space: SpaceUri,
        executor: Executor,
        clock: Callable[[], int],
        *,
        analyser: Analyser,
        skipped: Occasional | None = None,
    ) -> Self:
        """Open a space's file, or make it. `skipped` bounds what all spaces together log of left-out records.

        Raises `StoreMismatch` for the file of another space, program or newer version, `StoreDamaged` for one
        that contradicts itself, and `StoreError` for one that cannot be read or written.
        """

        def prepare(connection: Connection) -> None:
            meta.check_owner(connection)
            vectors.prepare(connection)
            connection.execute("PRAGMA secure_delete = ON")  # what was deleted is not left in unused pages

        def begin(connection: Connection) -> tuple[FileState, Config | None, frozenset[Did]]:
            meta.claim(connection, space)
            keywords.claim(connection, analyser)
            lost = restore(connection, MIGRATIONS)
            if lost:
                log.warning("derived tables were lost and are made anew", space=space, tables=lost)
                mend(Writer(connection, analyser, clock()))
                meta.touch(connection)
            refresh_links(connection)
            path_tags.refresh(connection)
            return meta.file_state(connection), meta.read_config(connection), hidden_authors(connection)

        database = await Database.open(path, MIGRATIONS, executor, readers=READERS, prepare=prepare)
        try:
            state, config, hidden = await database.write(begin)
        except BaseException:
            await database.close()
            raise
        return cls(space, database, analyser, clock, state, config, hidden, skipped)

    async def close(self) -> None:
        """Wait for what is running, then close the file."""
        await self.database.close()

    @property
    def config(self) -> Config | None:
        """The config the space is indexed for."""
        return self._config

    @property
    def active(self) -> ModelKey | None:
        """The model whose vectors answer queries."""
        return self._config.model if self._config is not None else None

    @property
    def hidden(self) -> frozenset[Did]:
        """Authors of whom readers see nothing, because their accounts are not active."""
        return self._hidden

    def visible(self, scope: Scope, withheld: Collection[Did] = ()) -> Scope:
        """Narrow what somebody may read by what nobody is shown: what is of `withheld` authors, or of those
        whose accounts are not active. Whoever answers a reader asks here."""
        hidden = self._hidden.union(withheld)
        if not hidden:
            return scope
        # The same value for the same scope: one of thousands of patterns is dear to hash and to compare.
        place = (scope, hidden)
        narrowed = self._narrowed.get(place)
        if narrowed is None:
            while len(self._narrowed) >= MAX_NARROWED:
                del self._narrowed[next(iter(self._narrowed))]
            narrowed = self._narrowed[place] = without(scope, hidden)
        return narrowed

    async def is_hidden(self, author: Did) -> bool:
        """Tell whether readers are shown nothing of an author, as the file has it."""
        return author in await self.database.read(hidden_authors)

    async def shown(self, author: Did) -> frozenset[str]:
        """List the record keys of an author's memories that readers of everything are shown, as the file has
        it."""

        def work(connection: Connection) -> frozenset[str]:
            scope = without(EVERYTHING, hidden_authors(connection))
            found = reads.newest(connection, scope, Filters(author=author), NO_LIMIT, None)
            return frozenset(fact.rkey for fact in found)

        return await self.database.read(work)

    async def configure(self, config: Config | None) -> None:
        """Follow the space's config: judge all records again, build, promote or drop indexes."""

        def work(writer: Writer) -> Outcome | None:
            if meta.read_config(writer.connection) == config:
                return None
            return configure(writer, config)

        try:
            outcome = await self._write(work)
        except asyncio.CancelledError:
            # It may have been too late to stop the transaction: the file knows.
            self._config = await self.database.read(meta.read_config)
            raise
        self._config = config
        if outcome is not None:
            log.info(
                "space configured",
                space=self.space,
                model=str(config.model) if config is not None else None,
                next=str(config.next) if config is not None and config.next is not None else None,
                indexed=outcome.created,
                skipped=dict(outcome.applied.skipped),
            )

    async def apply(
        self, updates: Sequence[Update], merge: Merge | None = None, most: int | None = None
    ) -> Applied:
        """Apply what commits and accounts changed; what was applied before changes nothing.

        With `merge`, about `most` (see `complete.cost`) of what is left of the one update, which is complete.
        Begin with a new one when that fails.
        """

        def work(writer: Writer) -> tuple[Outcome, frozenset[Did]]:
            return apply_updates(writer, updates, merge, most), hidden_authors(writer.connection)

        try:
            outcome, self._hidden = await self._write(work)
        except asyncio.CancelledError:
            self._hidden = await self.database.read(hidden_authors)
            raise
        self._tell(outcome)
        return outcome.applied

    async def remove_author(self, author: Did) -> None:
        """Remove all that the space holds of an author, as if nothing had ever come."""
        await self._write(lambda writer: writer.erase_author(author))
        self._hidden -= {author}

    async def withdraw(self, authors: Collection[Did], scope: Scope) -> int:
        """Take out what the space holds of authors outside of what each may write; count the records."""
        return await self._write(lambda writer: rights.withdraw(writer, authors, scope))

    async def applied(self, author: Did) -> tuple[str, str | None] | None:
        """Read the rev and the data CID of what has been applied of an author's repo."""

        def work(connection: Connection) -> tuple[str, str | None] | None:
            row = connection.execute("SELECT rev, data FROM repos WHERE author = ?", (author,)).fetchone()
            return None if row is None else (row[0], row[1])

        return await self.database.read(work)

    async def live(self, author: Did) -> dict[str, str]:
        """Read the CID of each record of an author that is known here, indexed or left out, by record key."""
        return await self.database.read(lambda connection: records_of(connection, author))

    async def set_path_tag(self, path: str, key: str, value: str, protected: bool = False) -> None:
        """Give an attribute to what is at and below a path; raise `InvalidPathTag`."""
        await self._write(lambda writer: path_tags.set_tag(writer, path, key, value, protected))

    async def remove_path_tag(self, path: str, key: str) -> bool:
        """Take an attribute from a path; false where it had none."""
        return await self._write(lambda writer: path_tags.remove_tag(writer, path, key))

    async def path_tags(self) -> Sequence[tuple[str, PathTag]]:
        """List the attributes that paths give, by path and key."""
        return await self.database.read(path_tags.path_tags)

    async def get(self, uri: AtUri, scope: Scope, *, succession: Succession = STANDING) -> Fact | None:
        """Find a memory by the URI of its record, superseded or not."""

        def work(connection: Connection) -> Fact | None:
            found = reads.get(connection, uri, scope)
            if found is None:
                return None
            return mark([found], self.superseding.ids(connection, scope, succession.may_write))[0]

        return await self.database.read(work)

    async def place(self, uri: AtUri) -> Placed | None:
        """Find what access rules see of a memory."""
        return await self.database.read(lambda connection: reads.place(connection, uri))

    async def list(
        self,
        scope: Scope,
        filters: Filters = NO_FILTERS,
        *,
        limit: int,
        before: Position | None = None,
        succession: Succession = STANDING,
    ) -> Sequence[Fact]:
        """List memories, newest first by (ordered_at, author, rkey), from the one after `before`."""

        def work(connection: Connection) -> Sequence[Fact]:
            narrowed, gone = self.superseding.narrow(connection, scope, filters, succession)
            return mark(reads.newest(connection, scope, narrowed, limit, before), gone)

        return await self.database.read(work)

    async def paths(
        self,
        scope: Scope,
        parent: str = "/",
        *,
        limit: int,
        after: str | None = None,
        succession: Succession = STANDING,
    ) -> Sequence[PathNode]:
        """List one level of the tree by segment, from the one after the segment `after`."""

        def work(connection: Connection) -> Sequence[PathNode]:
            narrowed, _ = self.superseding.narrow(connection, scope, NO_FILTERS, succession)
            return reads.children(connection, scope, parent, limit, after, narrowed)

        return await self.database.read(work)

    async def path_facts(
        self,
        scope: Scope,
        path: str,
        *,
        limit: int,
        after: Position | None = None,
        succession: Succession = STANDING,
    ) -> Sequence[Fact]:
        """List the memories of exactly one path, oldest first, from the one after `after`."""

        def work(connection: Connection) -> Sequence[Fact]:
            narrowed, gone = self.superseding.narrow(connection, scope, NO_FILTERS, succession)
            return mark(reads.at_path(connection, scope, path, limit, after, narrowed), gone)

        return await self.database.read(work)

    async def reinforce(self, recalls: Sequence[Recall]) -> int:
        """Make memories stronger that were recalled; tell how many of the recalls counted."""
        return await self.database.write(lambda connection: reinforce(connection, recalls))

    async def status(self, scope: Scope) -> SpaceStatus:
        """Count what the space holds."""
        return await self.database.read(lambda connection: reads.status(connection, self.space, scope))

    async def reanalyse(self) -> int | None:
        """Take one bounded step towards the analysis of this program, the present index answering meanwhile.

        Tells how many facts it analysed, None where nothing is left to do.
        """
        step = await self.database.read(lambda connection: keywords.next_step(connection, self._analyser))
        if step is None:
            return None

        def work(writer: Writer) -> None:
            writer.changed |= step.take(writer.connection, self._analyser)

        await self._write(work)
        return step.facts

    async def reanalysis(self) -> keywords.Progress:
        """Tell how far the file is on its way to the analysis of this program."""
        version = self._analyser.version
        return await self.database.read(lambda connection: keywords.progress(connection, version))

    async def data_version(self) -> int:
        """Read a number that grows with every change of what a query can see."""
        return await self.database.read(meta.data_version)

    async def check(self) -> Sequence[str]:
        """List what is wrong inside the file; reads all of it."""
        return await self.database.read(check)

    async def mend(self) -> None:
        """Derive anew what `check` can find wrong, as far as the facts say it."""
        await self._write(mend)

    async def filled(self) -> dict[Did, str | None]:
        """List everyone whose repo has been applied, with the digest of what they might write, where it is
        known."""
        return await self.database.read(filled_of)

    async def authors(self) -> frozenset[Did]:
        """List everyone of whom the space holds or has left out a record."""
        return await self.database.read(authors_of)

    async def writable(self, update: RepoUpdate) -> Sequence[Change]:
        """List those changes that the author may make, by what counts in this space."""

        def work(connection: Connection) -> list[Change]:
            tree = PathTree(connection)
            return [each for each in update.changes if is_writable(tree, update.author, each, update.scope)]

        return await self.database.read(work)

    async def versions(self, author: Did) -> dict[str, Version]:
        """Read an author's indexed memories by record key, as the records they were made from."""
        return await self.database.read(lambda connection: versions_of(connection, author))

    def _tell(self, outcome: Outcome) -> None:
        """Log what was left out: the records for who debugs, each author and reason now and then. No line has
        what an author wrote."""
        for skip in outcome.skips:
            author, rkey = skip.key
            log.debug(
                "memory skipped",
                space=self.space,
                author=author,
                rkey=rkey,
                reason=skip.reason,
                detail=skip.brief,
            )
        for (author, reason), number in outcome.skipped.items():
            count = self._skipped.due((author, reason), self._clock(), number)
            if count is not None:
                log.info("memories skipped", space=self.space, author=author, reason=reason, count=count)

    async def _write(self, work: Callable[[Writer], T]) -> T:
        def transaction(connection: Connection) -> tuple[T, FileState]:
            changes = connection.total_changes
            writer = Writer(connection, self._analyser, self._clock())
            result = work(writer)
            if writer.changed:
                meta.touch(connection)
            if connection.total_changes == changes:
                return result, self.state
            return result, meta.count_write(connection)

        result, state = await self.database.write(transaction)
        if state != self.state:
            self.state = state
            self.wrote()
        return result
