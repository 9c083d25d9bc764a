"""`engram-appview repos`: the accounts that are followed, how far each is, and what is wrong with it."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from appview.cli.options import did_argument, opened, run_async, settings_options
from appview.cli.output import json_option, show, table
from appview.errors import NotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from appview.control import Control, RepoRow
    from appview.settings import Settings
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

POLL_SECONDS: Final = 0.5
BAR_CHARACTERS: Final = 36
THREADS: Final = 2


@click.group(invoke_without_command=True)
@click.pass_context
def repos(context: click.Context) -> None:
    """See the accounts that are followed: without another word, a list of them."""
    if context.invoked_subcommand is None:
        context.invoke(list_repos)


@repos.command("list")
@click.option("--watch", is_flag=True, help="Stay until every repo is fetched, with a progress bar.")
@json_option
@settings_options("data")
def list_repos(settings: Settings, watch: bool, as_json: bool) -> None:
    """List the followed accounts and how many of their repos are fetched."""

    async def work() -> dict[str, Any]:
        async with opened(settings) as (control, _):
            if watch:
                await _watch(control)
            return await _gather(control)

    document = run_async(work())
    show(document, _lines(document), as_json=as_json)


@repos.command("info")
@did_argument
@json_option
@settings_options("data")
def repo_info(settings: Settings, did: Did, as_json: bool) -> None:
    """Explain one account: its state, rev, records in each space, last error, next attempt."""

    async def work() -> dict[str, Any]:
        async with opened(settings) as (control, access):
            row = await control.repo(did)
            if row is None:
                raise NotFound(f"{did} is not followed", hint="who writes to a space is, and its authority")
            filled = await control.memberships()
            spaces = {space: state for (space, member), state in filled.items() if member == did}
            held = [await _held(settings, space, did) | {"state": state} for space, state in spaces.items()]
            for found in held:
                found["hidden"] |= did in await access.withheld.authors(found["space"])
            return _row(row) | {"spaces": held}

    document = run_async(work())
    show(document, _info_lines(document), as_json=as_json)


async def _gather(control: Control) -> dict[str, Any]:
    rows = await control.repos()
    states = Counter((await control.memberships()).values())
    return {
        "repos": [_row(row) for row in rows],
        "states": dict(sorted(Counter(row.sync_state for row in rows).items())),
        "filled": states["synced"],
        "toFill": states["synced"] + states["pending"],
    }


async def _watch(control: Control) -> None:
    """Draw a bar until everything is fetched, or until interrupted."""
    import asyncio

    filled, total = await _progress(control)
    with click.progressbar(length=max(total, 1), label="fetching repos", file=sys.stderr) as bar:
        bar.update(filled)
        while filled < total:
            await asyncio.sleep(POLL_SECONDS)
            before = filled
            filled, total = await _progress(control)
            bar.length = max(total, 1)
            bar.update(filled - before)


async def _progress(control: Control) -> tuple[int, int]:
    states = Counter((await control.memberships()).values())
    return states["synced"], states["synced"] + states["pending"]


async def _held(settings: Settings, space: SpaceUri, did: Did) -> dict[str, Any]:
    """Count what a space has of an account."""
    from concurrent.futures import ThreadPoolExecutor

    from appview.clock import now
    from appview.memory.pool import SpacePool
    from appview.search.analysis import analysis_of

    found: dict[str, Any] = {"space": space, "indexed": 0, "leftOut": 0, "rev": None, "hidden": False}
    with ThreadPoolExecutor(THREADS) as executor:
        pool = SpacePool(settings.spaces_folder, executor, now, analyser=analysis_of(settings.language))
        try:
            if pool.exists(space):
                async with pool.use(space) as store:
                    indexed, known = await store.versions(did), await store.live(did)
                    applied = await store.applied(did)
                    found |= {
                        "indexed": len(indexed),
                        "leftOut": len(known) - len(indexed),
                        "rev": None if applied is None else applied[0],
                        "hidden": await store.is_hidden(did),
                    }
        except StoreError as error:
            found["error"] = str(error)
        finally:
            await pool.close()
    return found


def _row(row: RepoRow) -> dict[str, Any]:
    return {
        "did": row.did,
        "handle": row.handle,
        "pds": row.pds,
        "status": row.status,
        "state": row.sync_state,
        "rev": row.rev,
        "data": row.data,
        "error": row.error,
        "attempts": row.attempts,
        "retryAt": None if row.retry_at is None else _instant(row.retry_at),
        "updatedAt": _instant(row.updated_at),
    }


def _lines(document: dict[str, Any]) -> Iterator[str]:
    rows = document["repos"]
    if not rows:
        yield "no repos are followed"
        return
    yield from table(
        [
            [
                row["did"],
                row["handle"] or "-",
                row["state"] if row["status"] == "active" else f"{row['state']}, {row['status']}",
                row["rev"] or "-",
                row["error"] or "",
            ]
            for row in rows
        ]
    )
    done, total = document["filled"], document["toFill"]
    marks = BAR_CHARACTERS if not total else BAR_CHARACTERS * done // total
    yield f"[{'#' * marks}{'-' * (BAR_CHARACTERS - marks)}] {done} of {total} fetched into their spaces"


def _info_lines(document: dict[str, Any]) -> Iterator[str]:
    yield f"{document['did']} ({document['handle'] or 'no handle that points back'})"
    yield f"  account: {document['status']}, at {document['pds'] or 'an unknown host'}"
    yield f"  state: {document['state']} at rev {document['rev'] or 'none'}, since {document['updatedAt']}"
    if document["error"] is not None:
        again = document["retryAt"] or "when there is news"
        yield f"  last error: {document['error']}; {document['attempts']} attempts, next {again}"
    for space in document["spaces"]:
        told = f"{space['indexed']} indexed, {space['leftOut']} left out"
        hidden = ", hidden" if space["hidden"] else ""
        yield f"  {space['space']}: {space['state']}{hidden}, {space.get('error') or told}"
    if not document["spaces"]:
        yield "  writes to no space"


def _instant(micros: int) -> str:
    instant = datetime.fromtimestamp(micros / 1_000_000, UTC)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
