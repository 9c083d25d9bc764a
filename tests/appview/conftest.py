"""Fixtures of the appview's tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    """The threads that a process's databases share."""
    with ThreadPoolExecutor(4, thread_name_prefix="sqlite") as pool:
        yield pool


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Undo what a command that ran in this process made of the logs."""
    yield
    structlog.reset_defaults()
