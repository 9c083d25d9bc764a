"""What `status` says about a data folder."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from appview.access.access import Access
from appview.control import Control, RepoRow, SpaceRow
from appview.control_files import FileState
from appview.folder import hold_folder, make_folder, space_file_name
from appview.memory.store import SpaceStore
from appview.search.analysis import ANALYSIS
from appview.telemetry import write_live
from lexicons.configs import Config
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appview.cli.conftest import CommandLine

ALICE, BOB = Did("did:plc:" + "a" * 24), Did("did:web:bob.example")
SPACE = SpaceUri.public(ALICE)
MODEL = ModelKey("hashing-64", "sha256:hashing", 64)


async def make(path: Path, space: SpaceUri) -> FileState:
    """Make a space's file and write to it once."""
    with ThreadPoolExecutor(1) as executor:
        store = await SpaceStore.open(path, space, executor, lambda: 0, analyser=ANALYSIS)
        await store.configure(Config.declare(MODEL, created_at="2026-11-30T09:15:00.000Z"))
        await store.close()
        return store.state


@pytest.fixture
def running(engram: CommandLine) -> CommandLine:
    """A data folder with a space, a member, two repos of which one fails, and a cursor."""

    async def work() -> None:
        with ThreadPoolExecutor(1) as executor:
            control = await Control.open(engram.data / "control.db", executor)
            access = await Access.open(control, lambda: 0)
            config = Config.declare(MODEL, created_at="2026-11-30T09:15:00.000Z")
            await control.put_space(SpaceRow(SPACE, ALICE, "public", config, "bafy", "3jq", 1_000_000))
            await access.declare_space(SPACE)
            await access.add_member(SPACE, BOB, "operator")
            await control.put_membership(SPACE, ALICE, "synced")
            await control.put_membership(SPACE, BOB, "pending")
            await control.put_repos(
                [
                    RepoRow(ALICE, 1, sync_state="synchronized"),
                    RepoRow(
                        BOB,
                        1,
                        status="deactivated",
                        error="no\x1b[31m answer",
                        attempts=3,
                        retry_at=2_000_000,
                    ),
                ]
            )
            await control.set_cursor("wss://relay.example", 42, 3_000_000)
            await control.close()

    make_folder(engram.data / "spaces")
    (engram.data / "spaces" / space_file_name(SPACE)).write_bytes(b"x" * 1_234)
    asyncio.run(work())
    return engram


def test_json_has_every_fact(running: CommandLine) -> None:
    document = running("status", "--json").json
    assert document["spaces"] == [
        {
            "space": SPACE,
            "model": MODEL.to_record(),
            "next": None,
            "declaredAt": "1970-01-01T00:00:01.000Z",
            "writers": 2,
            "everyoneWrites": False,
            "pendingWriters": 1,
            "bytes": 1_234,
            "problem": "file is not a database",
            "repair": None,
        }
    ]
    assert document["repos"] == {"pending": 1, "synchronized": 1}
    assert document["accounts"] == {"active": 1, "deactivated": 1}
    assert document["failing"] == [
        {"did": BOB, "error": "no\x1b[31m answer", "attempts": 3, "retryAt": "1970-01-01T00:00:02.000Z"}
    ]
    assert document["sources"] == [
        {"source": "wss://relay.example", "position": 42, "updatedAt": "1970-01-01T00:00:03.000Z"}
    ]
    assert document["bytes"]["spaces"] == 1_234
    assert document["bytes"]["control"] > 0
    assert (document["rules"], document["policyVersion"]) == (11, 3)


def test_a_space_where_everyone_may_write_says_so_and_counts_who_does(running: CommandLine) -> None:
    async def work() -> None:
        with ThreadPoolExecutor(1) as executor:
            control = await Control.open(running.data / "control.db", executor)
            await control.put_membership(SPACE, Did("did:web:stranger.example"), "synced")
            await control.close()

    asyncio.run(work())
    assert f"  {SPACE}  hashing-64  2 writers (1 to fetch)" in running("status").out
    running("policy", "add", f"p, role:everyone, {SPACE}, path:/open/*, write, allow")
    assert f"  {SPACE}  hashing-64  3 writers, open to everyone (1 to fetch)" in running("status").out


