"""What every benchmark shares: how a figure looks, how it is printed and kept."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parent.parent.parent
LATEST = ROOT / ".bench" / "latest.json"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    `baseline` is the same quantity of the thing compared with, in the same unit and the same run. `goal` is a
    bound on `value`, or, where `goal_is_ratio`, on value / baseline; `more_is_better` says on which side.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    goal: float | None = None
    more_is_better: bool = False
    goal_is_ratio: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The value in multiples of the baseline."""
        return self.value / self.baseline if self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is no goal."""
        if self.goal is None:
            return None
        measured = self.ratio if self.goal_is_ratio else self.value
        if measured is None:
            return None
        return measured >= self.goal if self.more_is_better else measured <= self.goal

    def to_json(self) -> dict[str, object]:
        """Write the figure as the file of results holds it."""
        return {
            "name": self.name,
            "value": _round(self.value),
            "unit": self.unit,
            "baseline": None if self.baseline is None else _round(self.baseline),
            "ratio": None if self.ratio is None else _round(self.ratio),
            "goal": self.goal,
            "met": self.met,
            "note": self.note,
        }


Benchmark = Callable[[], Awaitable[Iterable[Figure]]]
_REGISTRY: dict[str, Benchmark] = {}
_EXPLICIT: set[str] = set()
_ONLY_WITH: dict[str, str] = {}


def benchmark(name: str, *, explicit: bool = False, only_with: str = "") -> Callable[[Benchmark], Benchmark]:
    """Register a benchmark under the prefix of the names of its figures.

    One that takes long runs only where it is named (`explicit`), or `only_with` a prefix that begins so.
    """

    def register(function: Benchmark) -> Benchmark:
        _REGISTRY[name] = function
        _ONLY_WITH[name] = only_with
        if explicit:
            _EXPLICIT.add(name)
        return function

    return register


def selected(prefix: str) -> dict[str, Benchmark]:
    """The benchmarks that can give figures whose names begin with `prefix`."""
    return {
        name: function
        for name, function in _REGISTRY.items()
        if (prefix.startswith(name) or (name.startswith(prefix) and (prefix or name not in _EXPLICIT)))
        and prefix.startswith(_ONLY_WITH[name])
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the values lie, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


@dataclass(slots=True)
class Timer:
    """Seconds of a block."""

    seconds: float = 0.0


@contextmanager
def timed() -> Iterator[Timer]:
    """Measure a block's wall time."""
    timer = Timer()
    start = perf_counter()
    try:
        yield timer
    finally:
        timer.seconds = perf_counter() - start


def table(figures: Sequence[Figure]) -> str:
    """Lay figures out for a terminal."""
    head = ("name", "value", "unit", "baseline", "ratio", "goal", "met")
    rows = [head] + [
        (
            figure.name,
            _show(figure.value),
            figure.unit,
            _show(figure.baseline),
            _show(figure.ratio),
            ("" if figure.goal is None else f"{'>=' if figure.more_is_better else '<='} {_show(figure.goal)}")
            + (" x" if figure.goal is not None and figure.goal_is_ratio else ""),
            {True: "yes", False: "NO", None: ""}[figure.met],
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 2, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def keep(figures: Sequence[Figure]) -> None:
    """Write the results, keeping earlier figures of other names."""
    earlier: list[dict[str, object]] = []
    if LATEST.exists():
        earlier = json.loads(LATEST.read_text(encoding="utf-8"))
    names = {figure.name for figure in figures}
    merged = [entry for entry in earlier if entry["name"] not in names]
    merged += [figure.to_json() for figure in figures]
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(
        json.dumps(sorted(merged, key=lambda entry: str(entry["name"])), indent=1) + "\n", encoding="utf-8"
    )


def _show(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _round(value: float) -> float:
    return float(f"{value:.4g}")
