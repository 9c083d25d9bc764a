"""Where the official vectors and evaluation data lie, and how a test skips without them.

The folder is `../shared` beside the repository (or beside its parent folder, for a worktree), or what
`ENGRAM_SHARED` names. A parametrised test reads it while pytest collects: inside `cases`, so that only that
test is skipped where the data is absent. Outside, collecting fails there: its whole module would be skipped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REPOSITORY = Path(__file__).resolve().parent.parent


def shared_root() -> Path | None:
    """Find the folder of shared data; None where this machine has none."""
    named = os.environ.get("ENGRAM_SHARED")
    places = [Path(named)] if named else [parent / "shared" for parent in REPOSITORY.parents[:2]]
    return next((root for root in places if (root / "interop").is_dir()), None)


def shared_path(relative: str) -> Path:
    """Return the path of a shared file or folder; skip the test that asks when it is absent."""
    root = shared_root()
    if root is None:
        pytest.skip("no ../shared data here (set ENGRAM_SHARED)")
    path = root / relative
    if not path.exists():
        pytest.skip(f"no {relative} in the shared data")
    return path


def read_json(relative: str) -> Any:
    """Read a shared JSON file."""
    return json.loads(shared_path(relative).read_text("utf-8"))


def read_lines(relative: str) -> list[str]:
    """Read the cases of a shared text file, one a line; comments (`#`) and empty lines are left out."""
    lines = shared_path(relative).read_text("utf-8").split("\n")
    return [line for line in lines if line and not line.startswith("#")]


def cases(load: Callable[[], Iterable[Any]], width: int = 1) -> list[Any]:
    """Give `pytest.mark.parametrize` what `load` reads from the shared data, or one case that is skipped.

    `width` is the number of arguments of the test.
    """
    try:
        return list(load())
    except pytest.skip.Exception as absent:
        return [pytest.param(*[None] * width, marks=pytest.mark.skip(reason=str(absent)), id="absent")]
