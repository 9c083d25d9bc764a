"""Fixtures that every package's tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.shared_data import shared_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Give the path of a shared file, or skip with the reason: `shared("interop/engram/go.json")`."""
    return shared_path
