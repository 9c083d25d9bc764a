"""Metrics and live numbers: complete, documented, true of a running appview."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from appview.clock import now
from appview.folder import hold_folder
from appview.ingest.frames import frame_time
from appview.memory.reanalyser import Standing
from appview.telemetry import METRICS, Rates, database_sizes, read_live, render, write_live
from lexicons.ids import MEMORY
from tests.appview.ingest.world import World, memory, rkey
from tests.appview.process import Appview, command, environment
from tests.appview.test_service import declare, until_settled
from tests.network.synthetic import Account, Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = (Path(__file__).parents[2] / "docs" / "ingest.md").read_text(encoding="utf-8")
SECOND = 1_000_000


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    async with Network() as network:
        yield network


def values(text: str) -> dict[str, float]:
    """Read metrics the way a collector does; what is no metric fails."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line), line
            continue
        match = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})?) (-?[0-9.e+-]+)', line)
        assert match is not None, line
        assert match[1] not in found, f"{line} comes twice"
        found[match[1]] = float(match[2])
    return found


async def test_a_running_ingest_gives_every_metric(network: Network, tmp_path: Path) -> None:
    world = World(network, tmp_path)
    async with world.running():
        alice, space = world.authority()
        world.remember(alice, "compost")
        await world.until_mirrored(space, alice)
        await world.until_caught_up()
        world.network.create(alice, str(MEMORY), rkey(), memory("forged"), corrupt="wrong-key")
        await world.until_status(lambda status: bool(status["rejects"]))
        await world.until_caught_up()
        sizes = database_sizes(world.settings.control_file, world.settings.spaces_folder)
        text = render({**world.ingest.status(), "analysis": Standing().document()}, sizes)
    found = values(text)
    assert {re.split(r"[{ ]", name)[0] for name in found} == {metric.name for metric in METRICS}
    assert re.findall(r"# TYPE (\S+)", text) == list(dict.fromkeys(re.findall(r"# TYPE (\S+)", text)))
    source = next(name for name in found if name.startswith("engram_source_lag_seconds"))
    assert 0 <= found[source] < 30
    assert found[source.replace("lag_seconds", "lag_seq")] == 0
    assert found['engram_records_total{outcome="created"}'] == 1
    assert sum(value for name, value in found.items() if name.startswith("engram_repos{")) == 1
    assert found['engram_rejects_total{reason="bad-signature"}'] == 1
    assert found['engram_database_bytes{database="spaces"}'] > 0


def told(**more: Any) -> dict[str, Any]:
    """Give what an ingest tells of itself, little of everything but for what is given."""
    return {
        "sources": {},
        "events": {},
        "rejects": {},
        "records": {},
        "configs": {},
        "repos": {
            "waiting events": 0,
            "waiting bytes": 0,
            "to fetch": 0,
            "fetches": {},
            "proofs ahead": {},
            "states": {},
            "accounts": {},
        },
        "writing": {"updates": 0, "bytes": 0},
        "failing": None,
        "analysis": {"spaces": 2, "space": "at://x", "done": 30, "memories": 50},
        **more,
    }


def test_large_numbers_keep_their_last_digit() -> None:
    source = {
        "connected": True,
        "reconnects": 0,
        "lag seconds": 1234.567891,
        "lag seq": 98_765_432_109,
        "last event": 1_796_043_125_123_456,
    }
    status = told(sources={"x": source}, events={"CommitEvent": 12_345_678})
    text = render(status, {"control": (1_234_567_890_123, 7_654_321)})
    found = values(text)
    assert found['engram_source_last_event_timestamp_seconds{source="x"}'] == 1_796_043_125.123456
    assert found['engram_source_lag_seq{source="x"}'] == 98_765_432_109
    assert found['engram_source_lag_seconds{source="x"}'] == 1234.567891
    assert found['engram_events_total{kind="CommitEvent"}'] == 12_345_678
    assert found['engram_database_bytes{database="control"}'] == 1_234_567_890_123
    assert found['engram_wal_bytes{database="control"}'] == 7_654_321


