"""Proof ahead: while commits queue up, a second process proves those that come next.

The engine asks for each proof when it is there; where that of the same message with the same key was made
ahead it is taken, otherwise the commit is proven on the spot. Nobody waits for the process: one that is slow,
stuck or gone costs speed and nothing else, and one whose answers mostly come too late is left alone for a
while. What it could not prove is proven again here, so that every refusal is the engine's own.

It is started when there is something to do for it, and ended when there was nothing for a while.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import structlog

from appview.ingest.backoff import Backoff
from appview.ingest.commits import ProvenCommit, prove_commit
from appview.ingest.frames import CommitEvent
from appview.ingest.proof_process import ProofProcess
from appview.ingest.proof_worker import proven_commit
from appview.ingest.sieve import account_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from appview.clock import Clock
    from appview.identity.keys import PublicKey
    from appview.ingest.backoff import Random
    from appview.ingest.frames import Event
    from appview.ingest.stream import Item

FRAMES: Final = 16  # of one request
REQUESTS: Final = 6  # that are not answered, so that it never idles
MAX_FRAME_BYTES: Final = 50_000  # of a message that is proven ahead; what is larger waits for a turn anyway
BACKLOG: Final = 64  # messages behind those being taken, from which on the process is started
IDLE_SECONDS: Final = 300.0  # without a request, and it is ended
STUCK_SECONDS: Final = 30.0  # without an answer, and it is ended, and started again
MAX_LEAD: Final = 512  # messages left out, at most, between those being taken and those that are asked for
LATE: Final = 512  # answers that came too late, less those that did not, and it is left alone
REST_SECONDS: Final = 2.0  # for so long: there is no processor for it
LOOK_SECONDS: Final = 5.0  # between two looks at that
RESTART: Final = Backoff(base=1.0, cap=300.0)

log = structlog.get_logger(__name__)


class Foresight:
    """Proofs that were made ahead. Without `run` running there are none, and `prove` is `prove_commit`.

    `key_of(name)` gives the key of a repo, whose DID is `name` as bytes; None where none is to be used now.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        random: Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.key_of: Callable[[bytes], PublicKey | None] = lambda _name: None
        self.outcomes = Counter(ahead=0, late=0, lost=0)
        self._clock = clock
        self._random = random
        self._sleep = sleep
        self._process: ProofProcess | None = None
        self._needed = asyncio.Event()
        self._used_at = 0.0
        self._late = 0
        self._lead = 0  # grows with answers that come too late
        self._rests_until = 0.0
        self._asked: dict[
            bytes, tuple[PublicKey, Any]
        ] = {}  # by message; the outcome is None until it is there
        self._at_hand: tuple[CommitEvent, PublicKey, Any] | None = None

    async def run(self) -> None:
        """Keep a process while there is something for it to do, until cancelled."""
        failures = 0
        while True:
            await self._needed.wait()
            self._needed.clear()
            try:
                process = await ProofProcess.start()
            except OSError as error:
                failures += 1
                log.warning("no process that proves ahead", reason=str(error))
                await self._sleep(RESTART.seconds(failures, self._random))
                continue
            log.info("proving ahead", process=process.pid)
            self._process, self._used_at = process, asyncio.get_running_loop().time()
            try:
                failures = failures + 1 if await self._lost(process) else 0
            finally:
                self._process = None
                await process.close()
            if failures:
                self.outcomes["lost"] += 1
                log.warning("the process that proves ahead is gone", process=process.pid)
                await self._sleep(RESTART.seconds(failures, self._random))

    async def _lost(self, process: ProofProcess) -> bool:
        """Wait until a process is gone or stuck, or is not needed: then it is not lost."""
        loop = asyncio.get_running_loop()
        while process.silent_seconds < STUCK_SECONDS:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await process.ended.wait()
                return True
            except TimeoutError:
                if loop.time() - self._used_at > IDLE_SECONDS:
                    return False
        return True

    def look_ahead(self, items: Sequence[Item], taken: int) -> None:
        """Have proven what comes behind the first `taken` items."""
        if len(items) <= taken:
            return
        process = self._process
        if process is None:
            if len(items) >= taken + BACKLOG:
                self._needed.set()
            return
        room = REQUESTS - process.waiting
        if room <= 0 or asyncio.get_running_loop().time() < self._rests_until:
            return
        jobs: list[tuple[PublicKey, bytes]] = []
        for item in islice(items, taken + self._lead, None):
            if not isinstance(item, bytes) or item in self._asked or len(item) > MAX_FRAME_BYTES:
                continue
            name = account_of(item)
            key = None if name is None else self.key_of(name)
            if key is None:
                continue
            self._asked[item] = (key, None)
            jobs.append((key, item))
            if len(jobs) == FRAMES:
                self._ask(process, jobs)
                jobs, room = [], room - 1
                if not room:
                    return
        if jobs:
            self._ask(process, jobs)

    def _ask(self, process: ProofProcess, jobs: list[tuple[PublicKey, bytes]]) -> None:
        def hear(outcomes: list[Any]) -> None:
            for (key, frame), outcome in zip(jobs, outcomes, strict=True):
                if outcome is not None and frame in self._asked:
                    self._asked[frame] = (key, outcome)

        self._used_at = asyncio.get_running_loop().time()
        process.ask(jobs, self._clock(), hear)

    def meet(self, frame: bytes, event: Event) -> None:
        """Take note that this message is judged now, read as `event`."""
        key, outcome = self._asked.pop(frame, (None, None))
        self._at_hand = None
        if key is None:
            return
        self._count(is_late=outcome is None)
        if outcome is not None and isinstance(event, CommitEvent):
            self._at_hand = (event, key, outcome)

    def _count(self, *, is_late: bool) -> None:
        self.outcomes["late" if is_late else "ahead"] += 1
        self._late = self._late + 1 if is_late else max(0, self._late - 1)
        self._lead = min(MAX_LEAD, self._lead + 4) if is_late else max(0, self._lead - 1)
        if self._late >= LATE:
            self._late, self._rests_until = 0, asyncio.get_running_loop().time() + REST_SECONDS

    def prove(self, event: CommitEvent, key: PublicKey, now: int) -> ProvenCommit:
        """Do what `prove_commit` does."""
        at_hand, self._at_hand = self._at_hand, None
        if at_hand is not None and at_hand[0] is event and at_hand[1] == key:
            return proven_commit(event, at_hand[2])
        return prove_commit(event, key, now)

    def forget(self, items: Iterable[Item]) -> None:
        """Forget what was asked for messages that nobody will bring any more, or that could not be read."""
        for item in items if self._asked else ():
            if isinstance(item, bytes):
                self._asked.pop(item, None)
