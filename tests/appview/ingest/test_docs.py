"""The pages on ingest and on sources have the limits of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from appview import sqlite
from appview.http import client, names, places
from appview.identity import handles, resolver
from appview.ingest import (
    backfill,
    car,
    claims,
    discovery,
    fairness,
    fetch,
    frames,
    hosts,
    intake,
    jetstream,
    json_events,
    mst,
    prover,
    scratch,
    strangers,
    tap,
    tracked,
    waiting,
    walks,
    whole,
)
from appview.memory import apply, complete
from appview.source_lines import KINDS, OPTIONS, parse_source
from lexicons import data

DOCS = Path(__file__).parents[3] / "docs"
PAGE = " ".join((DOCS / "sources.md").read_text(encoding="utf-8").split())
INGEST = " ".join((DOCS / "ingest.md").read_text(encoding="utf-8").split())
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
SECOND = 1_000_000
HOUR = 3600 * SECOND


def mb(size: int) -> str:
    """Write a number of bytes as the pages do."""
    return f"{size / 1_000_000:g} MB"


@pytest.mark.parametrize(
    "sentence",
    [
        f"Up to {claims.MAX_PROVING} records of a repo are asked for singly",
        f"Up to {claims.MAX_AHEAD:,} records of a repo are remembered as ahead",
        f"is asked up to {prover.LOOKS} times",
        f"goes on {jetstream.REWIND // SECOND} seconds before it",
        f"was not heard for {jetstream.MEMORY_OF_SERVER // HOUR} hours",
        f"every {discovery.EVERY // HOUR} hours after its end",
        f"asked for {hosts.PER_HOST['repo']} repos and {hosts.PER_HOST['record']} records",
        f"all hosts together for {hosts.TOTAL['repo']} and {hosts.TOTAL['record']}",
        f"longer than {hosts.PATIENCE['record']:.0f} seconds, or a repo that takes longer than"
        f" {hosts.PATIENCE['repo']:.0f},",
        f"goes on among {hosts.LONG['record']} and {hosts.LONG['repo']} more",
        f"comes with {places.MIN_RATE / 1000:.0f} kB a second is not slow",
        f"has {places.FIRST_PATIENCE:g} seconds the first time",
        f"({resolver.WEB_CONCURRENCY}, and {resolver.WEB_LONG} that take longer than"
        f" {resolver.WEB_PATIENCE:.0f} seconds), and so have handles",
        f"is asked for {resolver.CONCURRENCY} documents at once",
        f"A name has {names.SECONDS:.0f} seconds",
        f"not looked at again for {strangers.AGAIN // SECOND // 60} minutes",
        f"Up to {strangers.MAX_STRANGERS:,} strangers are followed",
        f"cannot be reached in {backfill.CANDIDATE_ATTEMPTS} attempts",
        f"gets {hosts.BURST:.0f} requests at once and {hosts.PER_SECOND:.0f} a second",
        f"asked for again after {handles.MAX_AGE // HOUR} hours",
        f"An account's document is kept for {resolver.MAX_AGE // HOUR} hours",
        f"No request follows more than {client.MAX_REDIRECTS} redirects",
    ],
)
def test_limits_are_those_of_the_code(sentence: str) -> None:
    assert sentence in PAGE


@pytest.mark.parametrize(
    "sentence",
    [
        f"Repos below {scratch.MEMORY_BYTES // 1_000_000} MB stay in memory",
        f"in turns of {walks.TURN_SECONDS} seconds",
        f"up to {whole.MAX_KNOWN:,} records are remembered",
        f"{mst.MAX_ENTRIES} entries, {mst.MAX_NODE_BYTES // 1_000} kB",
        f"{whole.MAX_TIMES} times the size of the repo, or {whole.MIN_ALLOWED_BYTES // 1_000_000} MB",
        f"up to {apply.MAX_ROUND:,} records and {complete.MAX_ROUND_BYTES // 1_000_000} MB at a time",
        f"again after {backfill.RETRY.base:.0f} seconds, then after twice as long each time, up to"
        f" {backfill.RETRY.cap / 3600:.0f} hour;",
        f"left alone for that long, up to {backfill.MAX_RETRY_AFTER / 3600:.0f} hours",
        f"a repo | {car.MAX_REPO_BYTES / 10**9:.0f} GB, {car.MAX_REPO_BLOCKS:,} blocks,"
        f" {fetch.REPO_SECONDS:.0f} seconds, {client.READ_SECONDS:.0f} without a byte |",
        f"a request to another server | {client.MAX_REDIRECTS} redirects |",
        f"an account's document | {resolver.MAX_AGE // HOUR} hours old |",
        f"Up to {backfill.MAX_UNWRITTEN} repos are between the walk and the disk",
        f"{tracked.HEAVY // 1_000} kB of blocks, each operation counted as {tracked.OP_WEIGHT / 1_000} kB",
        f"{fairness.AUTHOR_SHARE:,} characters of an author, {fairness.SPACE_SHARE:,} of a space,"
        f" {fairness.WHOLE:,} of all",
        f"{waiting.MAX_WAITING_EVENTS:,} commits, {waiting.MAX_WAITING_BYTES // 1_000_000} MB",
        f"and {complete.CHANGE_COST} for its rows.",
        f"A transaction takes about {fairness.WRITE_SECONDS} seconds",
        f"up to {fairness.MAX_TRANSACTION:,} characters",
        f"pieces of {fairness.MAX_PIECE:,} at most, a repo of {fairness.MAX_WHOLE:,}",
        f"more than {fairness.MAX_WHOLE:,} characters to write",
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
def test_limits_of_what_is_taken_are_those_of_the_code(sentence: str) -> None:
    assert sentence in INGEST


def test_handles_have_as_many_places_as_documents() -> None:
    shares = handles.CONCURRENCY, handles.LONG, handles.PATIENCE
    assert shares == (resolver.WEB_CONCURRENCY, resolver.WEB_LONG, resolver.WEB_PATIENCE)


def test_every_option_is_documented_with_its_kinds() -> None:
    rows = {
        name: {kind.strip() for kind in kinds.split(",")}
        for name, kinds in re.findall(
            r"^\| `(discover|proof|password-file)` \| ([^|]+) \|", CONFIGURATION, re.M
        )
    }
    for name in {name for each in OPTIONS.values() for name in each}:
        of = {kind for kind in KINDS if name in OPTIONS[kind]}
        assert rows[name] == ({"all"} if of == set(KINDS) else of)


def test_lines_of_the_table_can_be_read() -> None:
    lines = re.findall(r"^\| `([^`]*://[^`]*)` \|", CONFIGURATION, re.M)
    assert {parse_source(line).kind for line in lines} == set(KINDS)