def test_lines_are_readable_and_drive_no_terminal(running: CommandLine) -> None:
    out = running("status").out
    assert f"  {SPACE}  hashing-64  2 writers (1 to fetch)  1.2 kB\n" in out
    assert "repos: 1 pending, 1 synchronized\n" in out
    assert "\x1b" not in out
    assert "no\\u001b[31m answer (3 attempts, again at 1970-01-01T00:00:02.000Z)" in out
    assert "not running" in out


def test_a_space_whose_file_is_damaged_is_marked(running: CommandLine) -> None:
    name = space_file_name(SPACE)
    assert f"  DAMAGED {SPACE}: file is not a database ({name})\n" in running("status").out
    path = running.data / "spaces" / name
    path.unlink()
    assert "the file is lost, or empty" in running("status").out
    path.touch()
    assert "the file is lost, or empty" in running("status").out
    asyncio.run(make(path, SPACE))
    assert "DAMAGED" not in running("status").out
    assert running("status", "--json").json["spaces"][0]["problem"] is None
    path.unlink()
    asyncio.run(make(path, SpaceUri.public(BOB)))
    assert f"  DAMAGED {SPACE}: the file holds the space at://{BOB}/" in running("status").out


def test_a_file_that_is_not_the_one_that_was_written_last_is_marked(running: CommandLine) -> None:
    path = running.data / "spaces" / space_file_name(SPACE)
    path.unlink()
    state = asyncio.run(make(path, SPACE))

    async def work(noted: FileState) -> None:
        with ThreadPoolExecutor(1) as executor:
            control = await Control.open(running.data / "control.db", executor)
            await control.files.put({SPACE: noted})
            await control.ask_repair(SPACE, "refill", 1)
            await control.close()

    for noted, is_right in (
        (state, True),
        (FileState(state.made, state.writes - 1), True),  # ahead, as after a crash
        (FileState(state.made, state.writes + 1), False),
        (FileState("another", 0), False),
    ):
        asyncio.run(work(noted))
        assert ("it is older, or was made anew" in running("status").out) is not is_right
    assert f"  TO REPAIR {SPACE}: filled again from its authors' repos once" in running("status").out
    assert running("status", "--json").json["spaces"][0]["repair"] == "refill"


def test_running_process_is_named_and_not_disturbed(running: CommandLine) -> None:
    with hold_folder(running.data):
        assert running("status", "--json").json["process"] == os.getpid()
        assert f"process {os.getpid()}" in running("status").out
        assert running("member", "add", ALICE, "did:web:carol.example").code == 0
    assert running("status", "--json").json["process"] is None


def test_words_that_are_made_anew_are_told(running: CommandLine) -> None:
    document: dict[str, Any] = {
        "process": os.getpid(),
        "sources": {},
        "rates": {"events": {}, "records": {}, "rejects": {}},
        **{name: {} for name in ("events", "records", "rejects")},
        "repos": {"to fetch": 0, "waiting events": 0},
        "writing": {"updates": 0},
        "failing": None,
        "analysis": {"spaces": 2, "space": SPACE, "done": 1_500, "memories": 4_000},
    }
    with hold_folder(running.data):
        write_live(running.data, document)
        assert f"  analysing anew: 2 spaces; 1500 of 4000 memories of {SPACE}" in running("status").out
        write_live(running.data, {**document, "analysis": {**document["analysis"], "spaces": 0}})
        assert "analysing anew" not in running("status").out
        del document["analysis"]  # what a server of before writes
        write_live(running.data, document)
        assert running("status").code == 0
