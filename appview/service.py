"""A running appview: everything opened, wired and, at the end, closed again in order."""

from __future__ import annotations

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from appview.access.access import Access
from appview.access.callers import Callers
from appview.access.defaults import NewSpace
from appview.clock import now
from appview.collector import rare_collections
from appview.control import Control
from appview.descriptors import connections_for, raise_limit
from appview.errors import AppviewError
from appview.ingest.ingest import Ingest
from appview.memory.pool import SpacePool
from appview.memory.reanalyser import Reanalyser
from appview.observing import metrics_app, told_to_the_command_line
from appview.search.analysis import analysis_of
from appview.web.index import add_pages
from appview.web.pages import add_browsing
from appview.xrpc.app import ROUTES, make_app
from appview.xrpc.context import Context
from appview.xrpc.server import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from aiohttp import web

    from appview.settings import Settings
    from lexicons.spaces import SpaceUri

# How long a thread that wants to go on waits for one that computes. A question gives the interpreter up some
# fifty times, at each read of a file; with Python's 5 ms each could cost it that much while memories are
# analysed in another thread. Beside one that computes all the time a question takes half as long.
TURN_SECONDS: Final = 0.001
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
THREADS: Final = 8  # database work and repo walks that run at once

log = structlog.get_logger(__name__)


async def serve(settings: Settings, *, ready: Callable[[str], None] | None = None) -> None:
    """Follow the sources and answer queries until SIGTERM or SIGINT; what was received is then on disk.

    The caller holds the data folder. `ready` is told the URL once queries are answered. Raises `StoreError`
    where a database cannot be used, `ConfigurationError`, and `AppviewError` where the port is taken.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(short_turns())
        descriptors = raise_limit()
        executor = stack.enter_context(ThreadPoolExecutor(THREADS, thread_name_prefix="appview"))
        control = await Control.open(settings.control_file, executor)
        stack.push_async_callback(control.close)
        new_space = NewSpace.of(settings.reading, settings.space_rules)
        for line, reason in new_space.advice():
            log.warning("a rule for new spaces", rule=line, reason=reason)
        access = await Access.open(control, now, new_space=new_space)
        analysis = analysis_of(settings.language)
        pool = SpacePool(
            settings.spaces_folder, executor, now, analyser=analysis, max_open=settings.max_open_spaces
        )
        stack.push_async_callback(pool.close)
        ingest = Ingest(settings, control, access, pool, now)
        await ingest.prepare()
        callers = await stack.enter_async_context(
            Callers.opened(
                settings.service_did,
                ingest.resolver,
                control,
                now,
                key_seconds=settings.caller_key_seconds,
            )
        )
        reanalyser = Reanalyser(pool, analysis.version, partial(_declared, control))
        stack.push_async_callback(reanalyser.close)
        reanalyser.start()

        def status() -> dict[str, Any]:
            return {**ingest.status(), "analysis": reanalyser.standing.document()}

        context = Context.of(settings, control, access, pool, clock=now, callers=callers)
        running = asyncio.create_task(ingest.run(), name="ingest")
        try:
            stopping = stack.enter_context(_signals())
            stack.enter_context(rare_collections())
            await stack.enter_async_context(told_to_the_command_line(settings, status, now))
            if settings.metrics is not None:
                app = metrics_app(settings, status)
                url = await stack.enter_async_context(_listening(app, *settings.metrics, "--metrics"))
                log.info("metrics", url=f"{url}/metrics")
            limits = {
                "max_connections": connections_for(descriptors, settings.max_open_spaces),
                "trusted": settings.trusted_proxies,
            }
            async with _listening(
                make_site(context), settings.host, settings.port, "--port", **limits
            ) as url:
                log.info("listening", url=url, sources=list(settings.source))
                if ready is not None:
                    ready(url)
                await _first(stopping, running)
                log.info("stopping")
        finally:
            # Nothing is answered any more; ingest writes what it has.
            ingest.stop()
            await running
    log.info("stopped")


def make_site(context: Context) -> web.Application:
    """Make the application with all that it serves: methods, pages, and what it says of itself."""
    app = make_app(context)
    add_pages(app, context.settings)
    add_browsing(app, app[ROUTES].ask)
    return app


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns often inside the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


async def _declared(control: Control) -> list[SpaceUri]:
    return [row.uri for row in await control.spaces()]


@asynccontextmanager
async def _listening(
    app: web.Application, address: str, port: int, flag: str, **limits: Any
) -> AsyncIterator[str]:
    host = f"[{address}]" if ":" in address else address
    try:
        async with listening(app, address, port, **limits) as chosen:
            yield f"http://{host}:{chosen}"
    except OSError as error:
        raise AppviewError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint=f"see {flag}; port 0 takes any that is free",
        ) from error


async def _first(stopping: asyncio.Event, running: asyncio.Task[None]) -> None:
    """Wait for a signal, or for ingest to end, which it does only by failing."""
    waiter = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({waiter, running}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()


@contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """Give an event that SIGTERM and SIGINT set."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    try:
        yield stopping
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
