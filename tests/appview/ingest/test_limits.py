"""What the page on ingest says is refused and what waits, and how the one on sources says hosts are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from appview import sqlite
from appview.http import client
from appview.identity import resolver
from appview.ingest import frames, intake, jetstream, json_events, tap, waiting
from lexicons import data

DOCS = Path(__file__).parents[3] / "docs"
SOURCES = " ".join((DOCS / "sources.md").read_text(encoding="utf-8").split())
INGEST = " ".join((DOCS / "ingest.md").read_text(encoding="utf-8").split())
HOUR = 3_600_000_000  # microseconds


def mb(size: int) -> str:
    """Write a number of bytes as the pages do."""
    return f"{size / 1_000_000:g} MB"


@pytest.mark.parametrize(
    "row",
    [
        f"a message | {mb(frames.MAX_FRAME_BYTES)} (protocol), {frames.MAX_ITEMS:,} values |",
        f"a commit | {frames.MAX_OPS} operations, {mb(frames.MAX_BLOCKS_BYTES)} of blocks (protocol) |",
        f"a record | {mb(data.MAX_RECORD_BYTES)} (protocol), {data.MAX_RECORD_ITEMS} values;",
        *(
            f"a message of Jetstream or Tap | {mb(size)}, {json_events.MAX_ITEMS:,} values |"
            for size in (jetstream.MAX_MESSAGE_BYTES, tap.MAX_MESSAGE_BYTES)
        ),
        f"what waits of all repos together | {mb(waiting.MAX_WAITING_TOTAL)} |",
        f"what is laid aside, as it may be anybody's | {waiting.MAX_ASIDE_EVENTS} events,"
        f" {mb(waiting.MAX_ASIDE_BYTES)} a repo, {mb(waiting.MAX_ASIDE_TOTAL)} in all |",
        f"frames taken from a source at once | {intake.BATCH_FRAMES}, {intake.MAX_SECONDS * 1000:.0f} ms |",
        f"a write-ahead log | {sqlite.MAX_JOURNAL_BYTES >> 20} MB,",
        f"a write waits for readers, up to {sqlite.BUSY_TIMEOUT_MS // 1000} seconds |",
    ],
)
def test_what_is_refused_and_what_waits_is_as_the_table_says(row: str) -> None:
    assert row in INGEST


@pytest.mark.parametrize(
    "sentence",
    [
        f"An account's document is kept for {resolver.MAX_AGE // HOUR} hours",
        f"No request follows more than {client.MAX_REDIRECTS} redirects",
    ],
)
def test_hosts_are_asked_as_the_page_says(sentence: str) -> None:
    assert sentence in SOURCES
