"""What a running appview tells of itself: numbers for its command line, metrics in Prometheus' text format.

`Ingest.status()` and the `Reanalyser` are where numbers come from. Pure, but for the small file in the data
folder through which `status` sees into a running server; it is replaced whole, so a reader never sees half of
it, and it counts only while the process that wrote it is the one that holds the folder.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from appview.folder import holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LIVE_FILE: Final = "live.json"
RATE_SECONDS: Final = 60  # what rates are averaged over
SECOND: Final = 1_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class Metric:
    """One family of numbers."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


METRICS: Final = (
    Metric("engram_source_connected", "gauge", "1 while a source is connected.", ("source",)),
    Metric("engram_source_reconnects_total", "counter", "Connections to a source made anew.", ("source",)),
    Metric("engram_source_lag_seconds", "gauge", "Age of the last event when it was taken.", ("source",)),
    Metric(
        "engram_source_lag_seq", "gauge", "How far what is on disk is behind what came, in seq.", ("source",)
    ),
    Metric("engram_source_last_event_timestamp_seconds", "gauge", "When the last event came.", ("source",)),
    Metric("engram_queue_items", "gauge", "Events or updates that wait, by place.", ("queue",)),
    Metric("engram_queue_bytes", "gauge", "Their size in bytes.", ("queue",)),
    Metric("engram_events_total", "counter", "Events by kind.", ("kind",)),
    Metric("engram_rejects_total", "counter", "Events that came to nothing, by reason.", ("reason",)),
    Metric("engram_records_total", "counter", "Records written, by outcome.", ("outcome",)),
    Metric("engram_configs_total", "counter", "Config records, by outcome.", ("outcome",)),
    Metric("engram_fetches_total", "counter", "Whole repos asked for, by outcome.", ("outcome",)),
    Metric(
        "engram_proofs_ahead_total",
        "counter",
        "Proofs asked of the second process, by outcome.",
        ("outcome",),
    ),
    Metric("engram_resyncs_total", "counter", "Times that a repo had to be fetched whole.", ()),
    Metric("engram_repos", "gauge", "Followed repos by state of synchronisation.", ("state",)),
    Metric("engram_accounts", "gauge", "Followed accounts by status.", ("status",)),
    Metric("engram_repos_to_fetch", "gauge", "Repos that wait to be fetched, or are on their way.", ()),
    Metric("engram_write_failing", "gauge", "1 while the disk refuses what is to be written.", ()),
    Metric("engram_reanalysis_spaces", "gauge", "Spaces whose words are still of another analysis.", ()),
    Metric(
        "engram_reanalysis_memories",
        "gauge",
        "Memories of the one at work: analysed anew, or left.",
        ("state",),
    ),
    Metric("engram_database_bytes", "gauge", "Size of the databases.", ("database",)),
    Metric("engram_wal_bytes", "gauge", "Size of their write-ahead logs.", ("database",)),
)
_BY_NAME: Final = {metric.name: metric for metric in METRICS}
_COUNTED: Final = ("events", "rejects", "records")


