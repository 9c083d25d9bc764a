"""`engram-appview status`: what is in the data folder, read beside a server that may be running."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from appview.cli.options import opened, run_async, settings_options
from appview.cli.output import json_option, show, table
from appview.control_files import OUTDATED
from appview.folder import holder, space_file_name
from appview.telemetry import database_sizes, read_live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from appview.access.access import Access
    from appview.control import Control, SpaceRow
    from appview.control_files import FileState
    from appview.settings import Settings

_REPAIRS: Final = {
    "mend": "what follows from its facts is to be derived anew",
    "refill": "filled again from its authors' repos once its file is back",
    "rebuild": "to be built anew from its authors' repos",
}


@click.command()
@json_option
@settings_options("data")
def status(settings: Settings, as_json: bool) -> None:
    """Show spaces, followed accounts by state, positions in the sources, and sizes on disk."""

    async def work() -> dict[str, Any]:
        async with opened(settings) as (control, access):
            return await _gather(settings, control, access)

    document = run_async(work())
    show(document, _lines(document), as_json=as_json)


async def _gather(settings: Settings, control: Control, access: Access) -> dict[str, Any]:
    repos = await control.repos()
    noted, repairs = await control.files.all(), await control.repairs()
    pending = Counter(
        space for (space, _), state in (await control.memberships()).items() if state == "pending"
    )
    return {
        "data": str(settings.data),
        "process": holder(settings.data),
        "policyVersion": access.version,
        "rules": len(access.statements),
        "spaces": [
            {
                "space": row.uri,
                "model": None if row.config is None else row.config.model.to_record(),
                "next": None
                if row.config is None or row.config.next is None
                else row.config.next.to_record(),
                "declaredAt": _instant(row.declared_at),
                "writers": len(access.known_writers(row.uri, await control.authors(row.uri))),
                "everyoneWrites": not access.authors(row.uri).others.is_nothing,
                "pendingWriters": pending[row.uri],
                "bytes": _size(settings.spaces_folder / space_file_name(row.uri)),
                "problem": _problem(settings, row, noted.get(row.uri)),
                "repair": repairs[row.uri][0] if row.uri in repairs else None,
            }
            for row in await control.spaces()
        ],
        "repos": dict(sorted(Counter(repo.sync_state for repo in repos).items())),
        "accounts": dict(sorted(Counter(repo.status for repo in repos).items())),
        "failing": [
            {
                "did": repo.did,
                "error": repo.error,
                "attempts": repo.attempts,
                "retryAt": None if repo.retry_at is None else _instant(repo.retry_at),
            }
            for repo in repos
            if repo.error is not None
        ],
        "live": read_live(settings.data),
        "sources": [
            {"source": source, "position": position, "updatedAt": _instant(updated_at)}
            for source, (position, updated_at) in (await control.cursors()).items()
        ],
        "bytes": {
            "control": _size(settings.control_file),
            "spaces": sum(path.stat().st_size for path in settings.spaces_folder.glob("*")),
            "wal": sum(
                log for _, log in database_sizes(settings.control_file, settings.spaces_folder).values()
            ),
        },
    }


def _problem(settings: Settings, row: SpaceRow, noted: FileState | None) -> str | None:
    """Say why a space's file cannot be used as it is, None where it can."""
    from appview.errors import StoreError
    from appview.memory.store import examine

    try:
        state = examine(settings.spaces_folder / space_file_name(row.uri), row.uri)
    except StoreError as error:
        return str(error.__cause__ or error)
    if state is None:
        return None if noted is None and row.config is None else "the file is lost, or empty"
    return OUTDATED if noted is not None and state.lacks(noted) else None


def _lines(status: dict[str, Any]) -> Iterator[str]:
    running = f"process {status['process']}" if status["process"] is not None else "not running"
    yield f"{status['data']}: {running}, {status['rules']} rules (version {status['policyVersion']})"
    sizes = status["bytes"]
    yield f"on disk: {_amount(sizes['control'])} control, {_amount(sizes['spaces'])} spaces, of that"
    yield f"  {_amount(sizes['wal'])} in write-ahead logs"
    if status["live"] is not None:
        yield "now:"
        yield from _live_lines(status["live"])
    yield "spaces: " + (str(len(status["spaces"])) if status["spaces"] else "none")
    yield from table(
        [
            [
                row["space"],
                row["model"]["model"] if row["model"] else "no config record",
                f"{row['writers']} writers"
                + (", open to everyone" if row["everyoneWrites"] else "")
                + (f" ({row['pendingWriters']} to fetch)" if row["pendingWriters"] else ""),
                _amount(row["bytes"]),
            ]
            for row in status["spaces"]
        ],
        indent="  ",
    )
    for row in status["spaces"]:
        if row["problem"] is not None:
            yield f"  DAMAGED {row['space']}: {row['problem']} ({space_file_name(row['space'])})"
        if row["repair"] is not None:
            yield f"  TO REPAIR {row['space']}: {_REPAIRS[row['repair']]}"
    yield "repos: " + (", ".join(f"{count} {state}" for state, count in status["repos"].items()) or "none")
    if set(status["accounts"]) - {"active"}:
        yield "accounts: " + ", ".join(f"{count} {state}" for state, count in status["accounts"].items())
    for row in status["failing"]:
        retry = f", again at {row['retryAt']}" if row["retryAt"] else ""
        yield f"  {row['did']}: {row['error']} ({row['attempts']} attempts{retry})"
    yield "sources: " + ("" if status["sources"] else "none read yet")
    yield from table(
        [[row["source"], f"at {row['position']}", f"since {row['updatedAt']}"] for row in status["sources"]],
        indent="  ",
    )


def _live_lines(live: dict[str, Any]) -> Iterator[str]:
    """Tell what the running server says of itself."""
    for source, each in live["sources"].items():
        state = "connected" if each["connected"] else "NOT CONNECTED"
        lag = each.get("lag seconds")
        told = [state, f"{each.get('lag seq') or 0} behind in seq"]
        if lag is not None:
            told.append(f"last event was {lag:.1f} s old when it was taken")
        if each.get("last event") is not None:
            told.append(f"at {_instant(each['last event'])}")
        yield f"  {source}: {', '.join(told)}"
    for name in ("events", "records", "rejects"):
        rates, totals = live["rates"][name], live[name]
        shown = ", ".join(f"{rates.get(key, 0):g}/s {key} ({total})" for key, total in sorted(totals.items()))
        yield f"  {name}: {shown or 'none'}"
    waiting, writing = live["repos"], live["writing"]
    yield (
        f"  waiting: {waiting['to fetch']} repos to fetch, {waiting['waiting events']} events behind repos,"
        f" {writing['updates']} updates for the disk"
    )
    analysis = live.get("analysis")
    if analysis and analysis["spaces"]:
        yield (
            f"  analysing anew: {analysis['spaces']} spaces; {analysis['done']} of {analysis['memories']}"
            f" memories of {analysis['space']}"
        )
    if live["failing"] is not None:
        yield f"  CANNOT WRITE: {live['failing']}"


def _instant(micros: int) -> str:
    return (
        datetime.fromtimestamp(micros / 1_000_000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _size(path: Path) -> int:
    """Add up a database and the log that goes with it."""
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _amount(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1_000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:.1f} GB"
