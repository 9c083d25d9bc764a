"""One running appview a data folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from appview import folder
from appview.errors import ConfigurationError, StoreBusy
from appview.folder import hold_folder

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from appview.folder import hold_folder
with hold_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data"
    with hold_folder(data):
        assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_second_process_is_told_who_has_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        assert folder.holder(tmp_path) == holder.pid
        with pytest.raises(StoreBusy, match=f"process {holder.pid}") as caught, hold_folder(tmp_path):
            pytest.fail("two at once")
        assert "--data" in caught.value.hint
        holder.kill()
        holder.wait(timeout=10)
        assert folder.holder(tmp_path) is None
        with hold_folder(tmp_path):  # a killed process holds nothing
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_same_process_can_hold_it_again_after_letting_go(tmp_path: Path) -> None:
    with hold_folder(tmp_path), pytest.raises(StoreBusy), hold_folder(tmp_path):
        pytest.fail("two at once")
    with hold_folder(tmp_path):
        pass


def test_nobody_holds_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert folder.holder(tmp_path / "absent") is None


def test_folder_that_cannot_be_made_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match="data folder"), hold_folder(tmp_path / "file"):
        pytest.fail("held a file")
    assert (tmp_path / "file").read_text() == "in the way"
