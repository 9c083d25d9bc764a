"""Keys of an installation: made once, private, kept."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from appview.errors import StoreError
from appview.xrpc.keys import CURSOR_KEY_FILE, SERVICE_KEY_FILE, Keys

if TYPE_CHECKING:
    from pathlib import Path


def test_keys_are_made_once(tmp_path: Path) -> None:
    assert Keys.load(tmp_path) == Keys.load(tmp_path)


def test_two_installations_differ(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = Keys.load(tmp_path / "a"), Keys.load(tmp_path / "b")
    assert first.cursor_secret != second.cursor_secret
    assert first.public_key_multibase != second.public_key_multibase


def test_only_the_owner_reads_them_and_nothing_else_is_left(tmp_path: Path) -> None:
    Keys.load(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {CURSOR_KEY_FILE, SERVICE_KEY_FILE}
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_public_key_is_a_secp256k1_multikey(tmp_path: Path) -> None:
    assert Keys.load(tmp_path).public_key_multibase.startswith("zQ3sh")  # did:key of secp256k1


@pytest.mark.parametrize("name", [CURSOR_KEY_FILE, SERVICE_KEY_FILE])
def test_a_damaged_key_is_reported_and_left(tmp_path: Path, name: str) -> None:
    Keys.load(tmp_path)
    (tmp_path / name).write_bytes(b"short")
    with pytest.raises(StoreError, match=name):
        Keys.load(tmp_path)
    assert (tmp_path / name).read_bytes() == b"short"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        Keys.load(tmp_path / "absent")
