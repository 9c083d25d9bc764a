"""The service's version, wherever it runs from."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from appview.xrpc.service import project_version

ROOT = Path(__file__).resolve().parents[3]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_a_checkout_that_is_not_installed_has_the_version_of_its_project_file() -> None:
    script = (
        "from importlib import metadata\n"
        "def version(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = version\n"
        "from appview.xrpc.service import program_version\n"
        "print(program_version())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.strip() == DECLARED


@pytest.mark.parametrize(
    "content",
    [
        None,
        "not [ toml",
        "",
        "[project]\nname = 'another'\nversion = '9'\n",
        "[project]\nname = 'garden-engram'\n",
    ],
    ids=["missing", "damaged", "empty", "another project", "without version"],
)
def test_a_file_that_is_not_the_projects_names_no_version(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "pyproject.toml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    assert project_version(file) == "0+unknown"