class Rates:
    """Events a second of the last minute, from totals that are sampled now and then."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[str, dict[str, int]]]] = deque()

    def sample(self, now: int, status: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """Take a sample and give the rates; what does not happen is left out."""
        totals = {name: dict(status[name]) for name in _COUNTED}
        if self._samples and self._samples[-1][0] > now:  # the clock was put back
            self._samples.clear()
        self._samples.append((now, totals))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_SECONDS * SECOND:
            self._samples.popleft()
        before, old = self._samples[0]
        seconds = (now - before) / SECOND
        if seconds <= 0:
            return {name: {} for name in _COUNTED}
        return {
            name: {
                key: round(change / seconds, 3)
                for key, total in totals[name].items()
                if (change := total - old[name].get(key, 0)) > 0
            }
            for name in _COUNTED
        }


def render(status: Mapping[str, Any], sizes: Mapping[str, tuple[int, int]]) -> str:
    """Write metrics as text; `sizes` has, for each database, its bytes and those of its log."""
    lines: list[str] = []
    family = None
    for name, labels, value in _samples(status, sizes):
        metric = _BY_NAME[name]
        if name != family:
            family = name
            lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]
        inside = ",".join(
            f'{label}="{_escape(text)}"' for label, text in zip(metric.labels, labels, strict=True)
        )
        lines.append((f"{name}{{{inside}}} " if inside else f"{name} ") + _number(value))
    return "\n".join(lines) + "\n"


def _samples(
    status: Mapping[str, Any], sizes: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    sources = status["sources"].items()
    for name, key in (
        ("engram_source_connected", "connected"),
        ("engram_source_reconnects_total", "reconnects"),
        ("engram_source_lag_seconds", "lag seconds"),
        ("engram_source_lag_seq", "lag seq"),
        ("engram_source_last_event_timestamp_seconds", "last event"),
    ):
        for source, each in sources:
            value = each.get(key)
            if value is not None:
                yield name, (source,), value / SECOND if key == "last event" else value
    queues: dict[str, tuple[int, int]] = {
        f"source {source}": (each["queued"], each["queued_bytes"])
        for source, each in sources
        if "queued" in each
    }
    queues["repos"] = (status["repos"]["waiting events"], status["repos"]["waiting bytes"])
    queues["disk"] = (status["writing"]["updates"], status["writing"]["bytes"])
    for queue, (items, _) in queues.items():
        yield "engram_queue_items", (queue,), items
    for queue, (_, size) in queues.items():
        yield "engram_queue_bytes", (queue,), size
    yield from _counted("engram_events_total", status["events"])
    yield from _counted("engram_rejects_total", status["rejects"])
    yield from _counted("engram_records_total", status["records"])
    yield from _counted("engram_configs_total", status["configs"])
    yield from _counted("engram_fetches_total", status["repos"]["fetches"])
    yield from _counted("engram_proofs_ahead_total", status["repos"]["proofs ahead"])
    yield "engram_resyncs_total", (), status["events"].get("resync", 0)
    yield from _counted("engram_repos", status["repos"]["states"])
    yield from _counted("engram_accounts", status["repos"]["accounts"])
    yield "engram_repos_to_fetch", (), status["repos"]["to fetch"]
    yield "engram_write_failing", (), status["failing"] is not None
    analysis = status["analysis"]
    yield "engram_reanalysis_spaces", (), analysis["spaces"]
    yield from _counted(
        "engram_reanalysis_memories",
        {"done": analysis["done"], "left": analysis["memories"] - analysis["done"]},
    )
    for database, (size, _) in sizes.items():
        yield "engram_database_bytes", (database,), size
    for database, (_, size) in sizes.items():
        yield "engram_wal_bytes", (database,), size


def _counted(name: str, counts: Mapping[str, int]) -> Iterable[tuple[str, tuple[str, ...], float]]:
    return [(name, (key,), value) for key, value in sorted(counts.items())]


def _number(value: float) -> str:
    """Write a number to its last digit, a truth as 1 or 0."""
    return repr(int(value) if isinstance(value, int) else value)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def database_sizes(control: Path, spaces: Path) -> dict[str, tuple[int, int]]:
    """Measure the databases: bytes of files and of write-ahead logs, of all spaces together."""
    files = list(spaces.glob("*.db"))
    return {
        "control": (_bytes(control), _bytes(Path(f"{control}-wal"))),
        "spaces": (sum(map(_bytes, files)), sum(_bytes(Path(f"{file}-wal")) for file in files)),
    }


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def write_live(data: Path, document: Mapping[str, Any]) -> None:
    """Let other processes see a document. A disk that refuses it is told of elsewhere."""
    path, fresh = data / LIVE_FILE, data / f"{LIVE_FILE}.new"
    with suppress(OSError):
        fresh.write_text(json.dumps(document), encoding="utf-8")
        fresh.replace(path)


def read_live(data: Path) -> dict[str, Any] | None:
    """Read what the running server last told, None where none runs."""
    try:
        document = json.loads((data / LIVE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    process = holder(data)
    if process is None or not isinstance(document, dict) or document.get("process") != process:
        return None
    return document
