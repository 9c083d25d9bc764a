"""Time that passes only while nothing can happen, for tests of what takes seconds, or hours, by real limits.

Everything else is real: sockets on loopback with both ends in this process, files, threads. A test that is
`simulated` measures with the event loop's time: what it finds are the waits that the program chose, whatever
the machine is busy with. Invariants: time stands still while a socket has something to say or a thread is at
work; else it is at once the instant of the next timer.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
import time
from typing import TYPE_CHECKING, Any, Final

from appview.clock import now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Executor

GRACE: Final = 0.0001  # real seconds that a busy kernel gets to bring what was sent to its receiver
SECOND: Final = 1_000_000  # microseconds


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop of simulated time, which begins at 0."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.at_work = 0  # threads
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.elapsed

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, work: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, work, *arguments)
        self.at_work += 1
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _future: asyncio.Future[Any]) -> None:
        self.at_work -= 1


class _Selector(selectors.DefaultSelector):
    """Waits for sockets in real time, and for timers in simulated time."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or self._loop.at_work:
            return super().select(timeout if timeout is None or timeout <= 0 else None)
        ready = super().select(0)
        if not ready and timeout > 0:
            time.sleep(GRACE)
            ready = super().select(0)
            if not ready:
                self._loop.elapsed += timeout
        return ready


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in simulated time. It can have fixtures, but none that are asynchronous."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(test(*arguments, **named))

    return run


def simulated_clock() -> Callable[[], int]:
    """Give a clock (microseconds since 1970) that goes as the running event loop's time does."""
    loop, began = asyncio.get_running_loop(), now()
    return lambda: began + int(loop.time() * SECOND)


async def seconds_of(work: Awaitable[object]) -> float:
    """Tell how long something takes in the event loop's time."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    await work
    return loop.time() - start
