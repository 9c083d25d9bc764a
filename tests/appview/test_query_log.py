"""The log of questions: kept where it is wished, no larger and no longer than is told."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from appview.folder import QUERIES_FOLDER
from appview.query_log import DAY_MICROS, MAX_WAITING, Asked, LogFile, QueryLog, prune, read_log
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from pathlib import Path

SPACE, OTHER = SpaceUri.public(Did("did:plc:garden")), SpaceUri.public(Did("did:plc:other"))
NOW = 1_800_000_000_000_000
MODEL = ModelKey("m", "sha256:m", 2)


def make(folder: Path, *spaces: str, max_bytes: int = 1 << 20, days: int = 30) -> QueryLog:
    return QueryLog(folder / QUERIES_FOLDER, lambda: NOW, spaces, max_bytes=max_bytes, days=days)


def asked(text: str = "slugs", at: int = NOW) -> Asked:
    return Asked(at, text, "hybrid")


async def test_what_is_kept_can_be_read_back(tmp_path: Path) -> None:
    full = Asked(
        at=NOW,
        text='schnecken\n"im" Salat 🐌',
        mode="vector",
        vector=b"\x00\x3c\x00\x00",
        model=MODEL,
        author="did:plc:alice",
        tags=("/a", "b=c"),
        since=NOW - 1000,
        include_superseded=True,
        subject="did:plc:bob",
    )
    log = make(tmp_path, SPACE)
    log.note(SPACE, full)
    log.note(SPACE, asked())
    await log.flush()
    assert read_log(tmp_path / QUERIES_FOLDER, SPACE) == [full, asked()]
    path = LogFile(tmp_path / QUERIES_FOLDER, SPACE).newer
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert set(json.loads(path.read_text().splitlines()[1])) == {"at", "query", "mode"}


@pytest.mark.parametrize(("named", "kept"), [((), []), ((SPACE,), [SPACE]), (("all",), [SPACE, OTHER])])
async def test_only_spaces_that_are_named_are_kept(
    tmp_path: Path, named: tuple[str, ...], kept: list[SpaceUri]
) -> None:
    log = make(tmp_path, *named)
    for space in (SPACE, OTHER):
        assert log.keeps(space) is (space in kept)
        log.note(space, asked())
    await log.flush()
    assert [space for space in (SPACE, OTHER) if read_log(tmp_path / QUERIES_FOLDER, space)] == kept
    assert (tmp_path / QUERIES_FOLDER).exists() is bool(kept)


async def test_a_file_never_grows_beyond_its_limit_and_keeps_the_newest(tmp_path: Path) -> None:
    log = make(tmp_path, SPACE, max_bytes=10_000)
    for number in range(400):
        log.note(SPACE, asked(f"question {number}"))
        if number % 50 == 0:
            await log.flush()
            assert sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl")) <= 10_000
    await log.flush()
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl")) <= 10_000
    texts = [each.text for each in read_log(tmp_path / QUERIES_FOLDER, SPACE)]
    assert texts == [f"question {number}" for number in range(400 - len(texts), 400)]
    assert len(texts) > 50


async def test_what_is_too_old_goes(tmp_path: Path) -> None:
    log = make(tmp_path, SPACE, days=30)
    ages = [31, 30, 29, 1]
    for age in ages:
        log.note(SPACE, asked(f"{age} days", NOW - age * DAY_MICROS))
    log.note(SPACE, asked())
    await log.flush()
    await make(tmp_path, days=30).prune()  # of whatever runs later, though it keeps nothing
    found = [each.text for each in read_log(tmp_path / QUERIES_FOLDER, SPACE)]
    assert found == ["30 days", "29 days", "1 days", "slugs"]
    prune(tmp_path / QUERIES_FOLDER, NOW + 1)
    assert list((tmp_path / QUERIES_FOLDER).iterdir()) == []


async def test_a_line_that_a_crash_cut_off_costs_that_line(tmp_path: Path) -> None:
    log = make(tmp_path, SPACE)
    log.note(SPACE, asked("one"))
    await log.flush()
    path = LogFile(tmp_path / QUERIES_FOLDER, SPACE).newer
    path.write_bytes(path.read_bytes() + b'{"at": "2026')
    log.note(SPACE, asked("two"))
    await log.flush()
    assert [each.text for each in read_log(tmp_path / QUERIES_FOLDER, SPACE)] == ["one", "two"]
    prune(path.parent, NOW)
    assert [each.text for each in read_log(tmp_path / QUERIES_FOLDER, SPACE)] == ["one", "two"]


async def test_too_many_at_once_are_left_out(tmp_path: Path) -> None:
    log = make(tmp_path, SPACE, max_bytes=1 << 26)
    for _ in range(MAX_WAITING + 5):
        log.note(SPACE, asked())
    await log.flush()
    assert len(read_log(tmp_path / QUERIES_FOLDER, SPACE)) == MAX_WAITING
    log.note(SPACE, asked())
    await log.flush()
    assert len(read_log(tmp_path / QUERIES_FOLDER, SPACE)) == MAX_WAITING + 1


async def test_a_disk_that_refuses_costs_questions_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / QUERIES_FOLDER).write_text("not a folder")
    log = make(tmp_path, SPACE)
    log.start()
    log.note(SPACE, asked())
    await log.close()


async def test_closing_writes_what_waits(tmp_path: Path) -> None:
    log = make(tmp_path, SPACE)
    log.start()
    log.note(SPACE, asked())
    await log.close()
    assert read_log(tmp_path / QUERIES_FOLDER, SPACE) == [asked()]
    assert LogFile(tmp_path / QUERIES_FOLDER, SPACE).remove()
    assert not LogFile(tmp_path / QUERIES_FOLDER, SPACE).remove()
