"""Fixtures that every package's tests share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.shared_data import shared_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest_plugins = ["tests.network.fixtures", "tests.models"]

# A slow or busy machine is no fault of the code; the timeout of each test still holds.
# `ENGRAM_TEST_EXAMPLES` makes every property be tried so many times.
EXAMPLES = int(os.environ.get("ENGRAM_TEST_EXAMPLES", "0"))
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Give the path of a shared file, or skip with the reason: `shared("interop/engram/go.json")`."""
    return shared_path
