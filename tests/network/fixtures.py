"""The fixture `devnet`: one real network a session, started when the first test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.network.devnet import Devnet

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def devnet() -> Iterator[Devnet]:
    """The official directory and one official PDS. Tests make accounts of their own on it."""
    with Devnet() as network:
        yield network
