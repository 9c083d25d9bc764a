"""The open spaces of a process: at most so many files, closed least recently used first.

Invariants: one store a space, shared by everyone who uses it at the same time; a store in use is never
closed; a space whose opening failed is tried again by the next who asks. A task that holds a store must not
wait for another one: with every place taken by such tasks, nobody would ever give one back.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appview.errors import StoreError
from appview.folder import space_file_name
from appview.memory.store import SpaceStore
from appview.occasional import Occasional

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from concurrent.futures import Executor

    from appview.control_files import FileState
    from appview.memory.analyser import Analyser
    from lexicons.spaces import SpaceUri

DEFAULT_MAX_OPEN: Final = 64  # files; one takes nine descriptors and 1 MB


@dataclass(slots=True)
class _Place:
    """An open space and how many use it now; nobody may start to while it is `closing`."""

    opening: asyncio.Task[SpaceStore]
    users: int = 0
    closing: bool = False

    @property
    def failed(self) -> bool:
        """Whether the space could not be opened."""
        return self.opening.done() and (self.opening.cancelled() or self.opening.exception() is not None)

    async def close(self) -> None:
        """Close the store, once it has finished opening."""
        await asyncio.wait([self.opening])
        if not self.failed:
            await self.opening.result().close()


class SpacePool:
    """Opens spaces on demand. `async with pool.use(space) as store:`, and `close` at the end.

    `opened(store)` is awaited before anybody gets a store, and may refuse it by raising `StoreError`;
    `failed(space, error)` hears of every file that cannot be opened, read or written, whoever meets it.
    """

    def __init__(
        self,
        folder: Path,
        executor: Executor,
        clock: Callable[[], int],
        *,
        analyser: Analyser,
        max_open: int = DEFAULT_MAX_OPEN,
    ) -> None:
        self._folder = folder
        self._executor = executor
        self._clock = clock
        self._analyser = analyser
        self._max_open = max_open
        self._places: OrderedDict[SpaceUri, _Place] = OrderedDict()  # least recently used first
        self._changed = asyncio.Condition()
        self._evictions: set[asyncio.Task[None]] = set()  # owned until done: `close` waits for them
        self._closed = False
        self._skipped = Occasional()  # one for all spaces: a record can go to many
        self.written: dict[SpaceUri, FileState] = {}  # of files that were written to, until it is noted
        self.opened: Callable[[SpaceStore], Awaitable[None]] = _welcome
        self.failed: Callable[[SpaceUri, StoreError], None] = lambda _space, _error: None

    def path(self, space: SpaceUri) -> Path:
        """Name the file of a space."""
        return self._folder / space_file_name(space)

    def exists(self, space: SpaceUri) -> bool:
        """Tell whether the space has a file."""
        return self.path(space).is_file()

    @asynccontextmanager
    async def use(self, space: SpaceUri) -> AsyncIterator[SpaceStore]:
        """Open the space, or make it, and keep it open inside the block; raise `StoreError`."""
        place = await self._take(space)
        try:
            # The opening is shared: whoever stops waiting for it must not stop it for the others.
            store = await asyncio.shield(place.opening)
            yield store
        finally:
            await asyncio.shield(self._give_back(place))

    async def set_aside(self, space: SpaceUri, suffix: str) -> None:
        """Close the space, once nobody uses it, and give its file another name: the next who asks makes a new
        one. Where that name is taken the file is removed."""
        async with self._changed:
            while (place := self._places.get(space)) is not None:
                if place.failed:
                    del self._places[space]
                elif place.closing:
                    await self._changed.wait()
                else:
                    await self._end(space, place)
            self.written.pop(space, None)
            _set_aside(self.path(space), suffix)
            self._changed.notify_all()

    def noted(self, states: Mapping[SpaceUri, FileState]) -> None:
        """Forget what files were, as far as they have not been written to since."""
        for space, state in states.items():
            if self.written.get(space) == state:
                del self.written[space]

    async def forget(self) -> None:
        """Close every file that nobody uses; another process may be about to replace some."""
        async with self._changed:
            for space, place in list(self._places.items()):
                if not place.users:
                    self._evict(space, place)
            await self._changed.wait_for(lambda: not any(place.closing for place in self._places.values()))

    async def close(self) -> None:
        """Refuse new users, wait for the present ones and close every file."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()
            await self._changed.wait_for(lambda: not any(place.users for place in self._places.values()))
            for space, place in self._places.items():
                self._evict(space, place)
            await self._changed.wait_for(lambda: not self._places)

    async def _take(self, space: SpaceUri) -> _Place:
        async with self._changed:
            while True:
                if self._closed:
                    raise StoreError("the spaces are being closed")
                place = self._places.get(space)
                if place is not None and place.failed:
                    del self._places[space]
                    place = None
                if place is None and len(self._places) < self._max_open:
                    place = self._places[space] = _Place(asyncio.create_task(self._open(space)))
                if place is not None and not place.closing:
                    place.users += 1
                    self._places.move_to_end(space)
                    return place
                if place is None:
                    self._make_room()
                await self._changed.wait()

    async def _give_back(self, place: _Place) -> None:
        async with self._changed:
            place.users -= 1
            self._changed.notify_all()

    async def _end(self, space: SpaceUri, place: _Place) -> None:
        """Close a place, whoever uses it now having left; the lock is held."""
        place.closing = True  # whoever asks waits from here on
        try:
            await self._changed.wait_for(lambda: not place.users)
            await place.close()
        except BaseException:
            place.closing = False
            raise
        del self._places[space]

    def _make_room(self) -> None:
        """Start closing the least recently used store of those that nobody uses, where there is one."""
        for space, place in self._places.items():
            if not place.users and not place.closing:
                self._evict(space, place)
                return

    def _evict(self, space: SpaceUri, place: _Place) -> None:
        async def close() -> None:
            try:
                await place.close()
            finally:
                async with self._changed:
                    if self._places.get(space) is place:
                        del self._places[space]
                    self._changed.notify_all()

        if not place.closing:
            place.closing = True
            task = asyncio.create_task(close())
            self._evictions.add(task)
            task.add_done_callback(self._evictions.discard)

    async def _open(self, space: SpaceUri) -> SpaceStore:
        await asyncio.get_running_loop().run_in_executor(self._executor, self._make_folder)
        try:
            store = await SpaceStore.open(
                self.path(space),
                space,
                self._executor,
                self._clock,
                analyser=self._analyser,
                skipped=self._skipped,
            )
        except StoreError as error:
            self.failed(space, error)
            raise
        try:
            await self.opened(store)
        except BaseException:
            await store.close()
            raise
        store.wrote = lambda: self.written.update({space: store.state})
        store.database.failed = lambda error: self.failed(space, error)
        return store

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder {self._folder}: {error.strerror}") from error


async def _welcome(_store: SpaceStore) -> None:
    """Refuse no file."""


def _set_aside(path: Path, suffix: str) -> None:
    for end in ("", "-wal", "-shm"):
        file, target = Path(f"{path}{end}"), Path(f"{path}{suffix}{end}")
        if not file.exists():
            continue
        try:
            if target.exists():
                file.unlink()
            else:
                file.rename(target)
        except OSError as error:
            raise StoreError(f"cannot set {file.name} aside: {error.strerror}") from error
