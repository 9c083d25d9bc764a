"""`engram-appview verify`: prove that what is served is what the authors' repos hold."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from appview.cli.options import opened, optional_space_argument, run_async, settings_options
from appview.cli.output import json_option, show
from appview.errors import NotFound
from appview.folder import hold_folder, holder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from appview.access.access import Access
    from appview.control import Control, SpaceRow
    from appview.ingest.verification import AuthorReport, SpaceReport, Verifier
    from appview.memory.pool import SpacePool
    from appview.settings import Settings
    from lexicons.spaces import SpaceUri

EXIT_DIFFERENT: Final = 1
EXIT_UNREACHABLE: Final = 6  # no repo could be fetched
EXIT_PARTLY: Final = 7  # some could not
THREADS: Final = 4
VERDICTS: Final = {True: "equal", False: "differs", None: "not proven"}
MAX_SHOWN: Final = 20  # differences of one author in readable output


@click.command()
@optional_space_argument
@click.option("--repair", is_flag=True, help="Put right what differs: by a running server, or without one.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 86_400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for repairs.",
)
@json_option
@settings_options("data", "plc_url", "allow_loopback", "registration")
def verify(settings: Settings, space: SpaceUri | None, repair: bool, wait: float, as_json: bool) -> int:
    """Prove that what is served of SPACE, or of every space, is what its authors' repos hold.

    Each author's repo is fetched, proven and compared. Works beside a running server. Ends with 0 where
    everything is equal, 1 where something differs, 6 where no repo could be fetched, 7 where some could not.
    """

    async def work() -> tuple[list[SpaceReport], list[SpaceReport] | None]:
        async with _verifier(settings) as (verifier, control, access, pool):
            rows = [row for row in await control.spaces() if space is None or row.uri == space]
            if space is not None and not rows:
                raise NotFound(f"there is no space {space}", hint="engram-appview space list names them")
            with _progress() as done:
                first = await verifier.verify(rows, done)
            if not repair or not any(report.differs for report in first):
                return first, None
            await verifier.ask_for_repairs(first)
            await _carried_out(settings, verifier, control, access, pool, first, wait)
            return first, await verifier.verify([row for row in rows if _differed(row, first)])

    first, second = run_async(work())
    now = {report.space: report for report in [*first, *(second or ())]}
    repaired = [report.space for report in second or () if report.equal]
    document = {"spaces": [_document(report) for report in now.values()], "repaired": repaired}
    show(document, _lines(list(now.values()), repaired), as_json=as_json)
    return _exit_code(list(now.values()))


def _differed(row: SpaceRow, reports: Sequence[SpaceReport]) -> bool:
    return any(report.space == row.uri and report.differs for report in reports)


def _exit_code(reports: Sequence[SpaceReport]) -> int:
    unreachable = sum(report.unreachable for report in reports)
    if any(report.differs for report in reports):
        return EXIT_DIFFERENT
    if unreachable:
        return (
            EXIT_PARTLY if unreachable < sum(len(report.authors) for report in reports) else EXIT_UNREACHABLE
        )
    return 0


@asynccontextmanager
async def _verifier(settings: Settings) -> AsyncIterator[tuple[Verifier, Control, Access, SpacePool]]:
    from concurrent.futures import ThreadPoolExecutor

    from appview import logs
    from appview.clock import now
    from appview.http.client import HttpClient
    from appview.identity.resolver import Resolver
    from appview.ingest.fetch import RepoFetcher
    from appview.ingest.verification import Verifier
    from appview.memory.pool import SpacePool
    from appview.search.analysis import analysis_of

    logs.configure("console", "error")
    async with AsyncExitStack() as stack:
        control, access = await stack.enter_async_context(opened(settings))
        executor = stack.enter_context(ThreadPoolExecutor(THREADS))
        pool = SpacePool(settings.spaces_folder, executor, now, analyser=analysis_of(settings.language))
        stack.push_async_callback(pool.close)
        client = await stack.enter_async_context(HttpClient(allow_loopback=settings.allow_loopback))
        fetcher = RepoFetcher(client, Resolver(client, settings.plc_url, now), now, settings.data)
        serving = holder(settings.data) is not None
        yield Verifier(control, access, pool, fetcher, now, serving=serving), control, access, pool


async def _carried_out(
    settings: Settings,
    verifier: Verifier,
    control: Control,
    access: Access,
    pool: SpacePool,
    reports: Sequence[SpaceReport],
    seconds: float,
) -> None:
    """Wait for the repairs; where no server is running, be the one that makes them."""
    import asyncio

    from appview.clock import now
    from appview.ingest.ingest import Ingest

    if holder(settings.data) is not None:
        await pool.forget()  # the server may set files aside
        await verifier.until_repaired(reports, seconds)
        return
    with hold_folder(settings.data):
        await pool.forget()  # what was opened by now was not looked at
        ingest = Ingest(replace(settings, source=()), control, access, pool, now)
        await ingest.prepare()
        running = asyncio.create_task(ingest.run())
        try:
            await verifier.until_repaired(reports, seconds)
        finally:
            ingest.stop()
            await running


class _progress:
    """A bar on stderr where that is a terminal; gives what is to be told how far things are."""

    def __enter__(self) -> Callable[[int, int], None]:
        self._bar: Any = None

        def done(finished: int, total: int) -> None:
            if not sys.stderr.isatty():
                return
            if self._bar is None:
                self._bar = click.progressbar(length=total, label="repos", file=sys.stderr)
            self._bar.update(1)
            if finished == total:
                self._bar.render_finish()

        return done

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.render_finish()


def _document(report: SpaceReport) -> dict[str, Any]:
    return {
        "space": report.space,
        "equal": report.equal,
        "findings": list(report.findings),
        "authors": [
            {
                "did": author.did,
                "state": author.state,
                "status": author.status,
                "rev": author.rev,
                "records": author.records,
                "error": author.error,
                "differences": [
                    {"rkey": each.rkey, "kind": each.kind, "served": each.served, "repo": each.repo}
                    for each in author.differences
                ],
            }
            for author in report.authors
        ],
    }


def _lines(reports: Sequence[SpaceReport], repaired: Sequence[SpaceUri]) -> Iterator[str]:
    for report in reports:
        counts = [f"{len(report.authors)} authors", f"{sum(each.records for each in report.authors)} records"]
        if report.unreachable:
            counts.insert(1, f"{report.unreachable} could not be fetched")
        verdict = "repaired" if report.space in repaired else VERDICTS[report.equal]
        yield f"{report.space}: {verdict} ({', '.join(counts)})"
        for finding in report.findings:
            yield f"  in the file: {finding}"
        for author in report.authors:
            yield from _author_lines(author)


def _author_lines(author: AuthorReport) -> Iterator[str]:
    if author.state == "equal" and author.status == "active":
        return
    told = author.error or (author.status if author.status != "active" else author.rev)
    yield f"  {author.did}: {author.state} ({told})"
    for each in author.differences[:MAX_SHOWN]:
        subject = each.rkey or "all records"
        yield f"    {each.kind}: {subject}, served {each.served or 'nothing'}, repo {each.repo or 'nothing'}"
    if len(author.differences) > MAX_SHOWN:
        yield f"    and {len(author.differences) - MAX_SHOWN} more; --json lists all"
