"""Fixtures of the appview's tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    """The threads that a process's databases share."""
    with ThreadPoolExecutor(4, thread_name_prefix="sqlite") as pool:
        yield pool
