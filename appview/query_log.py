"""The questions that a space was asked, kept where the operator wishes it: one file of JSON lines a space.

Nothing is kept of a space that is not named. A file is at most so large and its lines at most so old: it is
two files, and when the newer one is half as large as both may be it takes the place of the older one. What
has been noted is on disk a second later; where more waits than may, or the disk refuses, questions are left
out: an answer never waits for the log. Text and vectors are the caller's words: they are for the owner of the
folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from appview.background import Background
from appview.errors import StoreError
from appview.setting_kinds import EVERY
from lexicons.datetimes import Datetime, parse_micros
from lexicons.embeddings import decode_query_vector, encode_query_vector
from lexicons.errors import InvalidSyntax, UnusableVector
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from appview.clock import Clock
    from appview.settings import Settings
    from lexicons.spaces import SpaceUri

DAY_MICROS: Final = 86_400_000_000
INTERVAL_SECONDS: Final = 1.0  # ours: what a kill can cost
PRUNE_SECONDS: Final = 3_600.0  # ours: between two looks for what is too old
MAX_WAITING: Final = 10_000  # ours: questions on their way to the disk; about 12 MB
FILE_MODE: Final = 0o600

log = structlog.get_logger("appview.query_log")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question with words. `vector` (f16le, of `model`) is what was searched with, where anything was;
    `at` and `since` are in microseconds; `mode` is what was wished."""

    at: int
    text: str
    mode: str
    vector: bytes | None = None
    model: ModelKey | None = None
    author: str | None = None
    tags: tuple[str, ...] = ()
    since: int | None = None
    include_superseded: bool = False
    subject: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Write it, without what it does not have."""
        written: dict[str, Any] = {"at": Datetime.from_micros(self.at), "query": self.text, "mode": self.mode}
        if self.vector is not None and self.model is not None:
            written |= {
                "vector": encode_query_vector(self.vector),
                "model": self.model.model,
                "modelDigest": self.model.digest,
            }
        for name, value in (("author", self.author), ("tags", list(self.tags)), ("subject", self.subject)):
            if value:
                written[name] = value
        if self.since is not None:
            written["since"] = Datetime.from_micros(self.since)
        if self.include_superseded:
            written["includeSuperseded"] = True
        return written

    @classmethod
    def from_json(cls, line: Any) -> Asked:
        """Read it; raise `ValueError` for what is none."""
        try:
            vector = decode_query_vector(line["vector"]) if "vector" in line else None
            return cls(
                at=parse_micros(line["at"]),
                text=str(line["query"]),
                mode=str(line["mode"]),
                vector=vector,
                model=None
                if vector is None
                else ModelKey(line["model"], line["modelDigest"], len(vector) // 2),
                author=line.get("author"),
                tags=tuple(line.get("tags", ())),
                since=parse_micros(line["since"]) if "since" in line else None,
                include_superseded=line.get("includeSuperseded", False),
                subject=line.get("subject"),
            )
        except (KeyError, TypeError, InvalidSyntax, UnusableVector) as error:
            raise ValueError(f"not a question: {error}") from None


class LogFile:
    """The kept questions of one space."""

    def __init__(self, folder: Path, space: SpaceUri) -> None:
        name = hashlib.sha256(space.encode()).hexdigest()
        self.newer = folder / f"{name}.jsonl"
        self.older = folder / f"{name}.1.jsonl"

    def append(self, lines: Sequence[bytes], max_bytes: int) -> None:
        """Add lines; raise `OSError`."""
        self.newer.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for line in lines:
            size = self.newer.stat().st_size if self.newer.exists() else 0
            if size and size + len(line) > max_bytes // 2:
                self.newer.replace(self.older)
            descriptor = os.open(self.newer, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
            with open(descriptor, "r+b", buffering=0) as file:  # noqa: PTH123 - with a mode from the start
                end = file.seek(0, os.SEEK_END)
                if end and os.pread(descriptor, 1, end - 1) != b"\n":
                    line = b"\n" + line  # what was cut off by a crash is a line of its own, and no question
                file.write(line)

    def read(self) -> Iterator[Asked]:
        """Read the questions, oldest first; what is no line of a question is passed over."""
        for path in (self.older, self.newer):
            if not path.exists():
                continue
            with path.open("rb") as file:
                for line in file:
                    with suppress(ValueError):
                        yield Asked.from_json(json.loads(line))

    def remove(self) -> bool:
        """Remove all of it; tell whether there was anything."""
        there = [path for path in (self.older, self.newer) if path.exists()]
        for path in there:
            path.unlink()
        return bool(there)


class QueryLog:
    """Keeps questions of the spaces that are named. `start` it once, `close` it at the end."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        spaces: Iterable[str] = (),
        *,
        with_subjects: bool = False,
        max_bytes: int,
        days: int,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._spaces = frozenset(spaces)
        self._max_bytes = max_bytes
        self._days = days
        self._waiting: dict[SpaceUri, list[bytes]] = {}
        self._count = 0
        self._lost = 0
        self._background = Background(self._run, "query log")
        self.with_subjects = with_subjects

    @classmethod
    def of(cls, settings: Settings, clock: Clock) -> QueryLog:
        """Make the one that is configured."""
        return cls(
            settings.queries_folder,
            clock,
            settings.query_log,
            with_subjects=settings.query_log_subjects,
            max_bytes=settings.query_log_mb << 20,
            days=settings.query_log_days,
        )

    def keeps(self, space: SpaceUri) -> bool:
        """Tell whether questions of a space are kept."""
        return EVERY in self._spaces or space in self._spaces

    def note(self, space: SpaceUri, asked: Asked) -> None:
        """Keep a question of a space whose questions are kept."""
        if not self.keeps(space):
            return
        if self._count >= MAX_WAITING:
            self._lost += 1
            return
        self._count += 1
        line = json.dumps(asked.to_json(), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._waiting.setdefault(space, []).append(line)

    def start(self) -> None:
        """Begin to write, in the background."""
        self._background.start()

    async def close(self) -> None:
        """Write what waits and stop."""
        await self._background.close()
        await self.flush()

    async def flush(self) -> None:
        """Write what waits now."""
        taken, self._waiting, self._count = self._waiting, {}, 0
        if taken:
            self._lost += await asyncio.to_thread(self._write, taken)
        if self._lost:
            log.warning("questions not kept", count=self._lost)
            self._lost = 0

    async def prune(self) -> None:
        """Remove what is too old, of every space, kept now or not."""
        await asyncio.to_thread(prune, self._folder, self._clock() - self._days * DAY_MICROS)

    def _write(self, taken: dict[SpaceUri, list[bytes]]) -> int:
        lost = 0
        for space, lines in taken.items():
            try:
                LogFile(self._folder, space).append(lines, self._max_bytes)
            except OSError:
                lost += len(lines)
        return lost

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pruned = -PRUNE_SECONDS
        while not self._background.is_ending:
            try:
                if loop.time() - pruned >= PRUNE_SECONDS:
                    pruned = loop.time()
                    await self.prune()
                await self.flush()
            except Exception as error:
                log.error("questions not kept", exc_info=error)
            await self._background.pause(INTERVAL_SECONDS)


def prune(folder: Path, before: int) -> None:
    """Remove the questions of a folder that are older than an instant; lines are in the order of time."""
    for path in folder.glob("*.jsonl"):
        with suppress(OSError):
            _prune(path, before)


def _prune(path: Path, before: int) -> None:
    keep_from = 0
    with path.open("rb") as file:
        for line in file:
            at = _instant(line)
            if at is not None and at >= before:
                break
            keep_from += len(line)
        if not keep_from:
            return
        file.seek(keep_from)
        rest = file.read()
    if not rest:
        path.unlink()
        return
    fresh = path.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - with a mode from the start
        file.write(rest)
    fresh.replace(path)


def _instant(line: bytes) -> int | None:
    try:
        return parse_micros(json.loads(line)["at"])
    except (ValueError, KeyError, TypeError, InvalidSyntax):
        return None


def read_log(folder: Path, space: SpaceUri) -> list[Asked]:
    """Read the kept questions of a space, oldest first; raise `StoreError` where the disk refuses."""
    try:
        return list(LogFile(folder, space).read())
    except OSError as error:
        raise StoreError(f"cannot read the kept questions: {error.strerror}") from error
