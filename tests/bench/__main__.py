"""Run benchmarks: `python -m tests.bench [--only PREFIX]`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import pkgutil
import sys
from pathlib import Path

import structlog

from tests.bench import harness


async def run(prefix: str) -> list[harness.Figure]:
    """Run what `prefix` selects, one after the other, and keep each result as it comes."""
    figures: list[harness.Figure] = []
    for name, function in harness.selected(prefix).items():
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        made = [figure for figure in await function() if figure.name.startswith(prefix)]
        harness.keep(made)
        figures += made
    return figures


def main() -> int:
    """Load every module of this package, then measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", default="", metavar="PREFIX", help="only figures whose names begin so")
    parser.add_argument("--list", action="store_true", help="print the names of the benchmarks")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name not in ("__main__", "harness"):
            importlib.import_module(f"tests.bench.{module.name}")
    chosen = harness.selected(options.only)
    if options.list:
        print("\n".join(chosen))
        return 0
    if not chosen:
        print(f"no benchmark has a name that begins with {options.only!r}", file=sys.stderr)
        return 2
    figures = asyncio.run(run(options.only))
    print(harness.table(figures))
    print(f"\nkept in {harness.LATEST.relative_to(harness.ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