def test_hostile_text_stays_inside_its_label() -> None:
    source = {"connected": True, "reconnects": 0}
    status = told(sources={'wss://x"\n\\': source}, failing="disk full")
    found = values(render(status, {}))
    assert found['engram_source_connected{source="wss://x\\"\\n\\\\"}'] == 1
    assert found["engram_write_failing"] == 1
    assert found["engram_reanalysis_spaces"] == 2
    assert found['engram_reanalysis_memories{state="left"}'] == 20


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_documented(metric: Any) -> None:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or ""
    assert f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |" in PAGE
    assert metric.name.endswith("_total") is (metric.kind == "counter")


def test_the_page_names_no_metric_that_is_none() -> None:
    assert set(re.findall(r"engram_[a-z_]+", PAGE)) == {metric.name for metric in METRICS}


def test_rates_are_those_of_the_last_minute() -> None:
    def status(count: int) -> dict[str, Any]:
        return {"events": {"CommitEvent": count}, "rejects": {}, "records": {}}

    rates = Rates()
    assert rates.sample(0, status(0))["events"] == {}
    assert rates.sample(10 * SECOND, status(50))["events"] == {"CommitEvent": 5.0}
    for second in range(20, 200, 10):
        last = rates.sample(second * SECOND, status(50))
    assert last["events"] == {}


def test_rates_go_on_after_the_clock_was_put_back() -> None:
    def status(count: int) -> dict[str, Any]:
        return {"events": {"CommitEvent": count}, "rejects": {}, "records": {}}

    rates = Rates()
    day = 24 * 3600 * SECOND
    rates.sample(day, status(0))
    assert rates.sample(0, status(10))["events"] == {}
    assert rates.sample(10 * SECOND, status(60))["events"] == {"CommitEvent": 5.0}
    assert len(rates._samples) == 2


def test_live_numbers_count_only_while_their_process_holds_the_folder(tmp_path: Path) -> None:
    assert read_live(tmp_path) is None
    write_live(tmp_path, {"process": os.getpid(), "at": 1})
    assert read_live(tmp_path) is None
    with hold_folder(tmp_path):
        assert read_live(tmp_path) == {"process": os.getpid(), "at": 1}
        write_live(tmp_path, {"process": os.getpid() + 1})
        assert read_live(tmp_path) is None
        (tmp_path / "live.json").write_text("{")
        assert read_live(tmp_path) is None
    write_live(tmp_path / "nowhere", {})


def test_the_time_of_a_message_is_read_without_a_parse() -> None:
    account = Account()
    frame = account.create(str(MEMORY), rkey(), memory("dtimex is no key here")).frame(1)
    sent = frame_time(frame)
    assert sent is not None and abs(sent - now()) < 60 * SECOND
    assert frame_time(account.identity_frame(1)) is not None
    for broken in (b"", b"dtimex", b"dtimex\x18", b"dtimex\x18\xff\xff", b"dtimex\x05hello"):
        assert frame_time(broken) is None


async def test_status_and_metrics_of_a_process(network: Network, tmp_path: Path) -> None:
    variables = environment(tmp_path, network.pds[0].url, network.plc.url, ENGRAM_METRICS="127.0.0.1:0")
    appview = await Appview.start(variables)
    try:
        url = await appview.url()
        alice, space = declare(network)
        network.create(alice, str(MEMORY), rkey(), memory("compost"))
        await until_settled(tmp_path, network)
        where = next(entry["url"] for entry in appview.log if entry["event"] == "metrics")
        async with aiohttp.ClientSession() as session:
            async with session.get(where) as response:
                assert response.status == 200
                assert response.headers["Content-Type"].startswith("text/plain")
                assert values(await response.text())['engram_records_total{outcome="created"}'] == 1
            async with session.get(f"{url}/metrics") as response:
                assert response.status == 404
        code, output = await command(variables, "status", "--json")
        live = json.loads(output)["live"]
        assert (code, live["process"]) == (0, appview.process.pid)
        assert set(live["rates"]) == {"events", "rejects", "records"}
        async with asyncio.timeout(20):  # the live numbers are written once a second
            while "CommitEvent" not in (output := (await command(variables, "status"))[1]):
                pass
        assert "now:" in output and "behind in seq" in output
        code, output = await command(variables, "repos", "info", alice.did)
        assert (code, "1 indexed, 0 left out" in output) == (0, True), output
        code, output = await command(variables, "repos")
        assert f"{alice.did}  " in output and "1 of 1 fetched" in output
    finally:
        assert await appview.stop() == 0
    assert json.loads((await command(variables, "status", "--json"))[1])["live"] is None
    assert str(space)
