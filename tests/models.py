"""The fixture `minilm`: a real small model, assembled once a session from the packages that ship it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embedders.packaged import assemble

if TYPE_CHECKING:
    from embedders.spec import FolderSpec


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> FolderSpec:
    """all-MiniLM-L6-v2 with int8 weights, 384 dims, in a folder; no network is used."""
    return assemble(tmp_path_factory.mktemp("minilm"))
